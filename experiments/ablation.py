"""Take the recipe `fast` apart: train with it, and with one of its parts at a time as the cpu preset has it.

python -m experiments.ablation --seeds 100-102 --jobs 2 --out DIR
python -m experiments.ablation --variants "guide=0;batch_size=256+updates_per_cycle=128" --seeds 0-4 --out DIR

A variant names settings and their values. Every training ends when its mean success has reached --target-success.
"""

import argparse
import functools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax import train
from curious_jax.cli import markdown
from curious_jax.cli import parser as options
from curious_jax.config import option_name
from curious_jax.errors import ConfigError
from experiments.analysis import figures, statistics, summary
from experiments.analysis.table import SUCCESS, TIME, Table, modules, per_seed, select, select_ended, select_rows
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

WHOLE = "nothing"  # what is changed where the recipe is whole
# First each part of `fast` as the cpu preset has it (48 updates a cycle of 32 episodes are its 192 of 128), then what
# was tried beside it.
VARIANTS = (
    *("guide=0", "random_gripper=0", "updates_per_cycle=48", "batch_size=256", "hidden_size=256"),
    *("discount=0.98", "target_rate=0.02", "policy_average=1", "window_span=none", "eigen=off", "sleep=off"),
    *("mirror=on", "critic_layer_norm=on", "random_action=0.1", "replay=uniform"),
)
PANEL = 5  # lines per panel


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what is changed."""
    parser.add_argument(
        "--variants",
        default=";".join(VARIANTS),
        metavar="A=X;B=Y+C=Z",
        help="what is changed, one variant after another: settings of train, several joined by + [default: "
        + ";".join(VARIANTS)
        + "]",
    )


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out the recipe whole, then each variant of it."""
    found = [Condition({"changed": WHOLE}, settings)]
    for text in (part.strip() for part in own.variants.split(";")):
        given = [one.strip().partition("=")[::2] for one in text.split("+")]
        if not all(name and value for name, value in given):
            raise ConfigError(f"--variants {text}: must be settings with values, such as guide=0;mirror=on")
        arguments = [word for name, value in given for word in (option_name(name), value)]
        changed = options.settings(train.parser().read(arguments))
        kept = {name: held for name, held in settings.items() if name != "window_span" or "window" not in changed}
        found.append(Condition({"changed": text}, {**kept, **changed}))
    return found


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw mean success ± s.e.m., the whole recipe in every panel."""
    variants = conditions[1:]
    parts = [variants[i : i + PANEL] for i in range(0, len(variants), PANEL)]
    made, axes = figures.figure(len(parts), size=(5.2, 4.0))
    for ax, part in zip(axes, parts, strict=True):
        for look, condition in enumerate((conditions[0], *part)):
            figures.line(ax, select(rows, **condition.labels), SUCCESS, condition.labels["changed"], look, "sem")
        figures.success_axes(ax)
        figures.legend(ax)
    made.suptitle(figures.caption(rows, "mean ± s.e.m. over seeds"), fontsize=10)
    figures.save(made, path)


def minutes(rows: Table) -> dict[int, float]:
    """Return the minutes of each ended seed from its start to the first evaluation with a mean success of 0.9."""
    found = {}
    for seed, own in select_ended(rows).groupby("seed"):
        reached = own.iloc[:0]
        if SUCCESS in own:  # which a table lacks whose seeds all diverged before an evaluation
            own = own.sort_values("episodes")
            reached = own[own[SUCCESS] >= statistics.MASTERED]
        found[int(seed)] = reached[TIME].iloc[0] / 60 if len(reached) and TIME in reached else math.inf
    return found


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Show a row per variant: episodes to 0.9 per module and of the mean, and minutes. Nothing is tested."""
    names, first = modules(rows, achievable=True), functools.partial(statistics.time_to, times=1)
    mark = f"{statistics.MASTERED:g}"
    head = ["changed", "seeds", *(f"{name} to {mark}" for name in names), f"mean to {mark}", f"minutes to {mark}"]
    found = []
    for condition in conditions:
        labels = condition.labels
        keys = [*(f"{SUCCESS}/{name}" for name in names), SUCCESS]
        times = [list(per_seed(rows, labels, first, key, diverged=True).values()) for key in keys]
        spent = list(minutes(select_rows(rows, labels)).values())
        if not spent:
            continue
        cells = [labels["changed"], str(len(spent)), *(summary.spread(t) if t else "" for t in times)]
        cells.append(f"{_tenths(np.median(spent))} ({', '.join(_tenths(m) for m in sorted(spent))})")
        found.append(cells)
    if not found:
        return ["- No seed has finished yet."]
    left = summary.pending(rows, *(c.labels for c in conditions))
    return [
        *markdown.table(head, found).splitlines(),
        "",
        "Episodes to the first evaluation at the mark: median over seeds (range). Nothing is tested."
        + (f" {left}." if left else ""),
    ]


def _tenths(value: float) -> str:
    return "never" if math.isinf(value) else f"{value:.1f}"


EXPERIMENT = Experiment(
    name="ablation",
    heading="The recipe `fast`, part by part",
    conditions=conditions,
    draw=draw,
    findings=findings,
    options=add_options,
    defaults={
        "fetch": {
            **dict(preset="fast", target_success=0.9, episodes=24_000, capacity=24_000),
            **dict(evaluation_interval=512, evaluation_episodes=96),
        },
        "point": {"target_success": 0.9},
    },
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
