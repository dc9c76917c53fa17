"""Show what learning progress does inside a run (CURIOUS, "Active learning" and "Developmental learning"): competence,
|LP| and p_LP of each trial, the order of mastery, forgetting; and what LP adds to replay alone.

    python -m experiments.learning_progress --seeds 0-4 --out DIR
    python -m experiments.learning_progress --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import probe
from experiments.analysis import figures, summary, trials
from experiments.analysis.table import SUCCESS, Table, modules, select
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

REPLAYS = ("lp", "uniform")
TITLES = {"lp": "replay by LP (CURIOUS)", "uniform": "uniform replay"}
TRIALS = 5  # trials drawn, as in the paper
PANELS = (("competence", "competence $C$"), ("learning_progress", "$|LP|$"), ("p_module", "$p_{LP}$"))


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out CURIOUS, and CURIOUS with uniform replay."""
    fixed = {"algorithm": "curious", "selection": "lp"}
    return [Condition({"replay": name}, {**settings, **fixed, "replay": name}) for name in REPLAYS]


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw competence, |LP| and p_LP of the first trials, then replay by LP against uniform replay."""
    own = select(rows, replay="lp")
    seeds = sorted(own["seed"].unique())[:TRIALS]
    learned = modules(own, achievable=True)
    others = [name for name in modules(own) if name not in learned]
    made, axes = figures.figure(len(PANELS) * len(seeds) + 1)
    for i, seed in enumerate(seeds):
        part = select(own, seed=seed)
        for ax, (key, label) in zip(axes[len(PANELS) * i :], PANELS, strict=False):
            absolute = key == "learning_progress"
            figures.background(ax, part, [f"{key}/{name}" for name in others], "distractors", absolute)
            for look, name in enumerate(learned):
                figures.line(ax, part, f"{key}/{name}", name, look, absolute=absolute)
            ax.set_ylabel(label)
            ax.set_ylim(bottom=0)
            ax.set_xlim(left=0)
            ax.set_title(f"trial of seed {seed}", fontsize=10)
    if seeds:
        figures.legend(axes[0])
    parts = {name: select(rows, replay=name) for name in REPLAYS}
    for look, (name, part) in enumerate(parts.items()):
        figures.line(axes[-1], part, SUCCESS, TITLES[name], look, "sem")
    figures.dots(axes[-1], parts["lp"], parts["uniform"])
    figures.success_axes(axes[-1], figures.caption(rows, "selection by LP; mean ± s.e.m.; dots: p < 0.01"))
    figures.legend(axes[-1])
    figures.save(made, path)


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say in which order modules are mastered, what forgetting does, and what LP adds to replay."""
    own = select(rows, replay="lp")
    text = "Replay by LP masters the modules in fewer episodes than uniform replay, selection by LP in both"
    without = summary.left_out(rows, {"replay": "lp"})
    return [
        *trials.phases(own),
        *trials.lapses_in_words(trials.forgetting(own)),
        *([f"- Left out of what is described above: {without}."] if without else []),
        *summary.faster(rows, text, {"replay": "lp"}, {"replay": "uniform"}),
    ]


EXPERIMENT = Experiment(
    name="learning_progress",
    heading="Learning progress: what a run of CURIOUS does, and what LP adds to replay",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"distractors": 7, "episodes": 300_000, "evaluation_episodes": 192},
        "point": {**probe.SETTINGS, **probe.LEARNING_PROGRESS},
    },
    fixed={name: "the experiment's own" for name in ("algorithm", "selection", "replay")},
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
