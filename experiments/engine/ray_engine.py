"""The Ray engine: cells spread over the machines of a Ray cluster, or over the cores of this one.

Ray gives each cell its GPU or its share of cores, and tries a cell again on another machine when one is lost; it then
goes on from its folder. So the output folder must be one that all machines see, and curious_jax installed on them.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from curious_jax.errors import ConfigError
from experiments.engine import cells
from experiments.engine.cells import Outcome
from experiments.engine.grid import Cell
from experiments.engine.runner import describe

ROOT = Path(__file__).resolve().parents[2]  # where the packages are
LOST = 3  # times that a cell may lose its machine


def work(cell: Cell, out: str, retries: int, keep_states: bool, search_path: str) -> Outcome:
    """One cell, in a Ray worker; CUDA_VISIBLE_DEVICES is Ray's and passes on to the training."""
    environment = {**os.environ, "PYTHONPATH": search_path}
    return cells.run(cell, Path(out), retries, keep_states, print, environment)


def run(
    todo: Sequence[Cell],
    out: Path,
    retries: int,
    keep_states: bool,
    cpus: int,
    gpus: float,
    address: str | None,
    say: Callable[[str], None] = print,
) -> tuple[list[Outcome], int]:
    """Runs the cells; (an outcome per cell, 0), or what there is and 2 (SIGINT) when stopped by Ctrl-C.

    Raises:
      ConfigError: when Ray is not installed, or its cluster cannot be reached.
    """
    ray = _connected(address)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=LOST)(work)
    names = {task.remote(cell, str(out.absolute()), retries, keep_states, path): cell for cell in todo}
    outcomes, waiting = [], list(names)
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            outcome = _result(ray, done[0], names[done[0]])
            outcomes.append(outcome)
            say(describe(outcome))
    except KeyboardInterrupt:
        for left in waiting:
            ray.cancel(left, force=True)
        return outcomes, 2
    finally:
        ray.shutdown()
    return outcomes, 0


def _result(ray: Any, reference: Any, cell: Cell) -> Outcome:
    """What a task returned; a machine lost too often is a failed cell like others."""
    try:
        return ray.get(reference)
    except Exception as error:  # Ray's own kinds, and whatever its worker raised
        return Outcome(str(cell), False, reason=" ".join(str(error).split())[:300])


def load() -> Any:
    """Ray's module.

    Raises:
      ConfigError: when it is not installed.
    """
    try:
        import ray
    except ImportError:
        raise ConfigError('--engine ray: needs Ray; pip install "curious_jax[ray]"') from None
    return ray


def _connected(address: str | None) -> Any:
    """Ray, connected."""
    ray = load()
    try:
        ray.init(address=address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"--ray-address {address or 'local'}: cannot be reached ({reason})") from None
    return ray
