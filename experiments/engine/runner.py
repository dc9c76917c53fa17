"""Running cells: each in a training process of its own, one after another or several at once on this machine."""

import collections
import concurrent.futures
import contextlib
import hashlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run.interruption import drop_ignored
from experiments.engine import cells, evaluations
from experiments.engine.cells import CellState
from experiments.engine.grid import Cell
from experiments.engine.watch import Watch

POLL_S = 0.2
LONGEST_GROUP = 128  # characters, of a group's name in Weights & Biases
AHEAD = 2  # cells that a place is given at a time: each poll looks at all that are given
BUSY_S = 0.5  # before a cell that another process holds is tried again
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
INTERRUPTED = (program.INTERRUPTED, *(128 + s for s in SIGNALS), *(-s for s in SIGNALS))  # exit statuses


@dataclass(frozen=True)
class CellResult:
    """The outcome of running a cell."""

    cell: str  # its name
    done: bool
    reason: str = ""  # why it is not done, in one line
    interrupted: bool = False
    attempts: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        ended = "done" if self.done else "interrupted" if self.interrupted else f"failed: {self.reason}"
        tries = f" ({self.attempts} tries)" if self.attempts > 1 else ""
        return f"{self.cell}: {ended} after {self.seconds:.0f} s{tries}"


@dataclass(frozen=True)
class Effort:
    """Settings of how a cell is run."""

    retries: int = 2  # further tries after a failure; a run that diverged would diverge again
    keep_states: bool = False  # leave the whole checkpoints of a cell that is done; its policies stay anyway
    passed_on: tuple[str, ...] = ()  # options of train's that are no settings


@dataclass(frozen=True)
class Place:
    """The environment and the cores of one training at a time."""

    environment: Mapping[str, str] | None = None  # its environment variables; None for this process's
    cores: frozenset[int] = frozenset()  # the processor cores it may use; empty for all


def places(jobs: int, devices: Sequence[str] = ()) -> list[Place]:
    """List a place per device, or else per job; jobs that are no more than the cores share them out.

    Trainings that each start a thread per core take one another's time; on cores of their own they do not.
    """
    if devices:
        return [Place({**os.environ, "CUDA_VISIBLE_DEVICES": device}) for device in devices]
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    shared_out = 1 < jobs <= len(cores)
    return [Place(cores=frozenset(cores[job::jobs] if shared_out else ())) for job in range(jobs)]


@dataclass
class Stop:
    """Notes the signals that ask for the end and passes them on to the trainings, which save (see cli/program.py)."""

    signal: int = 0  # the last one's number
    count: int = 0
    trainings: set[subprocess.Popen] = field(default_factory=set)

    def __enter__(self) -> "Stop":
        self._earlier: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in drop_ignored(SIGNALS):
                self._earlier[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.signal, self.count = number, self.count + 1
        for training in list(self.trainings):
            training.send_signal(number)

    @contextlib.contextmanager
    def passing_on(self, training: subprocess.Popen) -> Any:
        """Pass signals on to a training while it lives."""
        self.trainings.add(training)
        try:
            if self.signal:
                training.send_signal(self.signal)
            yield
        finally:
            self.trainings.discard(training)


def run(
    todo: Sequence[Cell], out: Path, effort: Effort, watch: Watch, jobs: int = 1, devices: Sequence[str] = ()
) -> tuple[list[CellResult], int]:
    """Run the cells on this machine.

    Args:
      jobs: number of trainings at once. Not used with devices.
      devices: GPUs by number, each with one training at a time.
    Returns:
      (a result per cell that was begun, the signal that stopped it or 0).
    """
    free: queue.SimpleQueue[Place] = queue.SimpleQueue()
    for place in (every := places(jobs, devices)):
        free.put(place)

    with Stop() as stop, concurrent.futures.ThreadPoolExecutor(len(every)) as pool:

        def one(cell: Cell) -> CellResult | None:
            place = free.get()
            try:
                return None if stop.signal else run_cell(cell, out, effort, watch.say, stop, place)
            finally:
                free.put(place)

        results, queued, waiting = [], collections.deque(todo), dict[concurrent.futures.Future, Cell]()
        while waiting or (queued and not stop.signal):
            while queued and not stop.signal and len(waiting) < AHEAD * len(every):
                cell = queued.popleft()
                waiting[pool.submit(one, cell)] = cell
            ended, _ = concurrent.futures.wait(waiting, POLL_S, concurrent.futures.FIRST_COMPLETED)
            for future in ended:
                cell, result = waiting.pop(future), future.result()
                if result:
                    results.append(result)
                    watch.end(cell, str(result))
                elif not stop.signal:  # the other cells come first
                    watch.wait_for(cell)
                    queued.append(cell)
            watch.show()
    return results, stop.signal


def run_cell(
    cell: Cell,
    out: Path,
    effort: Effort,
    say: Callable[[str], None],
    stop: Stop,
    place: Place = Place(),
) -> CellResult | None:
    """Bring a cell to its end, from its last checkpoint when it has one; None when another process is at work in it."""
    folder, began = cell.folder(out), time.monotonic()

    def train(arguments: Sequence[str]) -> int:
        with_name = replace(place, environment={**(place.environment or os.environ), **_group(cell)})
        return _train([*arguments, *effort.passed_on], cells.log_path(folder), lock or 0, stop, with_name)

    try:
        with cells.hold(folder) as lock:
            if lock is None:
                time.sleep(BUSY_S)
                return None
            result = _complete(cell, out, effort, say, train)
            if not result.done and not result.interrupted and result.reason != CellState.DIVERGED.value:
                cells.note_failure(folder, result.reason)
    except OSError as error:  # a full disk, a folder taken away
        result = CellResult(str(cell), False, f"{error.filename or folder}: {error.strerror or error}")
    except ConfigError as error:  # what was trained is not what was asked for
        result = CellResult(str(cell), False, str(error))
    return replace(result, seconds=time.monotonic() - began)


def _group(cell: Cell) -> dict[str, str]:
    """Returns the environment by which Weights & Biases keeps the runs of a condition together."""
    name = cell.condition.name
    if len(name) > LONGEST_GROUP:  # what tells it from others may stand at its end
        name = f"{name[: LONGEST_GROUP - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    return {"WANDB_RUN_GROUP": os.environ.get("WANDB_RUN_GROUP", name)}


def _complete(
    cell: Cell, out: Path, effort: Effort, say: Callable[[str], None], train: Callable[[Sequence[str]], int]
) -> CellResult:
    """Train until the cell is done, its tries are used up, or another try would end like the last."""
    name, folder, attempts, reason, status = str(cell), cell.folder(out), 0, "", None
    while True:
        found = cells.inspect(cell, out)
        if found.state in (CellState.DONE, CellState.DIVERGED):
            done = found.state is CellState.DONE
            if done and not effort.keep_states:
                cells.remove_checkpoints(folder)
            cells.note_end(folder, found.state)
            return CellResult(name, done, "" if done else found.state.value, attempts=attempts)
        if found.state is CellState.DAMAGED and status in (program.DONE, program.DIVERGED):  # not the disk
            reason = f"{found.reason}, though its training ended well; if curious_jax was changed meanwhile, "
            return CellResult(name, False, f"{reason}the same command continues", attempts=attempts)
        if found.state is not CellState.STARTED and folder.exists():
            why = found.reason if found.state is CellState.DAMAGED else "its run has no checkpoint to resume"
            say(f"{name}: {why}; kept as {cells.put_aside(folder, CellState.DAMAGED.value).name}, and run again")
        if attempts > effort.retries:
            return CellResult(name, False, reason, attempts=attempts)
        resume = found.state is CellState.STARTED
        if not attempts:
            say(f"{name}: {'resumes' if resume else 'begins'}; log: {cells.log_path(folder)}")
        status = train(_resuming(cell, folder) if resume else [*cell.arguments(), "--out", str(folder)])
        attempts += 1
        if status in INTERRUPTED:
            return CellResult(name, False, "interrupted", True, attempts)
        reason = _reason(cells.log_path(folder), status)
        if status == program.BAD_INPUT:
            if not (problem := cells.damage(folder)):
                return CellResult(name, False, reason, attempts=attempts)
            say(f"{name}: {problem}; kept as {cells.put_aside(folder, CellState.DAMAGED.value).name}, and run again")
        if status not in (program.DONE, program.DIVERGED):
            say(f"{name}: {reason}")


def _resuming(cell: Cell, folder: Path) -> list[str]:
    """Give the command line of curious_jax.train that resumes a cell's run, to more episodes if it had fewer."""
    config = cells.read_config(folder)
    if config is None or not evaluations.is_shorter(cell, config):
        return ["--resume", str(folder)]
    cells.note_path(folder).unlink(missing_ok=True)  # of the end that it had
    return ["--resume", str(folder), "--episodes", str(evaluations.length(cell))]


def _train(arguments: Sequence[str], log: Path, lock: int, stop: Stop, place: Place) -> int:
    """Run curious_jax.train once; returns its exit status, negative for the signal that killed it."""
    with open(log, "a") as file, _on(place.cores):
        training = subprocess.Popen(
            [sys.executable, "-m", "curious_jax.train", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            pass_fds=(lock,),  # the cell is held while the training lives, whatever becomes of this process
            start_new_session=True,  # Ctrl-C is passed on, once
            env=None if place.environment is None else dict(place.environment),
        )
    with stop.passing_on(training):
        while True:
            try:
                return training.wait(POLL_S)
            except subprocess.TimeoutExpired:
                pass
            except KeyboardInterrupt:  # how Ray stops a worker
                training.terminate()


@contextlib.contextmanager
def _on(cores: frozenset[int]) -> Iterator[None]:
    """Keep this thread, and what it starts meanwhile, on some cores."""
    if not cores:
        yield
        return
    earlier = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, earlier)


def _reason(log: Path, status: int) -> str:
    """Why a training ended as it did, in one line."""
    if status < 0:
        return f"killed by signal {-status}"
    with contextlib.suppress(OSError):
        for line in reversed(log.read_text(errors="replace").splitlines()):
            if line.strip():
                return f"exit status {status}: {line.strip()}"
    return f"exit status {status}"
