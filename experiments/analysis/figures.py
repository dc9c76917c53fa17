"""Draw figures in the paper's form: mean curves with bands, dots where a test is significant, a run's phases.

Colours are Okabe and Ito's (told apart by colour-blind readers), and line styles and markers differ, so that a figure
reads in grey. Every function draws from the table's rows alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.run import files
from curious_jax.run.rows import FRESH
from curious_jax.show import curves as show
from curious_jax.show.curves import COLOURS, MARKERS
from experiments.analysis import statistics
from experiments.analysis.table import SUCCESS, TARGET, Table, count, curves, ends_at_target, select_finished

LOOK = {"curious": 0, "muvfa": 1, "her": 2, "mgme": 3}  # the same colour in every figure
NAMES = {"curious": "CURIOUS", "muvfa": "M-UVFA", "her": "HER (flat goal)", "mgme": "MG-ME"}
LEAST = 3  # seeds on each side that a dot needs
COLUMNS = 3  # of panels, at most
ABOVE = 1.06  # where dots stand on an axis of success


def figure(panels: int, size: tuple[float, float] = (4.8, 3.6)) -> tuple[Any, list[Any]]:
    """Make a figure and its axes, without a display."""
    from matplotlib.figure import Figure

    columns = min(panels, COLUMNS)
    rows = -(-panels // columns)
    made = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    for ax in axes[:panels]:
        show.frame(ax)
        ax.set_xlabel("training episodes")
    return made, axes[:panels]


def save(made: Any, path: Path) -> None:
    """Write PATH.png and PATH.pdf, each whole or not at all."""
    for suffix in (".png", ".pdf"):
        with files.atomic_write(path.with_name(path.name + suffix)) as scratch:
            date = {"CreationDate": None} if suffix == ".pdf" else None
            made.savefig(scratch, format=suffix[1:], dpi=150, metadata=date)


def line(ax: Any, rows: Table, key: str, label: str, look: int, kind: str = "sem", absolute: bool = False) -> None:
    """Draw the mean over seeds ± band (`sem`: standard error, `std`: deviation) of a metric against episodes.

    A mean is that of the same seeds from end to end: those that were trained to their end, or all while there is none
    yet, at the evaluations that all of them have. Seeds that were trained until a target was met have no common length:
    each has its own line, with a mark at the end, which is hollow where the target was not met.
    """
    found = curves(rows if ends_at_target(rows) or not len(select_finished(rows)) else select_finished(rows), key)
    if found.empty:
        return
    found = found.abs() if absolute else found
    if ends_at_target(rows):
        reached = met(rows)
        for i, seed in enumerate(found):
            own = found[seed].dropna()
            look_of = dict(color=show.colour(look), linestyle=show.STYLES[look % len(show.STYLES)], linewidth=0.9)
            marked = dict(marker=MARKERS[look % len(MARKERS)], markevery=[-1], markersize=5, alpha=0.8)
            filled = {} if seed in reached else {"markerfacecolor": "white"}
            ax.plot(own.index, own, label=label if i == 0 else None, **look_of, **marked, **filled)
        return
    found = found.dropna(axis=1, how="all").dropna()
    mean, spread = found.mean(axis=1), getattr(found, kind)(axis=1)
    low, high = (mean - spread, mean + spread) if found.shape[1] > 1 else (None, None)
    show.draw(ax, show.Line(found.index, mean, low, high), label, look)


def met(rows: Table) -> set[int]:
    """Find the seeds that met the target at which their runs end: their last evaluation was confirmed at it."""
    if FRESH not in rows or not len(rows):
        return set()
    last = rows.sort_values("episodes").groupby("seed").tail(1)
    target = last[TARGET] if TARGET in last else statistics.MASTERED  # a table of an earlier version has no target
    return {int(seed) for seed in last["seed"][last[FRESH] >= target]}


def background(ax: Any, rows: Table, keys: Sequence[str], label: str, absolute: bool = False) -> None:
    """Draw metrics of one seed that a figure is not about as thin grey lines, named once."""
    for i, key in enumerate(keys):
        found = curves(rows, key)
        found = found.abs() if absolute else found
        ax.plot(found.index, found, color="grey", linewidth=0.6, alpha=0.6, label=label if i == 0 else None)


def significant(a: Table, b: Table) -> np.ndarray:
    """Find the episodes at which `a` has more success than `b` by the paper's test (one-tailed Mann-Whitney U, 0.01).

    Only seeds that were trained to their end count, and only evaluations of which both sides have LEAST or more.
    """
    first, second = curves(select_finished(a), SUCCESS), curves(select_finished(b), SUCCESS)
    found = []
    for episode in first.index.intersection(second.index):
        x, y = first.loc[episode].dropna(), second.loc[episode].dropna()
        if min(len(x), len(y)) >= LEAST and statistics.mann_whitney(x, y).p < statistics.LEVEL:
            found.append(episode)
    return np.array(found)


def dots(ax: Any, a: Table, b: Table, look: int = 0) -> None:
    """Mark where `a` is larger than `b`; nowhere when seeds have ended at a target and are missing."""
    if ends_at_target(a) or ends_at_target(b):
        return
    where = significant(a, b)
    if where.size:
        ax.plot(where, np.full(where.size, ABOVE), ".", color=COLOURS[look], markersize=5, clip_on=False)


def marks(ax: Any, found: Mapping[str, Sequence[float]], never: str) -> None:
    """Draw one mark per seed and a line at the median, per algorithm; what is infinite stands on top."""
    values = np.array([v for side in found.values() for v in side], float)
    top = 1.15 * max(values[np.isfinite(values)], default=1.0)
    for place, (name, side) in enumerate(found.items()):
        look, heights = LOOK[name], np.minimum(np.asarray(side, float), top)
        spread = np.linspace(-0.15, 0.15, len(heights))
        ax.plot(place + spread, heights, MARKERS[look], color=COLOURS[look], markersize=5)
        if len(heights):
            ax.hlines(min(float(np.median(side)), top), place - 0.25, place + 0.25, color=COLOURS[look])
    if np.isinf(values).any():
        ax.axhline(top, color="grey", linewidth=0.5)
        ax.text(0.5, top, never, ha="center", va="bottom", fontsize=8)
    ax.set_xlabel("")
    ax.set_xlim(-0.6, len(found) - 0.4)
    ax.set_ylim(0, 1.08 * top)
    ax.set_xticks(range(len(found)), [NAMES[name] for name in found])
    ax.set_title("a mark per seed, line: median", fontsize=10)


def caption(rows: Table, text: str) -> str:
    """Say what the lines are: `text`, or that each is a seed. Seeds that have not ended or diverged are counted."""
    if ends_at_target(rows):
        text = "a line per seed; end mark filled: target met, hollow: not met"
    seeds = count(rows)
    left = f"{seeds.pending} of {seeds.asked} seeds {'has' if seeds.pending == 1 else 'have'} not ended"
    lost = f"{seeds.diverged} diverged" + ("" if ends_at_target(rows) else ", in no mean")
    notes = [*([left] if seeds.pending else []), *([lost] if seeds.diverged else [])]
    return "\n".join([text, *(["; ".join(notes)] if notes else [])])


def success_axes(ax: Any, title: str = "") -> None:
    """Set labels and limits of an axis of success rates."""
    ax.set_ylabel("success rate, achievable modules")
    ax.set_ylim(-0.03, 1.1)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_xlim(left=0)
    ax.set_title(title, fontsize=10)


def legend(ax: Any, below: bool = False, columns: int = 3) -> None:
    """Draw a legend where there is something to name: below these axes, where it hides no curve.

    Args:
      below: below the whole figure, with what any of its axes names.
      columns: of the legend of one axes.
    """
    axes = ax.figure.axes if below else [ax]
    named: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if not named:
        ax.text(0.5, 0.5, "no evaluations yet", transform=ax.transAxes, ha="center")
    elif below:
        options = dict(loc="outside lower center", ncols=min(len(named), 4), frameon=False)
        ax.figure.legend(list(named.values()), list(named), **options)
    else:
        place = dict(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=min(len(named), columns))
        ax.legend(list(named.values()), list(named), frameon=False, fontsize=9, **place)
