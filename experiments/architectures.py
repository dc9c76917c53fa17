"""The value of one modular network (CURIOUS, "Impact of the policy and value function architecture"):
M-UVFA against one flat goal (HER) and an expert per module (MG-ME), with distractors.

    python -m experiments.architectures --seeds 0-9 --out DIR
    python -m experiments.architectures --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.show.stats import series
from experiments import probe
from experiments.analysis import figures
from experiments.analysis import summary as report
from experiments.analysis.table import Row, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("muvfa", "mgme", "her")
FLAT_CEILING = 0.05  # HER's mean success stays below


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """One per architecture."""
    return [Condition({"algorithm": name}, {**settings, "algorithm": name}) for name in ALGORITHMS]


def draw(rows: Sequence[Row], conditions: Sequence[Condition], path: Path) -> None:
    """Mean success ± std; dots where M-UVFA is above MG-ME."""
    made, (ax,) = figures.figure(1, size=(6.4, 4.2))
    parts = {name: select(rows, algorithm=name) for name in ALGORITHMS}
    for name, part in parts.items():
        figures.line(ax, part, figures.SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    figures.dots(ax, parts["muvfa"], parts["mgme"], look=figures.LOOK["muvfa"])
    figures.success_axes(ax, "mean ± std over seeds; dots: M-UVFA above MG-ME, p < 0.01")
    figures.legend(ax, below=True)
    figures.save(made, path)


def findings(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """MG-ME is slower; HER stays at 0."""
    areas = {name: report.area(rows, algorithm=name) for name in ALGORITHMS}
    claim = report.Claim(
        "MG-ME learns more slowly than M-UVFA",
        areas["mgme"], areas["muvfa"], "MG-ME", "M-UVFA", "Area under the curve", smaller=True,
    )  # fmt: skip
    _, flat = series(select(rows, algorithm="her"), figures.SUCCESS)
    if not flat.size:
        return [claim.words(), "- HER: no evaluation yet."]
    highest = float(np.nanmax(np.nanmean(flat, axis=1)))
    verdict = "**appears**" if highest <= FLAT_CEILING else "**does not appear**"
    return [
        claim.words(),
        f"- HER, with one flat goal, stays at 0 (mean success at most {FLAT_CEILING:g} at every evaluation): "
        f"{verdict}; the highest mean over seeds is {highest:.3f}, the highest of any seed {np.nanmax(flat):.3f}.",
    ]


EXPERIMENT = Experiment(
    name="architectures",
    heading="Architectures: M-UVFA, module experts, one flat goal",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"distractors": 4, "episodes": 500_000},
        "point": {**probe.SETTINGS, "distractors": 4},
    },
    fixed={"algorithm": "the experiment's own three"},
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
