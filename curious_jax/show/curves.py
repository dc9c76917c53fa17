"""The curves of a run: curves.png, as the paper draws a single run, and a small plot for the terminal.

`python -m curious_jax.show.curves RUN` draws curves.png anew from metrics.jsonl and shows the small plot.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax import evaluation
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder

PANELS = (
    ("eval/success", "success rate", (-0.03, 1.03)),
    ("competence", "competence $C$", (-0.03, 1.03)),
    ("learning_progress", "absolute learning progress $|LP|$", (0.0, None)),
    ("p_module", "probability of choice $p_{LP}$", (0.0, None)),
)
# Okabe and Ito's palette without its yellow, told apart in grey by line style and marker too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX*<>"
Row = dict[str, Any]


def module_names(rows: Sequence[Row]) -> list[str]:
    """The modules of metrics rows, in their order."""
    return [key.removeprefix("p_module/") for key in (rows[0] if rows else {}) if key.startswith("p_module/")]


def series(rows: Sequence[Row], key: str) -> tuple[np.ndarray, np.ndarray]:
    """(episodes [P], values [P, S]) of one key; NaN where a seed has no value there."""
    seeds = sorted({row.get("seed", 0) for row in rows})
    episodes = sorted({row["episodes"] for row in rows})
    values = np.full((len(episodes), len(seeds)), np.nan)
    for row in rows:
        value = row.get(key)
        if value is not None:
            values[episodes.index(row["episodes"]), seeds.index(row.get("seed", 0))] = value
    return np.array(episodes), values


def draw(rows: Sequence[Row], path: str | Path, title: str = "") -> None:
    """Writes curves.png: success, competence, |LP| and p_LP per module against training episodes.

    Bands: one seed, the 95 % Wilson interval of the success rate; several seeds, mean ± standard error.
    The file is replaced whole.
    """
    from matplotlib.figure import Figure

    path = Path(path)
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    names = module_names(rows)
    for ax, (key, label, limits) in zip(axes.flat, PANELS, strict=True):
        for index, name in enumerate(names):
            _draw_line(ax, rows, key, name, index)
        ax.set_ylabel(label)
        ax.set_ylim(*limits)
        ax.grid(alpha=0.3, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
    for ax in axes[-1]:
        ax.set_xlabel("training episodes")
        ax.set_xlim(left=0)
    handles, labels = axes[0, 1].get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    figure.suptitle(title, fontsize=10)
    scratch = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    figure.savefig(scratch, dpi=130)
    os.replace(scratch, path)


@dataclass(frozen=True)
class Line:
    """One module's curve, where it has values: the mean over seeds, and the band around it (None for none)."""

    episodes: np.ndarray  # [P]
    mean: np.ndarray  # [P]
    low: np.ndarray | None
    high: np.ndarray | None


def line(rows: Sequence[Row], key: str, name: str) -> Line | None:
    """A module's curve of one panel's key; None when it has no values (distractors are not evaluated)."""
    episodes, values = series(rows, f"{key}/{name}")
    if np.isnan(values).all():
        return None
    if key == "learning_progress":
        values = np.abs(values)
    seeds = (~np.isnan(values)).sum(axis=1)
    seen = seeds > 0
    episodes, values, seeds = episodes[seen], values[seen], seeds[seen]
    mean = np.nanmean(values, axis=1)
    return Line(episodes, mean, *_band(rows, key, name, values, mean, seeds, seen))


def _draw_line(ax: Any, rows: Sequence[Row], key: str, name: str, index: int) -> None:
    found = line(rows, key, name)
    if found is None:
        return
    colour, style = COLOURS[index % len(COLOURS)], STYLES[index % len(STYLES)]
    every = max(1, len(found.episodes) // 12)
    ax.plot(
        found.episodes,
        found.mean,
        color=colour,
        linestyle=style,
        linewidth=1.6,
        marker=MARKERS[index % len(MARKERS)],
        markersize=4,
        markevery=(index % every, every),
        label=name,
    )
    if found.low is not None:
        ax.fill_between(found.episodes, found.low, found.high, color=colour, alpha=0.15, linewidth=0)


def _band(rows: Sequence[Row], key: str, name: str, values: np.ndarray, mean: np.ndarray, seeds: np.ndarray,
          seen: np.ndarray) -> tuple[Any, Any]:  # fmt: skip
    """The band around a line, or (None, None)."""
    if values.shape[1] > 1:
        deviation = np.nanstd(values, axis=1, ddof=1) if (seeds > 1).all() else np.nanstd(values, axis=1)
        error = deviation / np.sqrt(seeds)
        return mean - error, mean + error
    if key != "eval/success":
        return None, None
    _, n = series(rows, f"eval/n/{name}")
    n = n[seen, 0]
    bounds = [evaluation.wilson(round(rate * count), int(count)) for rate, count in zip(mean, n, strict=True)]
    return np.array([b[0] for b in bounds]), np.array([b[1] for b in bounds])


def small_plot(rows: Sequence[Row], width: int = 64, height: int = 10) -> str:
    """Success per module against episodes in plain characters; the letters are the modules' marks."""
    names = [name for name in module_names(rows) if any(f"eval/success/{name}" in row for row in rows)]
    if not names:
        return ""
    grid = [[" "] * width for _ in range(height)]
    last = max(row["episodes"] for row in rows)
    marks = "●■◆▲▼○□◇△▽"
    for index, name in reversed(list(enumerate(names))):
        episodes, values = series(rows, f"eval/success/{name}")
        mean = np.nanmean(values, axis=1)
        columns = np.arange(width)
        at = (columns + 1) * last / width
        for column, rate in zip(columns, np.interp(at, episodes, mean, left=np.nan), strict=True):
            if np.isfinite(rate):
                grid[height - 1 - round(float(rate) * (height - 1))][column] = marks[index % len(marks)]
    labels = ["1.0 ┤"] + ["    │"] * (height - 2) + ["0.0 ┤"]
    labels[(height - 1) // 2] = "0.5 ┤"
    lines = [label + "".join(cells).rstrip() for label, cells in zip(labels, grid, strict=True)]
    lines.append("    └" + "─" * width)
    lines.append(f"     0{'training episodes':^{width - 2 - len(f'{last:,}')}} {last:,}")
    lines.append("     success: " + "   ".join(f"{marks[i % len(marks)]} {name}" for i, name in enumerate(names)))
    return "\n".join(lines)


def rows_of(folder: Path) -> list[Row]:
    """The metrics rows of a run folder, one at least.

    Raises:
      ConfigError: when it is no run's, or has no evaluation yet.
    """
    if not os.path.isfile(folder / runfolder.METRICS):
        raise ConfigError(f"{folder}: is not the folder of a run (no {runfolder.METRICS} in it)")
    rows = runfolder.read_rows(folder)
    if not rows:
        raise ConfigError(f"{folder}: has no evaluation yet; wait for the first")
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Draws curves.png of a run folder anew."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return program.run(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    folder = Path(program.only_run("curves", arguments))
    rows = rows_of(folder)
    draw(rows, folder / runfolder.CURVES, title=folder.name)
    print(small_plot(rows))
    print(f"curves: {folder / runfolder.CURVES}")
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
