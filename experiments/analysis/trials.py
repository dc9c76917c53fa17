"""Says in words what happens inside trials: the order of mastery, and what becomes of modules that are forgotten."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from experiments.analysis import statistics, summary
from experiments.analysis.statistics import MASTERED, Lapse
from experiments.analysis.table import SUCCESS, Table, curves, modules, per_seed, select, select_finished

COMPETENCE = "competence"
WORDS = {COMPETENCE: "competence", SUCCESS: "success on evaluation goals"}


def order(rows: Table, seed: int) -> list[str]:
    """Order the modules whose competence a trial masters by the time at which it does, equal times joined by `=`."""
    times: dict[float, list[str]] = {}
    for name in modules(rows, achievable=True):
        at = per_seed(select(rows, seed=seed), {}, statistics.time_to, f"{COMPETENCE}/{name}").get(seed, np.inf)
        times.setdefault(at, []).append(name)
    return ["=".join(names) for at, names in sorted(times.items()) if np.isfinite(at)]


def forgetting(rows: Table, key: str = COMPETENCE) -> list[tuple[str, int, Lapse]]:
    """List every lapse: (module, seed, what happened)."""
    found = []
    for name in modules(rows, achievable=True):
        height, share = (curves(select_finished(rows), f"{k}/{name}") for k in (key, "p_module"))
        for seed in height:
            curve = height[seed].dropna()  # seeds that met a target have shorter curves
            own = statistics.lapses(curve.index, curve.to_numpy(), share[seed][curve.index].to_numpy())
            found += [(name, int(seed), lapse) for lapse in own]
    return found


def phases(rows: Table) -> list[str]:
    """Say in which order each trial masters the modules, and when."""
    seeds = sorted(select_finished(rows)["seed"].unique())
    if not seeds:
        return ["- No seed has finished yet."]
    orders = Counter(" → ".join(order(rows, seed)) or "none" for seed in seeds)
    shown = "; ".join(f"{text} ({number} of {len(seeds)})" for text, number in orders.most_common())
    lines = [f"- Modules in the order in which competence reaches {MASTERED:g}, per trial: {shown}."]
    for name in modules(rows, achievable=True):
        times = list(per_seed(rows, {}, statistics.time_to, f"{COMPETENCE}/{name}").values())
        lines.append(f"  - {name}: competence {MASTERED:g} after {summary.spread(times)} episodes.")
    return lines


def lapses_in_words(found: Sequence[tuple[str, int, Lapse]], key: str = COMPETENCE) -> list[str]:
    """Say how often a mastered module was forgotten and what its share did next."""
    head = f"- Falls of {WORDS[key]} by {statistics.FORGOTTEN:g} or more after {MASTERED:g}: {len(found)}"
    if not found:
        return [head + "."]
    every, whole = [lapse for *_, lapse in found], [lapse for *_, lapse in found if lapse.complete]
    rose, means = _rises(every)
    late = ""
    if whole and len(whole) < len(every):
        rose_then, means_then = _rises(whole)
        late = (
            f"; {len(every) - len(whole)} come too late in a run for {statistics.AFTER} evaluations, and of the other "
            f"{len(whole)} it rose in {rose_then} ({means_then})"
        )
    lines = [
        f"{head}; the module's share p rose over the next {statistics.AFTER} evaluations in {rose} of them (mean "
        f"{means}){late}; {WORDS[key]} was back at {MASTERED:g} later in {sum(lapse.regained for lapse in every)}."
    ]
    for name in dict.fromkeys(name for name, *_ in found):
        own = [(seed, lapse) for n, seed, lapse in found if n == name]
        low = min(own, key=lambda pair: pair[1].lowest)
        lines.append(
            f"  - {name}: {len(own)}, the deepest to {low[1].lowest:.2f} (seed {low[0]}, {low[1].episode:,.0f})."
        )
    return lines


def _rises(lapses: Sequence[Lapse]) -> tuple[int, str]:
    """Counts the lapses after which the module's share rose, and gives its means before and after."""
    before, after = (np.mean([getattr(lapse, f"share_{k}") for lapse in lapses]) for k in ("before", "after"))
    return sum(lapse.share_after > lapse.share_before for lapse in lapses), f"{before:.2f} before, {after:.2f} after"
