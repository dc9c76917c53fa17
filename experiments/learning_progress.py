"""What learning progress does inside a run (CURIOUS, "Active learning"): competence, |LP| and p_LP of the modules; and
what it adds to replay alone: replay by LP against uniform replay, selection by LP in both.

    python -m experiments.learning_progress --seeds 0-4 --out DIR
    python -m experiments.learning_progress --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax.show.stats import module_names
from experiments import probe
from experiments.analysis import figures, statistics
from experiments.analysis import summary as report
from experiments.analysis.table import Row, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

REPLAYS = ("lp", "uniform")
TITLES = {"lp": "replay by LP (CURIOUS)", "uniform": "uniform replay"}
KNOWN = 0.75  # a module's competence at which it counts as learned


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """CURIOUS, and CURIOUS with uniform replay."""
    fixed = {"algorithm": "curious", "selection": "lp"}
    return [Condition({"replay": name}, {**settings, **fixed, "replay": name}) for name in REPLAYS]


def draw(rows: Sequence[Row], conditions: Sequence[Condition], path: Path) -> None:
    """The first seed of CURIOUS: competence, |LP|, p_LP per module; then competence of all seeds, and replay by LP
    against uniform replay."""
    own = select(rows, replay="lp")
    seeds = sorted({row["seed"] for row in own})
    one = [row for row in own if row["seed"] in seeds[:1]]
    made, axes = figures.figure(5)
    panels = (
        ("competence", "competence $C$", one),
        ("learning_progress", "$|LP|$", one),
        ("p_module", "$p_{LP}$", one),
        ("competence", "competence $C$", own),
    )
    for ax, (key, label, part) in zip(axes, panels, strict=False):
        for look, name in enumerate(module_names(part)):
            figures.line(ax, part, f"{key}/{name}", name, look, "std", absolute=key == "learning_progress")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
        ax.set_xlim(left=0)
        ax.set_title(f"seed {seeds[0]}" if part is one and seeds else f"{len(seeds)} seeds, mean ± std", fontsize=10)
    figures.legend(axes[0])
    parts = {name: select(rows, replay=name) for name in REPLAYS}
    for look, (name, part) in enumerate(parts.items()):
        figures.line(axes[4], part, figures.SUCCESS, TITLES[name], look, "sem")
    figures.dots(axes[4], parts["lp"], parts["uniform"])
    figures.success_axes(axes[4], "selection by LP; mean ± s.e.m.; dots: p < 0.01")
    figures.legend(axes[4])
    figures.save(made, path)


def findings(rows: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """The order in which modules are learned, and LP in replay."""
    lines = []
    own = select(rows, replay="lp")
    for name in [n for n in module_names(own) if any(f"eval/success/{n}" in row for row in own)]:
        key = f"competence/{name}"
        found = report.per_seed(rows, {"replay": "lp"}, lambda e, v: statistics.first_at(e, v, KNOWN, 1), key)
        times = sorted(found.values())
        if times:
            middle, never = times[len(times) // 2], sum(t == float("inf") for t in times)
            after = "not learned" if middle == float("inf") else f"after {middle:,.0f} episodes"
            late = f"; {never} of {len(times)} seeds never" if never else ""
            lines.append(f"- {name}: competence ≥ {KNOWN:g} {after} (median over seeds){late}.")
    a, b = (report.area(rows, replay=name) for name in REPLAYS)
    claim = report.Claim(
        "Replay by LP learns faster than uniform replay, selection by LP in both",
        a, b, "replay by LP", "uniform replay", "Area under the curve",
    )  # fmt: skip
    return [*lines, claim.words()]


EXPERIMENT = Experiment(
    name="learning_progress",
    heading="Learning progress: what a run of CURIOUS does, and what LP adds to replay",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"distractors": 3, "episodes": 300_000},
        "point": {**probe.SETTINGS, "distractors": 3},
    },
    fixed={name: "the experiment's own" for name in ("algorithm", "selection", "replay")},
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
