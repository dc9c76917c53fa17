"""Many modules (CURIOUS, "scaling"): ten that can be learned, CURIOUS.

python -m experiments.scaling --seeds 0-2 --out DIR
python -m experiments.scaling --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.show.stats import module_names, series
from experiments import probe
from experiments.analysis import figures
from experiments.analysis import summary as report
from experiments.analysis.table import Row, finished, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

MODULES = ("reach", *(f"push{k}" for k in range(1, 5)), *(f"pnp{k}" for k in range(1, 5)), "stack")


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """CURIOUS alone, unless --algorithm names another."""
    return [Condition({"algorithm": settings.get("algorithm", "curious")}, settings)]


def draw(rows: Sequence[Row], conditions: Sequence[Condition], path: Path) -> None:
    """Success per module, and mean success ± std."""
    made, (left, right) = figures.figure(2, size=(5.6, 4.0))
    part = select(rows, **conditions[0].labels)
    for look, name in enumerate(evaluated(part)):
        figures.line(left, part, f"eval/success/{name}", name, look, "sem")
    figures.success_axes(left, "per module, mean ± s.e.m.")
    left.set_ylabel("success rate")
    figures.legend(left, ncols=2, loc="upper left")
    name = conditions[0].labels["algorithm"]
    figures.line(right, part, figures.SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    figures.success_axes(right, "over modules, mean ± std")
    figures.legend(right, loc="upper left")
    figures.save(made, path)


def evaluated(rows: Sequence[Row]) -> list[str]:
    """The modules that have a success rate."""
    return [name for name in module_names(rows) if any(f"eval/success/{name}" in row for row in rows)]


def findings(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """Final success per module."""
    part = finished(select(rows, **conditions[0].labels))
    if not part:
        return ["- No seed has finished yet."]
    last = {name: series(part, f"eval/success/{name}")[1][-1] for name in evaluated(part)}
    shown = ", ".join(f"{name} {np.nanmean(values):.2f}" for name, values in last.items())
    learned = sum(np.nanmean(values) >= report.MASTERED for values in last.values())
    return [f"- {learned} of {len(last)} modules end at {report.MASTERED:g} or more (mean over seeds): {shown}."]


EXPERIMENT = Experiment(
    name="scaling",
    heading="Scaling: ten modules at once",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"modules": MODULES, "episodes": 600_000},
        "point": {**probe.SETTINGS, **probe.SCALING},
    },
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
