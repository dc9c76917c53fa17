"""Where the rows of metrics go: the terminal, metrics.jsonl, curves.png, TensorBoard when it is installed.

A row is a flat dict of the keys in DESIGN's metrics.jsonl, one per evaluation and seed.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from curious_jax import curves, runfolder

Row = dict[str, Any]
TENSORBOARD = "tensorboard"  # folder inside the run's
COUNTERS = ("seed", "episodes", "wall_s")  # not curves of their own in TensorBoard


class Sink(Protocol):
    """Something that takes each evaluation's rows (one per seed)."""

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Takes one evaluation."""
        ...

    def close(self) -> None:
        """Writes what is still held back."""
        ...


class JsonLines:
    """metrics.jsonl: a line per row, flushed at once."""

    def __init__(self, folder: runfolder.RunFolder):
        self._folder = folder

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Appends the rows."""
        self._folder.write_rows(list(rows))

    def close(self) -> None:
        """Closes the file."""
        self._folder.close()


class Curves:
    """curves.png, drawn anew as often as keeps drawing under about 2 % of the run, and at the end."""

    def __init__(self, path: Path, title: str, share: float = 0.02, earlier: Sequence[Row] = ()):
        self._path, self._title, self._share = path, title, share
        self._rows = list(earlier)  # of the run before it was resumed
        self._stale = False
        self._next = 0.0

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Keeps the rows, and draws when it is time."""
        self._rows.extend(runfolder.plain(list(rows)))
        self._stale = True
        if time.monotonic() >= self._next:
            self._draw()

    def _draw(self) -> None:
        start = time.monotonic()
        curves.draw(self._rows, self._path, self._title)
        end = time.monotonic()
        self._next, self._stale = end + (end - start) / self._share, False

    def close(self) -> None:
        """Draws what is not drawn yet."""
        if self._stale:
            self._draw()


class TensorBoard:
    """Scalars against training episodes; several seeds as seed0/..., seed1/..."""

    def __init__(self, writer: Any):
        self._writer = writer

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Writes every finite number of the rows."""
        for row in runfolder.plain(list(rows)):
            prefix = f"seed{row['seed']}/" if "seed" in row else ""
            for key, value in row.items():
                if key not in COUNTERS and isinstance(value, (int, float)) and math.isfinite(value):
                    self._writer.add_scalar(prefix + key, value, row["episodes"])
        self._writer.flush()

    def close(self) -> None:
        """Ends the event file."""
        self._writer.close()


def tensorboard(folder: Path, after: int | None = None) -> TensorBoard | None:
    """A TensorBoard sink below a run's folder, or None when no writer is installed.

    Args:
      after: the episodes from which the run goes on; what stands there beyond them is hidden.
    """
    logdir = str(folder / TENSORBOARD)
    try:
        from tensorboardX import SummaryWriter

        return TensorBoard(SummaryWriter(logdir, purge_step=None if after is None else after + 1))
    except ImportError:
        pass
    try:
        from tensorboard.summary import Writer

        return TensorBoard(Writer(logdir))
    except ImportError:
        return None
