"""Let a sensor fail (CURIOUS, "Resilience to forgetting and sensor failures"): one cube is observed elsewhere from an
episode on; compare the episodes until the former success is regained, CURIOUS against M-UVFA.

Nothing is evicted from the store, as in the paper: what was stored before stays, so that practice alone makes the share
of new episodes grow.

    python -m experiments.perturbation --seeds 0-9 --out DIR
    python -m experiments.perturbation --seeds 0-9 --world point --out DIR
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError
from experiments import probe
from experiments.analysis import figures, statistics, summary
from experiments.analysis.table import SUCCESS, Table, count, per_seed, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("curious", "muvfa")


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out both algorithms, with the same perturbation. Raises ConfigError for runs that may end before it."""
    if (target := settings.get("target_success")) is not None:
        raise ConfigError(
            f"--target-success {target:g}: leave it out here, where a seed has to train on after its sensor fails"
        )
    if settings.get("perturb_at") is None:
        raise ConfigError("--perturb-at none: must be the training episodes after which the sensor fails")
    return [Condition({"algorithm": name}, {**settings, "algorithm": name}) for name in ALGORITHMS]


def onset(conditions: Sequence[Condition]) -> int:
    """Training episodes after which the sensor is off."""
    return int(conditions[0].config().perturbation.perturb_at or 0)


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw mean success ± std with the onset, dots where CURIOUS is above M-UVFA, and every seed's recovery."""
    at = onset(conditions)
    made, (left, right) = figures.figure(2, size=(5.6, 4.0))
    parts = {name: select(rows, algorithm=name) for name in ALGORITHMS}
    for name, part in parts.items():
        figures.line(left, part, SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    left.axvline(at, color="black", linestyle="--", linewidth=1)
    after = {name: part[part["episodes"] >= at] if len(part) else part for name, part in parts.items()}
    figures.dots(left, after["curious"], after["muvfa"])
    text = "mean ± std over seeds; dots: CURIOUS above M-UVFA, p < 0.01"
    figures.success_axes(left, figures.caption(rows, text))
    figures.legend(left, below=True)
    figures.marks(right, {name: recoveries(rows, name, at) for name in ALGORITHMS}, "not regained")
    right.set_ylabel("episodes to regain 95 %")
    figures.save(made, path)


def recoveries(rows: Table, algorithm: str, at: float) -> list[float]:
    """Return the episodes to regain 95 % of each ended seed that had mastered all modules at the onset."""
    return list(summary.recovery_per_seed(rows, {"algorithm": algorithm}, at).values())


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say how deep success falls, and who is back first."""
    at = onset(conditions)
    lines = []
    sides = [recoveries(rows, name, at) for name in ALGORITHMS]
    for name, values in zip(ALGORITHMS, sides, strict=True):
        found = per_seed(rows, {"algorithm": name}, functools.partial(statistics.fall, at=at))
        falls = [value for value in found.values() if not np.isnan(value)]
        if falls:
            shown, seeds = summary.interval(statistics.bootstrap(falls)), count(rows, {"algorithm": name})
            diverged = f" ({seeds.diverged} diverged)" if seeds.diverged else ""
            lines.append(
                f"- {figures.NAMES[name]}: at episode {at:,} success falls by {shown} of its former level; "
                f"{len(values)} of {seeds.ended} seeds{diverged} had a former level of {statistics.MASTERED:g} "
                "and are compared."
            )
    claim = summary.Claim(
        f"CURIOUS regains {100 * statistics.RECOVERED:g} % of its former success in fewer episodes than M-UVFA",
        sides[0], sides[1], "CURIOUS", "M-UVFA", "Episodes to regain it",
        pending=summary.pending(rows, *({"algorithm": name} for name in ALGORITHMS)),
    )  # fmt: skip
    return [*lines, claim.words()]


EXPERIMENT = Experiment(
    name="perturbation",
    heading="Perturbation: a cube's sensor is off from one episode on",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {
            "modules": ("reach", "push", "pnp", "push2"),
            "perturb_at": 237_500,
            "episodes": 400_000,
            "evaluation_episodes": 192,
        },
        "point": {**probe.SETTINGS, **probe.PERTURBATION},
    },
    fixed={"algorithm": "the experiment's own two"},
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
