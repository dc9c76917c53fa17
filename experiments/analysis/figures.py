"""Figures in the paper's form: mean curves with bands, dots where a test is significant, a run's phases.

Colours are Okabe and Ito's (told apart by colour-blind readers), and line styles and markers differ, so that a figure
reads in grey. Every function draws from the table's rows alone.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.show.curves import COLOURS, MARKERS, STYLES
from curious_jax.show.stats import series
from experiments.analysis import statistics
from experiments.analysis.table import Row

LOOK = {"curious": 0, "muvfa": 1, "her": 2, "mgme": 3}  # the same colour in every figure
NAMES = {"curious": "CURIOUS", "muvfa": "M-UVFA", "her": "HER (flat goal)", "mgme": "MG-ME"}
SUCCESS = "eval/success"
LEAST = 3  # seeds on each side that a dot needs


def figure(panels: int, columns: int = 3, size: tuple[float, float] = (4.8, 3.6)) -> tuple[Any, list[Any]]:
    """(figure, its axes), without a display."""
    from matplotlib.figure import Figure

    columns = min(panels, columns)
    rows = -(-panels // columns)
    made = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = list(made.subplots(rows, columns, squeeze=False).flat)
    for spare in axes[panels:]:
        spare.set_visible(False)
    for ax in axes[:panels]:
        ax.grid(alpha=0.3, linewidth=0.5)
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("training episodes")
    return made, axes[:panels]


def save(made: Any, path: Path) -> list[Path]:
    """Writes PATH.png and PATH.pdf, each whole or not at all."""
    written = []
    for suffix in (".png", ".pdf"):
        target = path.with_name(path.name + suffix)
        scratch = path.with_name(f".{path.name}.{os.getpid()}{suffix}")
        made.savefig(scratch, dpi=150, metadata={"CreationDate": None} if suffix == ".pdf" else None)
        os.replace(scratch, target)
        written.append(target)
    return written


def band(values: np.ndarray, kind: str) -> np.ndarray:
    """[P, S] -> [P]: standard deviation over the seeds that have a value (`std`), or their standard error (`sem`)."""
    seen = (~np.isnan(values)).sum(axis=1)
    deviation = np.array([np.std(row[~np.isnan(row)], ddof=1) if n > 1 else 0.0 for row, n in zip(values, seen)])
    return deviation if kind == "std" else deviation / np.sqrt(np.maximum(seen, 1))


def line(
    ax: Any, rows: Sequence[Row], key: str, label: str, look: int, kind: str = "sem", absolute: bool = False
) -> None:
    """Mean over seeds ± band of one metric against training episodes."""
    episodes, values = series(rows, key)
    values = np.abs(values) if absolute else values
    seen = ~np.isnan(values).all(axis=1)
    if not seen.any():
        return
    episodes, values = episodes[seen], values[seen]
    mean, spread = np.nanmean(values, axis=1), band(values, kind)
    colour, every = COLOURS[look % len(COLOURS)], max(1, len(episodes) // 10)
    ax.plot(
        episodes,
        mean,
        color=colour,
        linestyle=STYLES[look % len(STYLES)],
        linewidth=1.6,
        marker=MARKERS[look % len(MARKERS)],
        markersize=4,
        markevery=(look % every, every),
        label=label,
    )
    if values.shape[1] > 1:
        ax.fill_between(episodes, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)


def significant(a: Sequence[Row], b: Sequence[Row], key: str = SUCCESS) -> np.ndarray:
    """The episodes at which `a` is larger than `b` by the paper's test (one-tailed Mann-Whitney U, 0.01).

    Only where both have LEAST seeds or more.
    """
    (x_a, v_a), (x_b, v_b) = series(a, key), series(b, key)
    found = []
    for episode in sorted(set(x_a) & set(x_b)):
        first, second = (v[x == episode][0] for x, v in ((x_a, v_a), (x_b, v_b)))
        first, second = first[~np.isnan(first)], second[~np.isnan(second)]
        enough = min(first.size, second.size) >= LEAST
        if enough and statistics.mann_whitney(first, second).p < statistics.LEVEL:
            found.append(episode)
    return np.array(found)


def dots(ax: Any, a: Sequence[Row], b: Sequence[Row], height: float = 1.06, look: int = 0) -> np.ndarray:
    """Marks where `a` is larger than `b`; returns the episodes."""
    where = significant(a, b)
    if where.size:
        ax.plot(
            where, np.full(where.size, height), ".", color=COLOURS[look % len(COLOURS)], markersize=5, clip_on=False
        )
    return where


def success_axes(ax: Any, title: str = "") -> None:
    """Labels and limits of an axis of success rates."""
    ax.set_ylabel("success rate, achievable modules")
    ax.set_ylim(-0.03, 1.1)
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set_xlim(left=0)
    ax.set_title(title, fontsize=10)


def legend(ax: Any, below: bool = False, **options: Any) -> None:
    """A legend where there is something to name; `below` the whole figure, where it hides no curve."""
    handles, labels = ax.get_legend_handles_labels()
    if not handles:
        ax.text(0.5, 0.5, "no evaluations yet", transform=ax.transAxes, ha="center")
    elif below:
        ax.figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 4), frameon=False)
    else:
        ax.legend(frameon=False, fontsize=9, **options)
