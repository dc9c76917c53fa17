"""Writes files whole or not at all, and opens only regular ones."""

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_NUMBERS = itertools.count()


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yields a neighbour's path, which takes the file's name when it is whole; an error leaves nothing behind."""
    scratch = path.with_name(
        f".{os.getpid()}-{next(_NUMBERS)}.new"
    )  # any name of the file's may be as long as a name can be
    try:
        yield scratch
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def write(path: Path, data: bytes) -> None:
    """Writes a whole file or nothing."""
    with atomic_write(path) as scratch:
        scratch.write_bytes(data)


def open_regular(path: Path) -> BinaryIO:
    """Opens a file that somebody else may have made: no link, pipe or device.

    Raises:
      OSError: saying that it is one, or why the file cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return open(descriptor, "rb")


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
