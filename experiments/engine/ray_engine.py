"""The Ray engine: cells spread over the machines of a Ray cluster, or over the cores of this one.

Ray gives each cell its GPU or its share of cores, and tries a cell again on another machine when one is lost; it then
resumes from its folder. So the output folder must be one that all machines see, and curious_jax installed on them.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax.errors import ConfigError, check_installed
from experiments.engine.grid import Cell
from experiments.engine.runner import POLL_S, CellResult, Effort, Place, Stop, run_cell
from experiments.engine.watch import Watch

ROOT = Path(__file__).resolve().parent.parent.parent  # where the packages are
LOST = 3  # times that a cell may lose its machine


def work(cell: Cell, out: str, effort: Effort, search_path: str) -> CellResult:
    """Run one cell in a Ray worker; CUDA_VISIBLE_DEVICES is Ray's and is handed to the training."""
    place = Place({**os.environ, "PYTHONPATH": search_path})
    while True:
        result = run_cell(cell, Path(out), effort, print, Stop(), place)
        if result:
            return result


def run(
    todo: Sequence[Cell], out: Path, effort: Effort, watch: Watch, cpus: int, gpus: float, address: str | None
) -> tuple[list[CellResult], int]:
    """Run the cells; a signal lets them save, a second one stops them at once.

    Returns:
      (a result per cell, the signal that stopped it or 0).
    Raises:
      ConfigError: when Ray is not installed, or its cluster cannot be reached.
    """
    ray = _connect(address)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=LOST)(work)
    results, told = [], 0
    with Stop() as stop:
        waiting = {task.remote(cell, str(out.absolute()), effort, path): cell for cell in todo}
        while waiting:
            ended, _ = ray.wait(list(waiting), timeout=POLL_S)
            if stop.count > told:
                for reference in waiting:
                    ray.cancel(reference, force=told > 0)
                told = stop.count
            for reference in ended:
                cell = waiting.pop(reference)
                results.append(_result(ray, reference, cell))
                watch.end(cell, str(results[-1]))
            watch.show()
        ray.shutdown()
    return results, stop.signal


def _result(ray: Any, reference: Any, cell: Cell) -> CellResult:
    """Reads what a task returned; a machine lost too often is a failed cell like others."""
    try:
        return ray.get(reference)
    except ray.exceptions.TaskCancelledError:
        return CellResult(str(cell), False, "interrupted", True)
    except Exception as error:  # Ray's own kinds, and whatever its worker raised
        return CellResult(str(cell), False, " ".join(str(error).split())[:300])


def load() -> Any:
    """Import Ray. Raises ConfigError when it is not installed."""
    check_installed("--engine ray", "ray", "ray")
    import ray

    return ray


def _connect(address: str | None) -> Any:
    """Join a Ray cluster, or start one on this machine."""
    ray = load()
    try:
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"--ray-address {address or 'local'}: cannot be reached ({reason})") from None
    return ray
