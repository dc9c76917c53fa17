"""Compare CURIOUS with M-UVFA as distracting modules are added (CURIOUS, "Resilience to distracting modules").

python -m experiments.distractors --seeds 0-9 --distractors 0,4,7 --out DIR
python -m experiments.distractors --seeds 0-9 --world point --out DIR
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.cli import parser as options
from experiments import probe
from experiments.analysis import figures, statistics, summary, trials
from experiments.analysis.table import SUCCESS, Table, modules, select, select_finished
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("curious", "muvfa")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option for the numbers of distractors."""
    parser.add_argument(
        "--distractors", default="0,4,7", metavar="0,4,7", help="numbers of distractors [default: 0,4,7]"
    )


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out both algorithms with each number of distractors."""
    return [
        Condition({"algorithm": a, "distractors": n}, {**settings, "algorithm": a, "distractors": n})
        for n in options.whole_numbers("--distractors", own.distractors, "0,4,7")
        for a in ALGORITHMS
    ]


def numbers(conditions: Sequence[Condition]) -> list[int]:
    """The numbers of distractors, rising."""
    return sorted({condition.labels["distractors"] for condition in conditions})


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw mean success ± s.e.m., a panel per number of distractors, with dots where CURIOUS is above M-UVFA."""
    found = numbers(conditions)
    made, axes = figures.figure(len(found))
    for ax, number in zip(axes, found, strict=True):
        parts = {name: select(rows, algorithm=name, distractors=number) for name in ALGORITHMS}
        for name, part in parts.items():
            figures.line(ax, part, SUCCESS, figures.NAMES[name], figures.LOOK[name], "sem")
        figures.dots(ax, parts["curious"], parts["muvfa"])
        figures.success_axes(ax, f"{number} distracting modules")
    figures.legend(axes[0], below=True)
    made.suptitle(figures.caption(rows, "mean ± s.e.m. over seeds; dots: CURIOUS above M-UVFA, p < 0.01"), fontsize=9)
    figures.save(made, path)


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say whether CURIOUS is faster, whether its advantage grows, and by how much M-UVFA slows down."""
    lines: list[str] = []
    found = numbers(conditions)
    for n in found:
        own, other = ({"algorithm": name, "distractors": n} for name in ALGORITHMS)
        text = f"CURIOUS masters the modules in fewer episodes than M-UVFA with {n} distractors"
        if n == 0:
            text += " (described: no test was declared without any)"
        lines += summary.faster(rows, text, own, other, declared=n > 0)
    sides: dict[tuple[str, int], dict[str, Any]] = {
        (a, n): {"algorithm": a, "distractors": n} for n in found for a in ALGORITHMS
    }
    times = {key: summary.mastery(rows, **labels) for key, labels in sides.items()}
    if len(found) > 1 and all(times.values()):
        least, most = found[0], found[-1]
        ends = [(a, n) for n in (least, most) for a in ALGORITHMS]
        left = summary.pending(rows, *(sides[key] for key in ends))
        lines.append(growth([times[key] for key in ends], least, most, left))
        known = len(conditions[0].config().modules)
        for n in found[1:]:
            left = summary.pending(rows, sides["muvfa", n], sides["muvfa", least])
            lines.append(slope(times["muvfa", n], times["muvfa", least], known, least, n, left))
    return [*lines, *inside(rows, found[-1])]


def inside(rows: Table, number: int) -> list[str]:
    """Describe forgetting in CURIOUS's trials with this number of distractors."""
    own = select(rows, algorithm="curious", distractors=number)
    if select_finished(own).empty or not modules(own):
        return []
    keys = (trials.COMPETENCE, SUCCESS)
    told = [line for key in keys for line in trials.lapses_in_words(trials.forgetting(own, key), key)]
    without = summary.left_out(rows, {"algorithm": "curious", "distractors": number})
    head = f"- Described, not tested, of CURIOUS's trials with {number} distractors"
    return [f"{head}{f' (without others: {without})' if without else ''}:", *(f"  {line}" for line in told)]


def growth(times: Sequence[Sequence[float]], least: int, most: int, pending: str = "") -> str:
    """Say whether CURIOUS's advantage in speed is larger with `most` distractors than with `least`.

    Args:
      times: episodes to mastery of CURIOUS and M-UVFA with `least`, then of both with `most`.
      pending: how many of these seeds have not ended.
    """
    a, b, c, d = times
    found = statistics.growth(a, b, c, d)
    shown = [summary.interval(statistics.advantage(*pair)) for pair in ((a, b), (c, d))]
    said = verdict(found, found.low > 0, times, pending)
    return (
        f"- CURIOUS's advantage grows with the number of distractors: {said}. M-UVFA's mean "
        f"speed (1 / episodes to mastery; never is 0) is below CURIOUS's by a share of {shown[0]} with {least}, "
        f"{shown[1]} with {most}; difference {summary.interval(found)} (appears when its interval lies above 0)."
    )


def slope(
    times: Sequence[float], reference: Sequence[float], known: int, least: int, number: int, pending: str = ""
) -> str:
    """Say whether M-UVFA slows down by achievable modules / all modules; `pending`: how many seeds have not ended."""
    expected = (known + least) / (known + number)
    found = statistics.slowdown(times, reference)
    said = verdict(found, found.low <= expected <= found.high, (times, reference), pending)
    return (
        f"- M-UVFA slows down by achievable / all modules, to {expected:.2f} of its speed, with {number} distractors: "
        f"{said}; {summary.interval(found)} (appears when the "
        "interval holds the expected share)."
    )


def verdict(found: statistics.Interval, appears: bool, samples: Sequence[Sequence[float]], pending: str) -> str:
    """Say whether a claim about an interval appears, or that it is not decided.

    It is not while a seed has not ended, and with so few seeds that the interval covers much less than it says.

    Args:
      samples: the numbers per seed that the interval was made of.
      pending: how many of their seeds have not ended.
    """
    if pending:
        return f"{summary.UNDECIDED}: {pending}"
    if (fewest := min(map(len, samples))) < statistics.FEWEST:
        seeds = f"{fewest} {'seed' if fewest == 1 else 'seeds'}"
        return f"{summary.UNDECIDED} by an interval of {seeds} a side, where {statistics.FEWEST} are the least"
    has_ends = np.isfinite([found.low, found.high]).all()
    return summary.APPEARS[bool(appears)] if has_ends else f"{summary.UNDECIDED} without an interval"


EXPERIMENT = Experiment(
    name="distractors",
    heading="Distractors: CURIOUS against M-UVFA as modules that cannot be learned are added",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={"fetch": {"episodes": 300_000, "evaluation_episodes": 192}, "point": probe.SETTINGS},
    fixed={"algorithm": "the experiment's own two"},
    options=add_options,
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
