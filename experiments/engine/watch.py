"""Shows a sweep under way: cells done, the time left, and each running cell's success so far.

All of it is read from the cells' metrics.jsonl, so it is the same wherever the cells run.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from curious_jax.run import folder as runfolder
from experiments.engine import cells, evaluations
from experiments.engine.grid import Cell

LIVE_S, LINES_S = 1.0, 60.0  # between two looks: with bars, in a terminal; with lines, elsewhere
TAIL = 2**16  # bytes that hold the last evaluation of all seeds


@dataclass(frozen=True)
class Look:
    """The progress of a cell."""

    episodes: int  # per seed, at its last evaluation
    total: int  # that it will be trained for
    success: float | None  # then, mean over seeds

    @property
    def share(self) -> float:
        """The share of its episodes that are done."""
        return min(1.0, self.episodes / self.total)

    def __str__(self) -> str:
        success = "" if self.success is None else f", success {self.success:.2f}"
        return f"{self.episodes:,} of {self.total:,} episodes{success}"


def look(cell: Cell, out: Path) -> Look:
    """Read a cell's last evaluation."""
    total = cell.condition.config().schedule.episodes
    rows, _ = evaluations.parse_rows(_tail(cell.folder(out) / runfolder.METRICS))
    if not rows:
        return Look(0, total, None)
    last = [row.get("eval/success") for row in rows if row["episodes"] == rows[-1]["episodes"]]
    success = [value for value in last if isinstance(value, (int, float))]
    return Look(rows[-1]["episodes"], total, sum(success) / len(success) if success else None)


def _tail(path: Path) -> bytes:
    """The whole lines among a file's last TAIL bytes."""
    if not path.is_file():
        return b""
    with open(path, "rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL)
        file.seek(start)
        data = file.read()
    return data.partition(b"\n")[2] if start else data


class Watch:
    """Shows the cells of a sweep while it runs; `say` may be called by any thread."""

    def __init__(self, todo: Sequence[Cell], out: Path):
        self._out, self._began, self._looked = out, time.monotonic(), 0.0
        self._left = {str(cell): cell for cell in todo}
        self._metrics = {name: str(cell.folder(out) / runfolder.METRICS) for name, cell in self._left.items()}
        self._stamps: dict[str, tuple[int, int] | None] = {}
        self._looks: dict[str, Look] = {}  # of the cells that are left and have begun
        self._look()
        self._first = dict(self._looks)
        self._total = len(todo)
        self._ended, self._busy = 0, list[Cell]()
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[note]}")
        self._bars = Progress(*columns, console=self._console, transient=True)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Watch":
        if self._console.is_terminal and self._left:
            self._bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bars.stop()

    def say(self, text: str) -> None:
        """Print a line; a reader who has gone away does not stop the sweep."""
        with contextlib.suppress(OSError):
            self._console.print(text)

    def wait_for(self, cell: Cell) -> None:
        """Say, once, that another process is at work in a cell."""
        if cell not in self._busy:
            self._busy.append(cell)
            self.say(f"{cell}: another process is at work in it; waiting for its end")

    def end(self, cell: Cell, result: str) -> None:
        """Take note of a cell's end."""
        self._left.pop(str(cell), None)
        self._looks.pop(str(cell), None)
        self._ended += 1
        if str(cell) in self._tasks:
            self._bars.remove_task(self._tasks.pop(str(cell)))
        self.say(f"{result}; {self._ended} of {self._total} cells")

    def _look(self) -> None:
        """Read the last evaluation of each cell that has one since the last look, of thousands that may have none."""
        for name, cell in self._left.items():
            if (stamp := cells.take_stamp(self._metrics[name])) != self._stamps.get(name):
                self._looks[name], self._stamps[name] = look(cell, self._out), stamp

    def show(self) -> None:
        """Show how far the cells are, when it is time for it."""
        live, now = self._console.is_terminal, time.monotonic()
        if now - max(self._looked, self._began) < (LIVE_S if live else LINES_S):
            return
        self._looked = now
        self._look()
        done = self._ended + sum(one.share for one in self._looks.values())
        gained = done - sum(one.share for one in self._first.values())
        left = timedelta(seconds=round((now - self._began) * (self._total - done) / gained)) if gained > 0 else "?"
        running = {
            name: one
            for name, one in self._looks.items()
            if one.episodes > (self._first[name].episodes if name in self._first else 0)
        }
        if live:
            self._draw(f"{self._ended} of {self._total} cells", done / self._total, f"ETA {left}")
            for name, one in running.items():
                self._draw(name, one.share, str(one))
        else:
            lines = [f"{self._ended} of {self._total} cells, {100 * done / self._total:.0f} %, ETA {left}"]
            self.say("\n".join([*lines, *(f"  {name}: {one}" for name, one in running.items())]))

    def _draw(self, name: str, share: float, note: str) -> None:
        """Draw a bar."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=1.0, note=note)
        self._bars.update(self._tasks[name], completed=share, note=note)
