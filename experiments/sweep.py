"""Run any grid of trainings: every option may list values, separated by commas (lists of modules, also in --order,
by semicolons).

python -m experiments.sweep --algorithm curious,muvfa --epsilon 0.2,0.4 --seeds 0-99 --out DIR
python -m experiments.sweep --modules "reach;reach,push" --seeds 0-4 --shard 3/10 --out DIR
python -m experiments.sweep --algorithm curious,muvfa --engine ray --gpus 1 --out DIR
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.cli import parser as options
from curious_jax.config import fields_by_name
from curious_jax.errors import ConfigError
from experiments.analysis import figures
from experiments.analysis import summary as report
from experiments.analysis.table import DIGITS, SUCCESS, Table, count, ends_at_target, select
from experiments.engine.command import AXES, OWN, Experiment, main
from experiments.engine.grid import Condition

SINGLE = ("world", "preset")  # one value each
PANEL = 6  # lines per panel
NOTHING_YET = "- No seed has finished yet."


def read(given: dict[str, Any]) -> dict[str, Any]:
    """Flat settings that all trainings have, and under AXES, for each, those that they do not: [{name: value}, ...].

    Args:
      given: options of train as they were typed, by name.
    Raises:
      ConfigError: naming the option.
    """
    fields = {name: value for name, value in given.items() if name in fields_by_name()}
    held = {"config": given.get("config")}  # each variant as train's parser would have read it
    axes = [[(name, one) for one in _values(name, value)] for name, value in fields.items()]
    variants = [options.settings(held | dict(chosen), apart=OWN) for chosen in itertools.product(*axes)]
    common = {name: value for name, value in variants[0].items() if all(v.get(name) == value for v in variants)}
    return {**common, AXES: [{k: v for k, v in one.items() if k not in common} for one in variants]}


def _values(name: str, value: Any) -> list[Any]:
    if not isinstance(value, str) or name in SINGLE:
        return [value]
    parts = [part.strip() for part in value.split(";" if name in ("modules", "order") else ",")]
    if not all(parts):
        raise ConfigError(f"--{name.replace('_', '-')} '{value}': must be values separated by commas")
    return parts


def conditions(own: argparse.Namespace, settings: dict[str, Any]) -> list[Condition]:
    """The product of all axes."""
    common = {name: value for name, value in settings.items() if name != AXES}
    found = []
    listed = set.intersection(*(set(axis) for axis in settings[AXES]))  # what an algorithm brings may be in some alone
    for axis in settings[AXES]:
        labels = {n: "+".join(v) if isinstance(v, tuple) else v for n, v in axis.items() if n in listed}
        found.append(Condition(labels or {"algorithm": common.get("algorithm", "curious")}, {**common, **axis}))
    _check_digits(found)
    return found


def _check_digits(conditions: Sequence[Condition]) -> None:
    """Refuse conditions that a table could not tell apart. Raises ConfigError, naming the second of two."""
    seen: list[dict[str, Any]] = []
    for condition in conditions:
        labels = {k: DIGITS % value if isinstance(value, float) else value for k, value in condition.labels.items()}
        other = next((one for one, shown in zip(conditions, seen) if shown == labels), None)
        if other is not None and other.name != condition.name:
            raise ConfigError(f"{condition.name}: must differ from {other.name} in the first six digits of a number")
        seen.append(labels)


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Mean success ± s.e.m., at most PANEL conditions to a panel."""
    parts = [conditions[i : i + PANEL] for i in range(0, len(conditions), PANEL)]
    made, axes = figures.figure(len(parts), size=(5.2, 4.0))
    for ax, part in zip(axes, parts, strict=True):
        for look, condition in enumerate(part):
            figures.line(ax, select(rows, **condition.labels), SUCCESS, report.title(condition.labels), look)
        figures.success_axes(ax)
        figures.legend(ax, columns=1)
    made.suptitle(figures.caption(rows, "mean ± s.e.m. over seeds"), fontsize=10)
    figures.save(made, path)


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """The best condition so far; a sweep declares no claim."""
    left = report.pending(rows, *(c.labels for c in conditions))
    left = f" {left}." if left else ""
    if ends_at_target(rows):
        times = {report.title(c.labels): report.mastery(rows, **c.labels) for c in conditions}
        medians = {name: float(np.median(values)) for name, values in times.items() if values}
        if not medians:
            return [NOTHING_YET]
        best = min(medians, key=lambda name: medians[name])
        found = report.spread(times[best])
        return [f"- Fewest episodes to mean success 0.9: {best}, {found}. A sweep tests no claim.{left}"]
    areas = {report.title(c.labels): report.area(rows, **c.labels) for c in conditions}
    means = {name: sum(values) / len(values) for name, values in areas.items() if values}
    if not means:
        return [NOTHING_YET]
    best = max(means, key=lambda name: means[name])
    lost = sum(count(rows, c.labels).diverged for c in conditions)
    left = (f" Without {lost} that diverged." if lost else "") + left
    return [f"- Largest mean area under the curve: {best} ({means[best]:.3f}). A sweep tests no claim.{left}"]


EXPERIMENT = Experiment(
    name="sweep",
    heading="Sweep: any grid of trainings",
    help="""Every option of curious_jax.train may list several values, separated by commas (lists of modules by
semicolons); the sweep runs all their combinations with every seed. Six conditions, ten seeds each:

    python -m experiments.sweep --algorithm curious,muvfa --epsilon 0.2,0.4,0.6 --seeds 0-9
    python -m experiments.sweep --modules "reach;reach,push" --seeds 0-4""",
    conditions=conditions,
    draw=draw,
    findings=findings,
    settings=read,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
