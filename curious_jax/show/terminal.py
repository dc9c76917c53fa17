"""Shows what a run does while it learns: a live picture in a terminal, plain lines elsewhere.

With several seeds every number is the mean over seeds, followed by the range.
"""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
from rich.bar import Bar
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from curious_jax.show.curves import colour
from curious_jax.show.stats import Row, module_names, printable

LINE_S = 30.0  # seconds between plain lines while nothing is evaluated
AROUND = 6  # lines of the live picture around its modules
LONGEST_NAME = 20  # characters of a module's name
LAYOUTS = (("success", "p_LP", "competence", "LP"), ("success", "p_LP"), ("success",))  # the first that fits is shown
KEYS = {"success": "eval/success", "p_LP": "p_module", "competence": "competence", "LP": "learning_progress"}
BARS = ("success", "p_LP")


def values(rows: Sequence[Row], key: str) -> np.ndarray:
    """Returns a key's values over the seeds, those that are there and are finite."""
    found = [row.get(key) for row in rows]
    return np.array([v for v in found if v is not None and np.isfinite(v)], dtype=float)


def number(rows: Sequence[Row], key: str, form: str = ".2f") -> str:
    """Returns a key's mean over the seeds as text, with the range when there are several: 0.93 [0.88 0.98]."""
    v = values(rows, key)
    if not v.size:
        return "–"
    text = format(v.mean(), form)
    return f"{text} [{v.min():{form}} {v.max():{form}}]" if len(rows) > 1 else text


def speeds(rows: Sequence[Row]) -> str:
    """Returns 2,134 env steps/s, 160 updates/s."""
    steps, updates = values(rows, "perf/env_steps_per_s"), values(rows, "perf/updates_per_s")
    parts = [f"{v.mean():,.0f} {name}/s" for v, name in ((steps, "env steps"), (updates, "updates")) if v.size]
    return ", ".join(parts)


class TerminalView:
    """Shows one run on standard output. Start it with `open`, feed it cycles and evaluations, end it with `close`.

    Args:
      total_episodes: of each seed.
      target: the mean success at which the run stops before them; None for none.
      done: episodes of each seed that a resumed run has behind it.
    """

    def __init__(
        self,
        title: str,
        total_episodes: int,
        target: float | None = None,
        done: int = 0,
        console: Console | None = None,
        get_time: Callable[[], float] = time.monotonic,
    ):
        limit = "" if target is None else f"; stops at mean success {target:g}"
        self._title, self._left = printable(title) + limit, "ETA" if target is None else "at most"
        self._console = console or Console(highlight=False, markup=False, emoji=False)
        self._progress = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.completed:,}/{task.total:,} episodes"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
            get_time=get_time,
            expand=True,
        )
        self._progress.add_task("", total=total_episodes, completed=done, left="")
        (self._task,) = self._progress.tasks
        self._get_time = get_time
        self._total = total_episodes
        self._first: tuple[int, float] | None = None  # episodes and seconds of training after the first cycle
        self._rows: list[Row] = []
        self._notes: list[str] = []
        self._live: Live | None = None
        self._size = self._console.size
        self._compiling = True
        self._closing = False
        self._last_line: float | None = None

    def open(self) -> None:
        """Shows the title, and the live picture in a terminal."""
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._start()
        else:
            self._print(self._title)
            self._print("compiling; a line follows after the first cycle")

    def note(self, text: str) -> None:
        """Prints a line of its own, above the live picture."""
        lines = [printable(line) for line in text.splitlines()]
        self._notes += lines
        for line in lines:
            self._print(line)

    def cycle(self, episodes: int, train_s: float) -> None:
        """Shows how many episodes of each seed are done; call it after every cycle, or every second or so.

        Args:
          train_s: seconds spent in cycles so far. The remaining time follows from these alone: neither compilation nor
            what a resumed run did before counts.
        """
        self._count(episodes)
        self._first = self._first or (episodes, train_s)
        new, seconds = episodes - self._first[0], train_s - self._first[1]
        if new > 0:
            remaining = timedelta(seconds=round((self._total - episodes) * seconds / new))
            self._progress.update(self._task.id, left=f"{self._left} {remaining}")
        if self._live is None:
            if self._last_line is None or self._get_time() - self._last_line >= LINE_S:
                self._line(self._done())
        elif self._console.size != self._size:
            self._redraw(self._live)

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Shows one evaluation; one row per seed."""
        self._rows = list(rows)
        self._count(int(rows[0]["episodes"]))
        if self._live:
            self._live.refresh()
        else:
            self._line(f"{self._done()}  {self._results()}")

    def close(self) -> None:
        """Leaves the last picture on the screen and the cursor below it."""
        if self._live:
            self._closing = True  # the last picture has all modules
            self._live.stop()
            self._live = None

    def _start(self) -> None:
        self._size = self._console.size
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=2)
        self._live.start(refresh=True)

    def _redraw(self, live: Live) -> None:
        """Clears a screen whose size has changed: terminals wrap the old picture's lines, each in its own way."""
        live.transient = True
        live.stop()
        self._live = None
        self._console.clear()
        for line in self._notes:
            self._print(line)
        self._start()

    def _print(self, line: str) -> None:
        # While a live picture is shown, soft_wrap would reach that too: the terminal would wrap its long lines, rich
        # would not count them, and copies of them would stay behind.
        self._console.print(Text(line, overflow="fold"), soft_wrap=self._live is None)

    def _line(self, text: str) -> None:
        self._print(text)
        self._last_line = self._get_time()

    def _count(self, episodes: int) -> None:
        self._compiling = False
        self._progress.update(self._task.id, completed=episodes)

    def _done(self) -> str:
        """Returns 342/3,800 episodes  0:00:15 (ETA 0:02:10)."""
        left = self._task.fields["left"]
        remaining = f" ({left})" if left else ""
        elapsed = timedelta(seconds=int(self._task.elapsed or 0))
        return f"{int(self._task.completed):,}/{self._task.total:,} episodes  {elapsed}{remaining}"

    def _results(self) -> str:
        """Returns the last evaluation as one line."""
        rows = self._rows
        per_module = "  ".join(
            f"{printable(name)} {number(rows, f'eval/success/{name}')} (p {number(rows, f'p_module/{name}')})"
            for name in module_names(rows)
        )
        return f"success {number(rows, 'eval/success')}: {per_module}  {speeds(rows)}"

    def _render(self) -> Group:
        elapsed = timedelta(seconds=int(self._task.elapsed or 0))
        waiting = Text(f"compiling … {elapsed}", style="dim")
        parts: list[Any] = [Text(self._title, style="bold"), waiting if self._compiling else self._progress]
        if self._rows:
            room = max(2, self._console.height - AROUND) if self._live and not self._closing else None
            parts += [module_table(self._rows, self._console, room), Text(footer(self._rows), style="dim")]
        return Group(*parts)


def footer(rows: Sequence[Row]) -> str:
    """Returns the lines below the table: mean success and speeds, then losses."""
    losses = (("critic loss", "train/critic_loss"), ("actor loss", "train/actor_loss"), ("Q", "train/q_mean"))
    first = [f"mean success {number(rows, 'eval/success')}", speeds(rows)]
    second = [f"{name} {number(rows, key, '.3g')}" for name, key in losses if values(rows, key).size]
    bad = values(rows, "invalid_episodes").sum()
    if bad:
        second.append(f"{bad:.0f} invalid episodes, which were discarded")
    return "\n".join("   ".join(part for part in line if part) for line in (first, second))


def module_table(rows: Sequence[Row], console: Console, most: int | None = None) -> Table:
    """Returns a line per module, with as many columns as the console has room for; success is always there.

    Args:
      most: lines, or None for all; where there are more modules, the last line counts those left out.
    """
    tables, unlimited = [_table(rows, columns, most) for columns in LAYOUTS], console.options.update_width(1000)
    needed = [console.measure(table, options=unlimited).minimum for table in tables]
    return next((table for table, width in zip(tables, needed) if width <= console.width), tables[-1])


def _table(rows: Sequence[Row], columns: Sequence[str], most: int | None) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    names = module_names(rows)
    table.add_column("module", no_wrap=True, min_width=2 + max(len(_short(name)) for name in names))
    lines: list[list[Any]] = [[Text("● ", style=colour(i)).append(_short(n), "default")] for i, n in enumerate(names)]
    for heading in columns:
        cells = [number(rows, f"{KEYS[heading]}/{name}", "+.2f" if heading == "LP" else ".2f") for name in names]
        widest = max(map(len, (heading, *cells)))
        table.add_column(heading, justify="right", no_wrap=True, min_width=widest)
        if heading in BARS:
            table.add_column("", min_width=4, max_width=24)
        for index, (line, name, cell) in enumerate(zip(lines, names, cells, strict=True)):
            found = values(rows, f"{KEYS[heading]}/{name}")
            bar = Bar(1.0, 0.0, float(found.mean()), color=colour(index)) if found.size else ""
            line += [cell, bar] if heading in BARS else [cell]
    shown = lines if most is None or len(lines) <= most else lines[: most - 1]
    for line in shown:
        table.add_row(*line)
    if len(shown) < len(lines):
        table.add_row(f"+ {len(lines) - len(shown)} more")
    return table


def _short(name: str) -> str:
    name = printable(name)
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
