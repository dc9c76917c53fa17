"""The local engine: cells one after another, or several at once, each in a process of its own."""

import concurrent.futures
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from experiments.engine import cells
from experiments.engine.cells import Outcome
from experiments.engine.grid import Cell

POLL_S = 0.2


@dataclass
class Stop:
    """Passes SIGINT and SIGTERM on to the trainings, which save; no new ones begin then."""

    requested: int = 0  # the signal's number
    processes: list[subprocess.Popen] = field(default_factory=list)

    def __enter__(self) -> "Stop":
        self._earlier: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._earlier[number] = signal.signal(number, self._signal)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        self.requested = number
        for process in list(self.processes):
            if process.poll() is None:
                process.send_signal(number)

    def watch(self, process: subprocess.Popen) -> None:
        """Takes a process that signals are to be passed on to."""
        self.processes.append(process)
        if self.requested:
            process.send_signal(self.requested)


def core_sets(jobs: int) -> list[str]:
    """The cores this process may use, dealt out to so many jobs; all to each when there are too few."""
    if not hasattr(os, "sched_getaffinity"):
        return [""] * jobs
    ours = sorted(os.sched_getaffinity(0))
    if jobs == 1 or jobs > len(ours):
        return [""] * jobs
    return [",".join(map(str, ours[i::jobs])) for i in range(jobs)]


def run(
    todo: Sequence[Cell],
    out: Path,
    jobs: int = 1,
    retries: int = 2,
    keep_states: bool = False,
    devices: Sequence[str] = (),
    say: Callable[[str], None] = print,
) -> tuple[list[Outcome], int]:
    """Runs the cells.

    Args:
      jobs: how many at once; each keeps to its own set of cores. Not used with devices.
      devices: GPUs by number, one cell at a time on each.
    Returns:
      (an outcome per cell that was begun, the signal that stopped it or 0).
    """
    places: queue.SimpleQueue[tuple[str, dict[str, str] | None]] = queue.SimpleQueue()
    for cores in core_sets(jobs) if not devices else ():
        places.put((cores, None))
    for device in devices:
        places.put(("", {**os.environ, "CUDA_VISIBLE_DEVICES": device}))
    workers = len(devices) or jobs

    with Stop() as stop, concurrent.futures.ThreadPoolExecutor(workers) as pool:

        def one(cell: Cell) -> Outcome | None:
            if stop.requested:
                return None
            cores, environment = place = places.get()
            try:
                say(f"{cell}: begins")
                outcome = cells.run(
                    cell, out, retries, keep_states, say, environment, cores, stop.watch, lambda: bool(stop.requested)
                )
                say(describe(outcome))
                return outcome
            finally:
                places.put(place)

        waiting = {pool.submit(one, cell) for cell in todo}
        done: set[concurrent.futures.Future] = set()
        while waiting:
            new, waiting = concurrent.futures.wait(waiting, timeout=POLL_S)
            done |= new
        outcomes = [outcome for outcome in (future.result() for future in done) if outcome is not None]
    return outcomes, stop.requested


def describe(outcome: Outcome) -> str:
    """One line on a cell's end."""
    ended = "done" if outcome.ok else "interrupted" if outcome.interrupted else f"failed: {outcome.reason}"
    tries = f" ({outcome.attempts} tries)" if outcome.attempts > 1 else ""
    return f"{outcome.cell}: {ended} after {outcome.seconds:.0f} s{tries}"
