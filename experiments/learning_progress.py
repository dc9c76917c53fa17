"""Show what learning progress does inside a run (CURIOUS, "Active learning" and "Developmental learning"): competence,
|LP| and p_LP of each trial, the order of mastery, forgetting; and what LP adds to replay alone.

    python -m experiments.learning_progress --seeds 0-4 --out DIR
    python -m experiments.learning_progress --seeds 0-9 --world point --out DIR
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import probe
from experiments.analysis import figures, statistics, summary
from experiments.analysis.statistics import MASTERED, Lapse
from experiments.analysis.table import SUCCESS, Table, curves, finished, modules, per_seed, select
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
    made, axes = figures.figure(len(PANELS) * len(seeds) + 1)
    for i, seed in enumerate(seeds):
        for ax, (key, label) in zip(axes[len(PANELS) * i :], PANELS, strict=False):
            for look, name in enumerate(modules(own)):
                part = select(own, seed=seed)
                figures.line(ax, part, f"{key}/{name}", name, look, absolute=key == "learning_progress")
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


def order(rows: Table, seed: int, key: str = "competence") -> list[str]:
    """Order the modules that a trial masters by the time at which it does, equal times joined by `=`."""
    times: dict[float, list[str]] = {}
    for name in modules(rows, achievable=True):
        at = per_seed(select(rows, seed=seed), {}, statistics.time_to, f"{key}/{name}").get(seed, np.inf)
        times.setdefault(at, []).append(name)
    return ["=".join(names) for at, names in sorted(times.items()) if np.isfinite(at)]


def forgetting(rows: Table) -> list[tuple[str, int, Lapse]]:
    """List every lapse: (module, seed, what happened)."""
    found = []
    for name in modules(rows, achievable=True):
        competence, share = (curves(finished(rows), f"{key}/{name}") for key in ("competence", "p_module"))
        for seed in competence:
            own = statistics.lapses(competence.index, competence[seed].to_numpy(), share[seed].to_numpy())
            found += [(name, int(seed), lapse) for lapse in own]
    return found


def phases(rows: Table) -> list[str]:
    """Say in which order each trial masters the modules, and when."""
    seeds = sorted(finished(rows)["seed"].unique())
    if not seeds:
        return ["- No seed has finished yet."]
    orders = Counter(" → ".join(order(rows, seed)) or "none" for seed in seeds)
    shown = "; ".join(f"{text} ({number} of {len(seeds)})" for text, number in orders.most_common())
    lines = [f"- Modules in the order in which competence reaches {MASTERED:g}, per trial: {shown}."]
    for name in modules(rows, achievable=True):
        times = list(per_seed(rows, {}, statistics.time_to, f"competence/{name}").values())
        lines.append(f"  - {name}: competence {MASTERED:g} after {summary.spread(times)} episodes.")
    return lines


def lapses_in_words(found: Sequence[tuple[str, int, Lapse]]) -> list[str]:
    """Say how often a mastered module was forgotten and what its share did next."""
    head = f"- Falls of competence by {statistics.FORGOTTEN:g} or more after {MASTERED:g}: {len(found)}"
    if not found:
        return [head + "."]
    rose = sum(lapse.share_after > lapse.share_before for _, _, lapse in found)
    before, after = (np.mean([getattr(lapse, f"share_{k}") for *_, lapse in found]) for k in ("before", "after"))
    back = sum(lapse.regained for *_, lapse in found)
    lines = [
        f"{head}; the module's share p rose over the next {statistics.AFTER} evaluations in {rose} of them (mean "
        f"{before:.2f} before, {after:.2f} after); competence was back at {MASTERED:g} later in {back}."
    ]
    for name in dict.fromkeys(name for name, *_ in found):
        own = [(seed, lapse) for n, seed, lapse in found if n == name]
        low = min(own, key=lambda pair: pair[1].lowest)
        lines.append(
            f"  - {name}: {len(own)}, the deepest to {low[1].lowest:.2f} (seed {low[0]}, {low[1].episode:,.0f})."
        )
    return lines


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say in which order modules are mastered, what forgetting does, and what LP adds to replay."""
    own = select(rows, replay="lp")
    text = "Replay by LP masters the modules in fewer episodes than uniform replay, selection by LP in both"
    return [
        *phases(own),
        *lapses_in_words(forgetting(own)),
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
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
