"""Writes files and folders whole or not at all, lets them last a power cut, and opens only regular files."""

import contextlib
import errno
import io
import itertools
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NUMBERS = itertools.count()


def sync(path: Path) -> None:
    """Makes a file's content, or a folder's list of names, last a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a neighbour's path, which takes the file's name once it is on the disk; an error leaves nothing behind."""
    scratch = path.with_name(f".{os.getpid()}-{next(_NUMBERS)}.new")  # short: the file's name may fill a name's length
    try:
        yield scratch
        sync(scratch)
        os.replace(scratch, path)
        sync(path.parent)
    finally:
        scratch.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Writes a whole file or nothing."""
    with atomic_write(path) as scratch:
        scratch.write_bytes(data)


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yields a neighbour's path, a folder to fill, which takes the name once its files are on the disk.

    An error leaves nothing behind, nor the folders above it that were made for it.
    """
    scratch = path.with_name(f".{os.getpid()}-{next(_NUMBERS)}.new")
    made = [above for above in path.absolute().parents if not above.exists()]
    try:
        scratch.mkdir(parents=True)
        yield scratch
        for file in scratch.iterdir():
            sync(file)
        sync(scratch)
        os.rename(scratch, path)
        sync(path.parent)
        made = []
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for above in made:
            with contextlib.suppress(OSError):
                above.rmdir()


def open_regular(path: str | Path) -> io.BufferedReader:
    """Opens a file that somebody else may have made: no link, pipe or device.

    Raises:
      OSError: saying that it is one, or why the file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, "rb")


def read_text(path: str | Path) -> str:
    """Reads a regular file of UTF-8 text.

    Raises:
      OSError, UnicodeDecodeError: when it is none.
    """
    with open_regular(path) as file:
        return file.read().decode()


def read_object(path: Path) -> dict[str, Any]:
    """Reads the object in a JSON file; an empty one when there is no such file, or it holds something else."""
    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def remove(path: Path) -> None:
    """Removes a folder; when the program is killed half-way, nothing of it stays under its name."""
    old = path.with_name(f".{path.name}.new")
    shutil.rmtree(old, ignore_errors=True)
    os.rename(path, old)
    shutil.rmtree(old, ignore_errors=True)


def recover(old: Path) -> None:
    """Ends the replacement of a folder NAME by a new one, which a kill or an error may have left half-way.

    Args:
      old: `.NAME.old`, the one that is replaced; it takes its name back where there is no new one.
    """
    folder = old.with_name(old.name.removeprefix(".").removesuffix(".old"))
    if old.exists() and not folder.exists():
        os.rename(old, folder)
    shutil.rmtree(old, ignore_errors=True)


def place(run: Path, name: str) -> Path:
    """Returns where a picture of a run goes by default.

    That is the run's folder if it can be written to and holds a checkpoint, so that it is where somebody trains; else
    (pretrained/NAME, a copy such as docs/results/NAME) the current folder, with the run's name before the file's.
    """
    with contextlib.suppress(OSError):
        steps = [path.name.removeprefix("state-") for path in (run / "checkpoints").iterdir()]
        if any(step.isdecimal() for step in steps) and os.access(run, os.W_OK | os.X_OK):
            return run / name
    return Path(f"{run.resolve().name}-{name}")
