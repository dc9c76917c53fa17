"""A cell on disk: how far its run is, and whether its files can be trusted.

A cell's folder NAME is an ordinary run folder (`curious_jax.evaluate`, `report` and `train --resume` take it). Beside
it lie NAME.json, which notes how the cell ended and the checksums of its files; NAME.log, what its trainings printed;
and NAME.lock, which a training holds for as long as it lives.
"""

import contextlib
import enum
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curious_jax import config as configs
from curious_jax.cli.parser import show
from curious_jax.config import TrainConfig, option_name
from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from experiments.engine.evaluations import (
    ABSENT,
    Row,
    has_ended,
    has_met_target,
    is_shorter,
    lacks,
    length,
    read_rows,
)
from experiments.engine.grid import CELLS, Cell

Stamp = tuple[tuple[int, int] | None, ...]
CHECKED = (runfolder.CONFIG, runfolder.METRICS)  # the files of a cell whose checksums are noted
REPORTING = "report.lock"  # beside the conditions: held by the process that writes table, figure and summary
MANIFEST = "manifest.json"  # in a checkpoint: the checksums of its files


class CellState(enum.Enum):
    """The state of a cell; the value is what the table calls it."""

    MISSING = "missing"  # nothing that a training could resume
    STARTED = "unfinished"  # its training can be resumed
    DONE = "done"
    DIVERGED = "diverged"  # it ended with numbers that are not finite, and would again
    DAMAGED = "damaged"  # it ended, but its files are not those that it ended with


RUN_STATUS = {"completed": CellState.DONE, "target_reached": CellState.DONE, "diverged": CellState.DIVERGED}


@dataclass(frozen=True)
class Inspection:
    """The state of a cell as its files tell it."""

    state: CellState
    rows: list[Row] = field(default_factory=list)  # its evaluations
    reason: str = ""  # why it is not done, in one line
    shorter: bool = False  # its run had ended, at fewer episodes than are asked for
    config: TrainConfig | None = None  # of its run; None where it cannot be read


def inspect(cell: Cell, out: Path) -> Inspection:
    """Read how far a cell is, and check the files of one that has ended.

    A run that ended at fewer episodes than the cell asks for, and before its target, is resumed from its checkpoint.

    Raises:
      ConfigError: when its folder holds the run of another condition, or a shorter one without a checkpoint.
    """
    folder = cell.folder(out)
    note, config = files.read_object(note_path(folder)), read_config(folder)
    if config:
        check_config(cell, config, folder)
    rows, problem = read_rows(folder / runfolder.METRICS)
    complete = config is not None and not problem and not lacks(cell, config, rows) and has_ended(cell, config, rows)
    state = _state(folder, note, config is not None, complete)
    shorter = state is CellState.DONE and config and is_shorter(cell, config) and not has_met_target(cell, config, rows)
    if config and shorter and not (problem or find_changed(folder, note)):
        if not checkpoints(folder):
            raise ConfigError(
                f"--episodes {length(cell)}: {folder} ended after {config.schedule.episodes} and kept no checkpoint "
                "to go on from (--keep-states keeps them); ask for that, or name another --out"
            )
        return Inspection(CellState.STARTED, rows, shorter=True, config=config)
    if state is CellState.MISSING:
        return Inspection(state, reason=note.get("reason", ""))
    if state is CellState.STARTED:
        return Inspection(state, rows, note.get("reason", ""), config=config)
    problem = problem or find_changed(folder, note)
    problem = problem or (
        lacks(cell, config, rows, state is CellState.DIVERGED) if config else f"{runfolder.CONFIG} cannot be read"
    )
    return Inspection(CellState.DAMAGED, reason=problem) if problem else Inspection(state, rows, config=config)


class Inspections:
    """Keeps what `inspect` found of cells that had ended, for as long as their files keep their times and sizes.

    It is one process's own: every process checks each file itself, once.
    """

    def __init__(self) -> None:
        self._kept: dict[Path, tuple[Cell, Stamp, Inspection]] = {}

    def inspect(self, cell: Cell, out: Path) -> Inspection:
        """As the function of this name; of a cell that had ended, only once while its files stay as they are."""
        folder = cell.folder(out)
        stamp = _take_stamps(folder)
        if (kept := self._kept.get(folder)) and kept[:2] == (cell, stamp):
            return kept[2]
        found = inspect(cell, out)
        self._kept.pop(folder, None)
        if found.state in RUN_STATUS.values():
            self._kept[folder] = (cell, stamp, found)
        return found


def _take_stamps(folder: Path) -> Stamp:
    """The time and size of everything that `inspect` reads of a cell; None for what is not there."""
    names = (runfolder.CONFIG, runfolder.METRICS, runfolder.SUMMARY, runfolder.CHECKPOINTS)
    return tuple(take_stamp(path) for path in (note_path(folder), *(folder / name for name in names)))


def take_stamp(path: str | Path) -> tuple[int, int] | None:
    """The time of a file's last change, and its size; None when it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _state(folder: Path, note: dict[str, Any], readable: bool, complete: bool) -> CellState:
    """The state by the note, or else by summary.json, or else by the files there are.

    Args:
      readable: config.json can be read.
      complete: metrics.jsonl holds every evaluation of the run.
    """
    if (noted := note.get("state")) in (CellState.DONE.value, CellState.DIVERGED.value):
        return CellState(noted)
    status = files.read_object(folder / runfolder.SUMMARY).get("status")
    if isinstance(status, str) and status in RUN_STATUS:
        return RUN_STATUS[status]
    if checkpoints(folder):
        return CellState.STARTED
    if complete:  # only its summary was lost
        return CellState.DONE
    metrics = folder / runfolder.METRICS
    untouched = readable and not (metrics.exists() and metrics.stat().st_size)
    return CellState.STARTED if untouched else CellState.MISSING


def read_config(folder: Path) -> TrainConfig | None:
    """The config of a run; None when it cannot be read."""
    try:
        return configs.from_dict(files.read_object(folder / runfolder.CONFIG) or {"modules": None})
    except (ConfigError, TypeError, AttributeError):
        return None


def find_changed(folder: Path, note: dict[str, Any]) -> str:
    """Name the file that is not what it was when the cell ended; empty when none is."""
    noted = note.get("sha256")
    for name, checksum in noted.items() if isinstance(noted, dict) else ():
        try:
            same = sha256(folder / name) == checksum
        except ABSENT:
            same = False
        if not same:
            return f"{name} is not what was written"
    return ""


def sha256(path: Path) -> str:
    """A file's checksum."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def checkpoints(folder: Path) -> list[Path]:
    """The whole checkpoints of a run."""
    found = (folder / runfolder.CHECKPOINTS).glob("*")
    return [path for path in found if re.fullmatch(r"(state-)?\d+", path.name) and path.is_dir()]


def remove_checkpoints(folder: Path) -> None:
    """Remove the whole checkpoints of a run that has ended; its policies stay."""
    for checkpoint in checkpoints(folder):
        shutil.rmtree(checkpoint)


def damage(folder: Path) -> str:
    """Say what is wrong with a run's checkpoints when none of them is what was written; empty when one is.

    Each checkpoint holds the checksums of its files; one named state-N is of a version that noted none, and counts as
    sound.
    """
    problem = ""
    for path in checkpoints(folder):
        manifest = files.read_object(path / MANIFEST)
        problem = find_changed(path, manifest) if manifest else f"{MANIFEST} cannot be read"
        if not problem or path.name.startswith("state-"):
            return ""
        problem = f"checkpoint {path.name} is damaged: {problem}"
    return problem


def has_begun(folder: Path) -> bool:
    """Say whether anything was ever run in a cell."""
    return folder.exists() or note_path(folder).exists()


def note_path(folder: Path) -> Path:
    """The file that notes how a cell ended."""
    return folder.with_name(folder.name + ".json")


def log_path(folder: Path) -> Path:
    """The file that holds what a cell's trainings printed."""
    return folder.with_name(folder.name + ".log")


def note_end(folder: Path, state: CellState) -> None:
    """Note that a cell has ended, and the checksums of its files."""
    checksums = {name: sha256(folder / name) for name in CHECKED}
    runfolder.write_json(note_path(folder), {"state": state.value, "sha256": checksums})
    if not folder.exists():  # put aside meanwhile, by a process that has no such note to forget
        note_path(folder).unlink(missing_ok=True)


def is_noted(folder: Path, state: CellState) -> bool:
    """Say whether it is noted that a cell ended so, with the checksums of its files, which `inspect` compares."""
    note = files.read_object(note_path(folder))
    checksums = note.get("sha256")
    return note.get("state") == state.value and isinstance(checksums, dict) and checksums.keys() == set(CHECKED)


def note_failure(folder: Path, reason: str) -> None:
    """Note why a cell failed."""
    runfolder.write_json(note_path(folder), {"state": "failed", "reason": reason})


def put_aside(folder: Path, word: str) -> Path:
    """Rename a cell's folder to WORD-N-NAME and forget its note; returns the new path. Nothing is deleted."""
    number = 1
    while (aside := folder.with_name(f"{word}-{number}-{folder.name}")).exists():
        number += 1
    folder.rename(aside)
    note_path(folder).unlink(missing_ok=True)
    return aside


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[int | None]:
    """Hold a cell; yields the lock's file descriptor, for the training to inherit, or None when another holds it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(folder.name + ".lock"), "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        except OSError:  # a file system without locks: train's own claim of the folder is left
            pass
        yield file.fileno()


@contextlib.contextmanager
def reporting(out: Path) -> Iterator[None]:
    """Hold the report of a folder, once no other process does; nobody waits where there are no locks, or no cells."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            fcntl.flock(stack.enter_context(open(out / CELLS / REPORTING, "a")), fcntl.LOCK_EX)
        yield


def check_config(cell: Cell, config: TrainConfig, folder: Path) -> None:
    """Refuse a run of another condition in a cell's folder; it may be shorter.

    Raises:
      ConfigError: naming the first setting that differs and both values.
    """
    condition = cell.condition
    asked = configs.to_dict(condition.of_preset(config.preset).config(cell.first, cell.count))
    held = configs.to_dict(config)
    free = {"devices", *(["episodes"] if is_shorter(cell, config) else [])}
    brought = {name for own in configs.PLATFORM_SETTINGS.values() for name in own} - condition.settings.keys()
    for name, (group, _) in configs.fields_by_name().items():
        was, now = (data[group][name] if group else data[name] for data in (held, asked))
        if was != now and name not in {*free, *brought} and group != "checkpoint":
            raise ConfigError(
                f"{folder}: its run has {option_name(name)} {show(was)} and this cell asks for {show(now)}; "
                "move it away, or name another --out"
            )
