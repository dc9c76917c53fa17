"""Train CURIOUS on many modules (CURIOUS, "Scaling"): ten that can be learned.

python -m experiments.scaling --seeds 0-2 --out DIR
python -m experiments.scaling --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.run.rows import FRESH
from experiments import probe
from experiments.analysis import figures, statistics, summary
from experiments.analysis.table import SUCCESS, Table, in_a_row, modules, select, select_finished
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

MODULES = ("reach", *(f"push{k}" for k in range(1, 5)), *(f"pnp{k}" for k in range(1, 5)), "stack")


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out CURIOUS alone, unless --algorithm names another."""
    return [Condition({"algorithm": settings.get("algorithm", "curious")}, settings)]


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw success per module, and mean success ± std."""
    made, (left, right) = figures.figure(2, size=(5.6, 4.0))
    part = select(rows, **conditions[0].labels)
    for look, name in enumerate(modules(part, achievable=True)):
        figures.line(left, part, f"{SUCCESS}/{name}", name, look, "sem")
    figures.success_axes(left, figures.caption(rows, "per module, mean ± s.e.m."))
    left.set_ylabel("success rate")
    figures.legend(left, columns=4)
    name = conditions[0].labels["algorithm"]
    figures.line(right, part, SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    figures.success_axes(right, "over modules, mean ± std")
    figures.legend(right)
    figures.save(made, path)


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say which modules end mastered, and when the mean does."""
    labels = conditions[0].labels
    part = select_finished(select(rows, **labels))
    if not len(part):
        return ["- No seed has finished yet."]
    last = {name: at_the_end(part, name) for name in modules(part, achievable=True)}
    learned = sum(value >= statistics.MASTERED for value in last.values())
    times = summary.mastery(rows, **labels)
    return [
        f"- {learned} of {len(last)} modules end at {statistics.MASTERED:g} or more (mean over seeds): "
        + ", ".join(f"{name} {value:.2f}" for name, value in last.items())
        + ".",
        f"- Mean success {statistics.MASTERED:g} after {summary.spread(times)} episodes ({len(times)} seeds).",
        *([f"- Left out of the first: {without}."] if (without := summary.left_out(rows, labels)) else []),
    ]


def at_the_end(rows: Table, module: str) -> float:
    """Compute a module's success at the end, the mean over seeds: on fresh episodes where the last evaluation has."""
    own = in_a_row(rows, {}, f"{SUCCESS}/{module}", f"{FRESH}/{module}")
    return float(np.mean([values[-1] for _, values in own.values()]))


EXPERIMENT = Experiment(
    name="scaling",
    heading="Scaling: ten modules at once",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"modules": MODULES, "episodes": 600_000, "evaluation_episodes": 200},
        "point": {**probe.SETTINGS, **probe.SCALING},
    },
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
