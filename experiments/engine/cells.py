"""A cell on disk: how far it is, and running it to its end in a process of its own.

A cell's folder is an ordinary run folder (`curious_jax.evaluate`, `curves` and `train --resume` take it). Beside it
lies NAME.lock, held by whoever works on the cell and by the training process itself, so that a cell whose supervisor
was killed is not begun twice; and NAME.log, what the training printed.
"""

import contextlib
import dataclasses
import enum
import fcntl
import functools
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import checkpoints
from curious_jax.run import folder as runfolder
from experiments.engine.grid import CELLS, Cell, Condition, show

CONDITION = "condition.json"
LOCK_POLL_S = 0.5
INTERRUPTED = (program.INTERRUPTED, 143, -signal.SIGINT, -signal.SIGTERM)  # it saved, or had nothing to save yet


class Stage(enum.Enum):
    """How far a cell is."""

    MISSING = "missing"  # nothing there, or nothing that could go on
    STARTED = "started"  # a checkpoint is there to go on from
    DONE = "done"
    DIVERGED = "diverged"  # it ended with numbers that are not finite, and would again


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of running a cell."""

    cell: str  # its name
    ok: bool
    interrupted: bool = False
    reason: str = ""  # why it is not done, in one line
    attempts: int = 0
    seconds: float = 0.0


def summary_of(folder: Path) -> dict[str, Any]:
    """summary.json, or nothing."""
    try:
        found = json.loads((folder / runfolder.SUMMARY).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def stage(folder: Path) -> Stage:
    """Reads off a run folder how far its cell is."""
    status = summary_of(folder).get("status")
    if status in ("completed", "target_reached"):
        return Stage.DONE
    if status == "diverged":
        return Stage.DIVERGED
    if (folder / runfolder.CONFIG).is_file() and checkpoints.states(folder / runfolder.CHECKPOINTS):
        return Stage.STARTED
    return Stage.MISSING


def lock_path(folder: Path) -> Path:
    """The lock of a cell."""
    return folder.with_name(folder.name + ".lock")


def log_path(folder: Path) -> Path:
    """What a cell's training printed."""
    return folder.with_name(folder.name + ".log")


@contextlib.contextmanager
def held(
    folder: Path, waiting: Callable[[], None] | None = None, stopping: Callable[[], bool] = bool
) -> Iterator[int | None]:
    """Holds a cell's lock, once whoever has it is gone; yields its file descriptor, which a child may inherit.

    Args:
      waiting: called once when somebody else has it.
      stopping: asked while waiting; when it says True the wait is over and None is yielded, without the lock.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(lock_path(folder), "a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waiting:
                    waiting()
                    waiting = None
                if stopping():
                    yield None
                    return
                time.sleep(LOCK_POLL_S)
        yield file.fileno()


def failure_path(folder: Path) -> Path:
    """Why a cell failed when it was last tried; not there when it did not."""
    return folder.with_name(folder.name + ".failed")


def failure(folder: Path) -> str:
    """Why a cell failed when it was last tried, or nothing."""
    with contextlib.suppress(OSError):
        return failure_path(folder).read_text().strip()
    return ""


def write_condition(out: Path, condition: Condition, dry: bool = False) -> None:
    """Notes a condition's labels and settings in its folder, or compares with what is noted there.

    Args:
      dry: compare only.
    Raises:
      ConfigError: when the folder's cells were run with other settings.
    """
    path = out / CELLS / condition.name / CONDITION
    asked = runfolder.plain({"labels": condition.labels, "settings": condition.settings})
    if path.is_file():
        check_condition(path, asked)
    if dry or path.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    runfolder.write_json(path, asked)


def check_condition(path: Path, asked: Mapping[str, Any]) -> None:
    """Refuses settings that differ from those that the folder's cells have.

    Raises:
      ConfigError: naming the first that differs and both values.
    """
    held_there = json.loads(path.read_text())["settings"]
    wanted = asked["settings"]
    for name in sorted({*held_there, *wanted}):
        was, now = (show(s[name]) if name in s else "its default" for s in (held_there, wanted))
        if was != now:
            option = "--" + name.replace("_", "-")
            raise ConfigError(
                f"{option} {now}: the cells in {path.parent} have {was}; ask for that, or name another --out"
            )


def run(
    cell: Cell,
    out: Path,
    retries: int = 2,
    keep_states: bool = False,
    say: Callable[[str], None] = print,
    environment: Mapping[str, str] | None = None,
    cores: str = "",
    started: Callable[[subprocess.Popen], None] | None = None,
    stopping: Callable[[], bool] = bool,
) -> Outcome:
    """Brings a cell to its end: from its last checkpoint when it has one, else anew; again when it fails.

    Args:
      retries: how often more it is tried after a failure (a diverged run is no such failure: it would diverge again).
      keep_states: leave the whole checkpoints of a cell that is done, which take the room; its policies stay anyway.
      environment: the training process's environment variables; None for ours.
      cores: the cores that it keeps to, such as "0,1"; empty for all.
      started: gets the process, to pass on signals.
      stopping: True once a signal asked for the end.
    """
    folder, began = cell.folder(out), time.monotonic()
    with held(folder, lambda: say(f"{cell}: another process is at work in it; waiting for its end"), stopping) as lock:
        if lock is None:
            return Outcome(str(cell), False, True, "interrupted")
        failure_path(folder).unlink(missing_ok=True)
        train = functools.partial(_train, cell, folder, lock, environment, cores, started)
        outcome = _to_the_end(str(cell), folder, retries, say, train)
        for state in checkpoints.states(folder / runfolder.CHECKPOINTS) if outcome.ok and not keep_states else ():
            shutil.rmtree(state)
        if not outcome.ok and not outcome.interrupted:
            failure_path(folder).write_text(outcome.reason + "\n")
    return dataclasses.replace(outcome, seconds=time.monotonic() - began)


def _to_the_end(
    name: str, folder: Path, retries: int, say: Callable[[str], None], train: Callable[[Stage], int]
) -> Outcome:
    """Trains until the cell is done, its tries are used up, or trying again is of no use."""
    attempts, reason = 0, ""
    while True:
        at = stage(folder)
        if at is Stage.DONE:
            return Outcome(name, True, attempts=attempts)
        if at is Stage.DIVERGED:
            return Outcome(name, False, reason="diverged", attempts=attempts)
        if attempts > retries:
            return Outcome(name, False, reason=reason, attempts=attempts)
        status = train(at)
        attempts += 1
        if status in INTERRUPTED:
            return Outcome(name, False, True, "interrupted", attempts)
        reason = _reason(folder, status)
        if status == program.BAD_INPUT and at is Stage.MISSING:
            return Outcome(name, False, reason=reason, attempts=attempts)
        if status == program.BAD_INPUT:  # a checkpoint that cannot be used
            say(f"{name}: {reason}; begun anew")
            _remove(folder)
        elif status not in (program.DONE, program.DIVERGED):
            say(f"{name}: {reason}")


def _train(
    cell: Cell,
    folder: Path,
    lock: int,
    environment: Mapping[str, str] | None,
    cores: str,
    started: Callable[[subprocess.Popen], None] | None,
    at: Stage,
) -> int:
    """One go of curious_jax.train; its exit status, negative for the signal that killed it."""
    if at is Stage.MISSING:
        _remove(folder)
        arguments = [*cell.arguments(), "--out", str(folder)]
    else:
        arguments = ["--resume", str(folder)]
    command = [sys.executable, "-m", "experiments.engine.child", f"--cores={cores}", *arguments]
    with open(log_path(folder), "a") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(lock,),  # the lock is held while it lives, whatever becomes of us
            start_new_session=True,  # Ctrl-C is ours to pass on
            env=None if environment is None else dict(environment),
        )
        if started:
            started(process)
        return process.wait()


def _remove(folder: Path) -> None:
    """What is left of a run that cannot go on."""
    if folder.exists():
        shutil.rmtree(folder)


def _reason(folder: Path, status: int) -> str:
    """Why a training ended as it did, in one line."""
    if status < 0:
        return f"killed by signal {-status}"
    last = ""
    with contextlib.suppress(OSError):
        lines = log_path(folder).read_text(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
    return f"exit status {status}: {last.strip()}" if last else f"exit status {status}"
