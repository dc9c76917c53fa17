"""Compare architectures (CURIOUS, "Impact of the policy and value function architecture"): M-UVFA against an expert per
module (MG-ME), with distractors, and one flat goal (HER), without.

M-UVFA and MG-ME are trained under one substitution rule, the paper's: a replayed transition always takes the module
that it was drawn for. HER has no distractors, because a goal that asks for one can never be reached.

    python -m experiments.architectures --seeds 0-9 --out DIR
    python -m experiments.architectures --seeds 0-9 --world point --out DIR
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import probe
from experiments.analysis import figures, summary
from experiments.analysis.table import SUCCESS, Table, count, curves, select, select_ended
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

ALGORITHMS = ("muvfa", "mgme", "her")
FLAT_CEILING = 0.05  # HER's mean success stays below


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out one condition per architecture."""
    common = {"substitution": "drawn", **settings}
    without = {**common, "algorithm": "her", "distractors": 0, "guide": 0.0}
    return [*(Condition({"algorithm": a}, {**common, "algorithm": a}) for a in ALGORITHMS[:2]),
            Condition({"algorithm": "her"}, without)]  # fmt: skip


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw mean success ± std, with dots where M-UVFA is above MG-ME."""
    made, (ax,) = figures.figure(1, size=(6.4, 4.2))
    parts = {name: select(rows, algorithm=name) for name in ALGORITHMS}
    for name, part in parts.items():
        figures.line(ax, part, SUCCESS, figures.NAMES[name], figures.LOOK[name], "std")
    figures.dots(ax, parts["muvfa"], parts["mgme"], look=figures.LOOK["muvfa"])
    figures.success_axes(ax, figures.caption(rows, "mean ± std over seeds; dots: M-UVFA above MG-ME, p < 0.01"))
    figures.legend(ax, below=True)
    figures.save(made, path)


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say whether M-UVFA is faster than MG-ME, and whether HER stays at 0."""
    lines = summary.faster(
        rows, "M-UVFA masters the modules in fewer episodes than MG-ME", {"algorithm": "muvfa"}, {"algorithm": "mgme"}
    )
    flat = curves(select_ended(select(rows, algorithm="her")), SUCCESS)
    if flat.empty:
        return [*lines, "- HER: no seed has finished yet."]
    highest, seeds = flat.mean(axis=1).max(), count(rows, {"algorithm": "her"})
    verdict = summary.APPEARS[bool(highest <= FLAT_CEILING)]
    if left := summary.pending(rows, {"algorithm": "her"}):
        verdict = f"{summary.UNDECIDED}: {left}"
    elif flat.shape[1] == 1:
        verdict = f"{summary.UNDECIDED} by one seed"
    diverged = f"; {seeds.diverged} diverged, and count until then" if seeds.diverged else ""
    return [
        *lines,
        f"- HER, with one flat goal and no distractors, stays at 0 (mean success at most {FLAT_CEILING:g} at every "
        f"evaluation): {verdict}; the highest mean over seeds is {highest:.3f}, "
        f"the highest of any seed {flat.max().max():.3f}{diverged}.",
    ]


EXPERIMENT = Experiment(
    name="architectures",
    heading="Architectures: M-UVFA, module experts, one flat goal",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {"distractors": 4, "episodes": 500_000, "evaluation_episodes": 192},
        "point": {**probe.SETTINGS, "distractors": 4},
    },
    fixed={"algorithm": "the experiment's own three"},
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
