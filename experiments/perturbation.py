"""A sensor fails (CURIOUS, "Resilience to forgetting and sensor failures"): one cube is observed elsewhere from an
episode on; how many episodes until the former success is regained, CURIOUS against M-UVFA.

    python -m experiments.perturbation --seeds 0-9 --out DIR
    python -m experiments.perturbation --seeds 0-9 --world point --out DIR
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import probe
from experiments.analysis import figures, statistics
from experiments.analysis import summary as report
from experiments.analysis.table import Row, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("curious", "muvfa")


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Both algorithms, with the same perturbation."""
    return [Condition({"algorithm": name}, {**settings, "algorithm": name}) for name in ALGORITHMS]


def onset(conditions: Sequence[Condition]) -> int:
    """Training episodes after which the sensor is off."""
    return int(conditions[0].config().perturbation.perturb_at or 0)


def draw(rows: Sequence[Row], conditions: Sequence[Condition], path: Path) -> None:
    """Mean success ± std with the perturbation's onset, dots where CURIOUS is above M-UVFA after it; beside it, every
    seed's episodes to regain 95 %."""
    at = onset(conditions)
    made, (left, right) = figures.figure(2, size=(5.6, 4.0))
    parts = {name: select(rows, algorithm=name) for name in ALGORITHMS}
    for name, part in parts.items():
        figures.line(left, part, figures.SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    left.axvline(at, color="black", linestyle="--", linewidth=1)
    after = {name: [row for row in part if row["episodes"] >= at] for name, part in parts.items()}
    figures.dots(left, after["curious"], after["muvfa"])
    figures.success_axes(left, "mean ± std over seeds; dots: CURIOUS above M-UVFA, p < 0.01")
    figures.legend(left, below=True)
    _draw_recovery(right, {name: recoveries(rows, name, at) for name in ALGORITHMS})
    figures.save(made, path)


def _draw_recovery(ax: Any, found: dict[str, list[float]]) -> None:
    """Episodes to recover, a mark per seed; those that never did stand on top."""
    finite = [v for values in found.values() for v in values if np.isfinite(v)]
    top = 1.15 * max(finite, default=1.0)
    for place, (name, values) in enumerate(found.items()):
        look = figures.LOOK[name]
        heights = [v if np.isfinite(v) else top for v in values]
        spread = np.linspace(-0.15, 0.15, len(values))
        ax.plot(place + spread, heights, figures.MARKERS[look], color=figures.COLOURS[look], markersize=5)
        if values:
            ax.hlines(min(np.median(values), top), place - 0.25, place + 0.25, color=figures.COLOURS[look])
    if any(np.isinf(v) for values in found.values() for v in values):
        ax.axhline(top, color="grey", linewidth=0.5)
        ax.text(0.5, top, "not regained", ha="center", va="bottom", fontsize=8)
    ax.set_xlabel("")
    ax.set_xlim(-0.6, len(found) - 0.4)
    ax.set_ylim(0, 1.08 * top)
    ax.set_xticks(range(len(found)), [figures.NAMES[name] for name in found])
    ax.set_ylabel("episodes to regain 95 %")
    ax.set_title("a mark per seed, line: median", fontsize=10)


def recoveries(rows: Sequence[Row], algorithm: str, at: float) -> list[float]:
    """Episodes to regain 95 %, per finished seed; those without evaluations before the perturbation are left out."""
    measure = functools.partial(statistics.recovery, at=at)
    found = report.per_seed(rows, {"algorithm": algorithm}, measure)
    return [value for value in found.values() if not np.isnan(value)]


def findings(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """The drop, and who is back first."""
    at = onset(conditions)
    lines = []
    for name in ALGORITHMS:
        found = report.per_seed(rows, {"algorithm": name}, functools.partial(statistics.drop, at=at))
        drops = [value for value in found.values() if not np.isnan(value)]
        if drops:
            shown = report.interval(statistics.bootstrap(drops))
            lines.append(f"- {figures.NAMES[name]}: at episode {at:,} success falls by {shown} of its former level.")
    a, b = (recoveries(rows, name, at) for name in ALGORITHMS)
    claim = report.Claim(
        f"CURIOUS regains {100 * statistics.RECOVERED:g} % of its former success in fewer episodes than M-UVFA",
        a, b, "CURIOUS", "M-UVFA", "Episodes to regain it", smaller=True,
    )  # fmt: skip
    lines.append(claim.words())
    for name, values in zip(ALGORITHMS, (a, b), strict=True):
        never = sum(np.isinf(v) for v in values)
        if never:
            lines.append(f"- {figures.NAMES[name]}: {never} of {len(values)} seeds had not regained it by the end.")
    return lines


EXPERIMENT = Experiment(
    name="perturbation",
    heading="Perturbation: a cube's sensor is off from one episode on",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"modules": ("reach", "push", "pnp", "push2"), "perturb_at": 237_500, "episodes": 400_000},
        "point": {**probe.SETTINGS, **probe.PERTURBATION},
    },
    fixed={"algorithm": "the experiment's own two"},
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
