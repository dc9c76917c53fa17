"""Draws the curves of a run: curves.png with the paper's four panels, and a small plot for the terminal.

The palette of everything that is drawn per module stands here. Importing this module loads neither JAX nor flax.
"""

import contextlib
import io
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curious_jax.show.stats import Row, module_names, printable, series, wilson

PANELS = (
    ("eval/success", "success rate", (-0.03, 1.03)),
    ("competence", "competence C", (-0.03, 1.03)),
    ("learning_progress", "absolute learning progress |LP|", (0.0, None)),
    ("p_module", "probability of choice p_LP", (0.0, None)),
)
# Okabe and Ito's palette without its yellow, told apart in grey by line style and marker too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = "osD^vPX*<>"
PLAIN_MARKS = "●■◆▲▼○□◇△▽"  # of the small plot


def colour(index: int) -> str:
    """Returns a module's colour as #rrggbb."""
    return COLOURS[index % len(COLOURS)]


def rgb(index: int) -> tuple[int, int, int]:
    """Returns a module's colour as red, green, blue in [0, 255]."""
    red, green, blue = bytes.fromhex(colour(index)[1:])
    return red, green, blue


@contextlib.contextmanager
def own_style(math: bool = False) -> Iterator[None]:
    """Sets matplotlib's defaults, whatever the user's matplotlibrc says: usetex, say, needs LaTeX.

    Args:
      math: whether $C$ is a formula; else every text is taken as it is, as a module's name may hold a dollar sign.
    """
    import matplotlib.style

    with matplotlib.style.context(["default", {"text.usetex": False, "text.parse_math": math}]):
        yield


def png(rows: Sequence[Row], title: str = "") -> bytes:
    """Draws curves.png: success, competence, |LP| and p_LP per module against training episodes.

    Bands: one seed, the 95 % Wilson interval of the success rate; several seeds, mean ± standard error.
    """
    from matplotlib.figure import Figure

    with own_style():
        figure = Figure(figsize=(11, 7.5), layout="constrained")
        axes = figure.subplots(2, 2, sharex=True)
        for ax, (key, label, limits) in zip(axes.flat, PANELS, strict=True):
            for index, name in enumerate(module_names(rows)):
                if found := line(rows, key, name):
                    draw(ax, found, name, index)
            ax.set_ylabel(label)
            ax.set_ylim(*limits)
            frame(ax)
        for ax in axes[-1]:
            ax.set_xlabel("training episodes")
            ax.set_xlim(left=0)
        handles, labels = axes[0, 1].get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
        figure.suptitle(title, fontsize=10)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


@dataclass(frozen=True)
class Line:
    """One module's curve, where it has values: the mean over seeds, and the band around it (None for none)."""

    episodes: np.ndarray  # [P]
    mean: np.ndarray  # [P]
    low: np.ndarray | None  # [P]
    high: np.ndarray | None  # [P]


def line(rows: Sequence[Row], key: str, name: str) -> Line | None:
    """Returns a module's curve of one panel's key; None when it has no values (distractors are not evaluated)."""
    episodes, values = series(rows, f"{key}/{name}")
    seen = ~np.isnan(values).all(axis=1)
    if not seen.any():
        return None
    if key == "learning_progress":
        values = np.abs(values)
    mean = np.nanmean(values[seen], axis=1)
    low = high = None
    if values.shape[1] > 1:
        low, high = _standard_error(values[seen], mean)
    elif key == "eval/success":
        low, high = _wilson(mean, series(rows, f"eval/n/{name}")[1][seen, 0])
    return Line(episodes[seen], mean, low, high)


def _standard_error(values: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the edges of mean ± standard error over the seeds of values [P, S]."""
    seeds = (~np.isnan(values)).sum(axis=1)
    deviation = np.nanstd(values, axis=1, ddof=1) if (seeds > 1).all() else np.nanstd(values, axis=1)
    error = deviation / np.sqrt(seeds)
    return mean - error, mean + error


def _wilson(rates: np.ndarray, episodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the edges of each rate's 95 % Wilson interval; NaN where the number of episodes is not known."""
    edges = np.full((2, len(rates)), np.nan)
    for at, (rate, n) in enumerate(zip(rates, episodes, strict=True)):
        if 1 <= n < 2**53:
            edges[:, at] = wilson(round(min(max(rate, 0.0), 1.0) * n), int(n))
    return edges[0], edges[1]


def draw(ax: Any, found: Line, label: str, index: int) -> None:
    """Draws a curve and its band in the colour, line style and marker of this index."""
    every = max(1, len(found.episodes) // 12)
    style = dict(color=colour(index), linestyle=STYLES[index % len(STYLES)], marker=MARKERS[index % len(MARKERS)])
    marked = dict(linewidth=1.6, markersize=4, markevery=(index % every, every))
    shown = f"\N{ZERO WIDTH SPACE}{label}" if label.startswith("_") else label  # or matplotlib's legend leaves it out
    ax.plot(found.episodes, found.mean, **style, **marked, label=shown)
    if found.low is not None:
        ax.fill_between(found.episodes, found.low, found.high, color=colour(index), alpha=0.15, linewidth=0)


def frame(ax: Any) -> None:
    """Gives axes a light grid and no frame on top and right."""
    ax.grid(alpha=0.3, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)


def small_plot(rows: Sequence[Row], width: int | None = None, height: int = 10) -> str:
    """Draws success per module against episodes in characters, each module by its own mark.

    Args:
      width: columns of the plot, without the axis; None for what the terminal has, 64 at most.
    """
    width = width or min(64, max(20, shutil.get_terminal_size().columns - 6))
    names = [name for name in module_names(rows) if any(f"eval/success/{name}" in row for row in rows)]
    if not names:
        return ""
    grid = [[" "] * width for _ in range(height)]
    last = max(row["episodes"] for row in rows)
    marks = [PLAIN_MARKS[index % len(PLAIN_MARKS)] for index in range(len(names))]
    at = (np.arange(width) + 1) * last / width
    for mark, name in reversed(list(zip(marks, names, strict=True))):
        found = line(rows, "eval/success", name)
        if found is None:
            continue
        for column, rate in enumerate(np.interp(at, found.episodes, found.mean, left=np.nan)):
            if np.isfinite(rate):
                grid[height - 1 - round(float(rate) * (height - 1))][column] = mark
    labels = ["1.0 ┤"] + ["    │"] * (height - 2) + ["0.0 ┤"]
    labels[(height - 1) // 2] = "0.5 ┤"
    lines = [label + "".join(cells).rstrip() for label, cells in zip(labels, grid, strict=True)]
    lines.append("    └" + "─" * width)
    lines.append(f"     0{'training episodes':^{width - 2 - len(f'{last:,}')}} {last:,}")
    lines.append(
        "     success: " + "   ".join(f"{mark} {printable(name)}" for mark, name in zip(marks, names, strict=True))
    )
    return "\n".join(lines)
