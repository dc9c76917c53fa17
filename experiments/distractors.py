"""Learning progress against modules that cannot be learned (CURIOUS, "Resilience to distracting modules"): CURIOUS
against M-UVFA as the number of distracting modules grows.

    python -m experiments.distractors --seeds 0-9 --distractors 0,4,7 --out DIR
    python -m experiments.distractors --seeds 0-9 --world point --out DIR
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError
from experiments import probe
from experiments.analysis import figures, statistics
from experiments.analysis import summary as report
from experiments.analysis.table import Row, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("curious", "muvfa")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The numbers of distractors."""
    parser.add_argument(
        "--distractors", default="0,4,7", metavar="0,4,7", help="numbers of distractors [default: 0,4,7]"
    )


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Both algorithms with each number of distractors."""
    try:
        numbers = [int(text) for text in own.distractors.split(",")]
    except ValueError:
        raise ConfigError(f"--distractors {own.distractors}: must be whole numbers, such as 0,4,7") from None
    return [
        Condition({"algorithm": a, "distractors": n}, {**settings, "algorithm": a, "distractors": n})
        for n in numbers
        for a in ALGORITHMS
    ]


def numbers(conditions: Sequence[Condition]) -> list[int]:
    """The numbers of distractors, rising."""
    return sorted({condition.labels["distractors"] for condition in conditions})


def draw(rows: Sequence[Row], conditions: Sequence[Condition], path: Path) -> None:
    """Mean success ± s.e.m., a panel per number of distractors; dots where CURIOUS is above M-UVFA."""
    found = numbers(conditions)
    made, axes = figures.figure(len(found))
    for ax, number in zip(axes, found, strict=True):
        parts = {name: select(rows, algorithm=name, distractors=number) for name in ALGORITHMS}
        for name, part in parts.items():
            figures.line(ax, part, figures.SUCCESS, figures.NAMES[name], figures.LOOK[name], "sem")
        figures.dots(ax, parts["curious"], parts["muvfa"])
        figures.success_axes(ax, f"{number} distracting modules")
    figures.legend(axes[0], below=True)
    made.suptitle("mean ± s.e.m. over seeds; dots: CURIOUS above M-UVFA, p < 0.01", fontsize=9)
    figures.save(made, path)


def findings(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """CURIOUS is ahead, and more so with more distractors."""
    lines, gaps = [], {}
    found = numbers(conditions)
    for number in found:
        a, b = (report.area(rows, algorithm=name, distractors=number) for name in ALGORITHMS)
        declared = "CURIOUS learns faster than M-UVFA with {} distracting modules"
        lines.append(report.Claim(declared.format(number), a, b, "CURIOUS", "M-UVFA", "Area under the curve").words())
        if a and b:
            gaps[number] = statistics.bootstrap_difference(a, b)
    if len(gaps) > 1:
        means = [gaps[number].estimate for number in sorted(gaps)]
        verdict = "**appears**" if (np.diff(means) > 0).all() else "**does not appear**"
        shown = "; ".join(f"{number} distractors {report.interval(gaps[number])}" for number in sorted(gaps))
        lines.append(f"- The mean gap in area grows with the number of distracting modules: {verdict}. {shown}.")
    return lines


EXPERIMENT = Experiment(
    name="distractors",
    heading="Distractors: CURIOUS against M-UVFA as modules that cannot be learned are added",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={"fetch": {"episodes": 300_000}, "point": probe.SETTINGS},
    fixed={"algorithm": "the experiment's own two"},
    options=add_options,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
