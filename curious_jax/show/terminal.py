"""What a run shows while it learns: a live view in a terminal, plain lines elsewhere.

With several seeds every figure is the mean over seeds, followed by the range.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

BAR = 10  # characters
BLOCKS = " ▏▎▍▌▋▊▉█"
Row = dict[str, Any]


def bar(value: float, width: int = BAR) -> str:
    """A horizontal bar for a value in [0, 1], to an eighth of a character."""
    eighths = round(min(max(value, 0.0), 1.0) * width * 8) if np.isfinite(value) else 0
    full, rest = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[rest] if rest else "")).ljust(width)


def clock(seconds: float) -> str:
    """75 -> 1:15, 3675 -> 1:01:15."""
    if not np.isfinite(seconds):
        return "–:––"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def values(rows: Sequence[Row], key: str) -> np.ndarray:
    """A key's values over the seeds, those that are there and are numbers."""
    found = [row.get(key) for row in rows]
    return np.array([v for v in found if v is not None and np.isfinite(v)], dtype=float)


def figure(rows: Sequence[Row], key: str, form: str = ".2f") -> str:
    """A key's mean over the seeds, with the range when there are several: 0.93 [0.88 0.98]."""
    v = values(rows, key)
    if not v.size:
        return "–"
    text = format(v.mean(), form)
    return f"{text} [{v.min():{form}} {v.max():{form}}]" if len(rows) > 1 else text


def modules_of(row: Row) -> list[str]:
    """The modules of a metrics row, in their order."""
    return [key.removeprefix("p_module/") for key in row if key.startswith("p_module/")]


def speeds(rows: Sequence[Row]) -> str:
    """2,134 env steps/s, 160 updates/s."""
    steps, updates = values(rows, "perf/env_steps_per_s"), values(rows, "perf/updates_per_s")
    parts = [f"{v.mean():,.0f} {name}/s" for v, name in ((steps, "env steps"), (updates, "updates")) if v.size]
    return ", ".join(parts)


class Clock:
    """Episodes against wall time, for the ETA."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._marks: list[tuple[float, int]] = []

    def mark(self, episodes: int) -> None:
        """Notes that so many episodes are done now; the last few marks make the rate."""
        self._marks = [*self._marks[-9:], (time.monotonic(), episodes)]

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def remaining(self, total: int) -> float:
        """Seconds to `total` episodes at the recent rate; NaN before the first mark."""
        if not self._marks:
            return float("nan")
        (then, before), (now, done) = self._marks[0], self._marks[-1]
        if done == before:
            then, before = self.started, 0
        rate = (done - before) / max(now - then, 1e-9)
        return max(0.0, (total - done) / rate - (time.monotonic() - now)) if rate > 0 else float("nan")


class TerminalView:
    """Start with `open`, feed it evaluations, end with `close`. Lives on standard output."""

    def __init__(self, title: str, total_episodes: int, console: Console | None = None):
        self._title = title
        self._total = total_episodes
        self._console = console or Console(highlight=False)
        self._clock = Clock()
        self._rows: list[Row] = []
        self._status = "compiling and collecting the first episodes"
        self._live: Live | None = None

    def open(self) -> None:
        """Shows the title, and the live view in a terminal."""
        if not self._console.is_terminal:
            self._console.print(self._title, soft_wrap=True)
            return
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=2)
        self._live.start()

    def begin_at(self, episodes: int) -> None:
        """So many episodes were done before: a run that goes on."""
        if episodes:
            self._clock.mark(episodes)

    def note(self, text: str) -> None:
        """A line of its own, above the live view."""
        self._console.print(text, soft_wrap=True, markup=False)

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Shows one evaluation; one row per seed."""
        self._rows = list(rows)
        self._clock.mark(int(rows[0]["episodes"]))
        self._status = ""
        if self._live:
            self._live.refresh()
        else:
            self._console.print(self.line(), soft_wrap=True, markup=False)

    def close(self) -> None:
        """Leaves the last picture on the screen and the cursor below it."""
        if self._live:
            self._live.stop()
            self._live = None

    def line(self) -> str:
        """The last evaluation as one plain line."""
        rows = self._rows
        done = int(rows[0]["episodes"])
        per_module = "  ".join(
            f"{name} {figure(rows, f'eval/success/{name}')} (p {figure(rows, f'p_module/{name}')})"
            for name in modules_of(rows[0])
        )
        left = clock(self._clock.remaining(self._total))
        return (
            f"{done:,}/{self._total:,} episodes  {clock(self._clock.elapsed)} (ETA {left})  "
            f"success {figure(rows, 'eval/success')}: {per_module}  {speeds(rows)}"
        )

    def _render(self) -> Group:
        parts: list[Any] = [Text(self._title, style="bold"), self._progress()]
        if self._rows:
            parts += [module_table(self._rows), Text(self._footer(), style="dim")]
        return Group(*parts)

    def _progress(self) -> Table:
        done = int(self._rows[0]["episodes"]) if self._rows else 0
        grid = Table.grid(padding=(0, 1))
        if self._status:
            grid.add_row(Text(f"{self._status} …", style="dim"), Text(clock(self._clock.elapsed)))
            return grid
        grid.add_row(
            ProgressBar(total=self._total, completed=done, width=40),
            Text(f"{done:,}/{self._total:,} episodes"),
            Text(f"{clock(self._clock.elapsed)}  ETA {clock(self._clock.remaining(self._total))}", style="cyan"),
        )
        return grid

    def _footer(self) -> str:
        rows = self._rows
        losses = (("critic loss", "train/critic_loss"), ("actor loss", "train/actor_loss"), ("Q", "train/q_mean"))
        first = [f"mean success {figure(rows, 'eval/success')}", speeds(rows)]
        second = [f"{name} {figure(rows, key, '.3g')}" for name, key in losses if values(rows, key).size]
        bad = values(rows, "nan_episodes").sum()
        if bad:
            second.append(f"{bad:.0f} episodes left the finite range")
        return "\n".join("   ".join(part for part in line if part) for line in (first, second))


def module_table(rows: Sequence[Row]) -> Table:
    """Success, competence, LP and p_LP per module, with bars."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("module")
    for heading in ("success", "competence", "LP", "p_LP"):
        table.add_column(heading)
    for name in modules_of(rows[0]):
        success, chosen = values(rows, f"eval/success/{name}"), values(rows, f"p_module/{name}")
        shown = f"[green]{bar(success.mean())}[/] " if success.size else ""
        chance = f"[magenta]{bar(chosen.mean())}[/] " if chosen.size else ""
        table.add_row(
            Text(name),
            Text.from_markup(shown).append(figure(rows, f"eval/success/{name}")),
            figure(rows, f"competence/{name}"),
            figure(rows, f"learning_progress/{name}", "+.2f"),
            Text.from_markup(chance).append(figure(rows, f"p_module/{name}")),
        )
    return table
