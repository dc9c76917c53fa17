"""Write summary.md: what was run, what came out per condition, and what each comparison says, in words."""

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curious_jax.run.rows import FRESH
from experiments.analysis import statistics
from experiments.analysis.figures import NAMES
from experiments.analysis.statistics import MASTERED, Interval
from experiments.analysis.table import (
    DONE,
    REASON,
    STATUS,
    SUCCESS,
    Table,
    count,
    ends_at_target,
    in_a_row,
    modules,
    per_seed,
    select_rows,
)
from experiments.engine.grid import Condition

ENDED = (
    "Seeds were trained until they met --target-success: an evaluation at the target is followed by one on fresh "
    "episodes, which is the next in the row, and areas are not compared; a module that was not at "
    f"{MASTERED:g} by then counts as never. Success at the end is that on the fresh episodes, where there are any. "
)
COVERAGE = (
    "Intervals: 95 %, percentile bootstrap over seeds; with few seeds such an interval of a mean holds the true value "
    "less often than 95 % (of normal values about 75 % with three seeds, 85 % with five, 89 % with ten). "
)
DIVERGED_SEEDS = (
    "A seed that diverged before mastery ranks last, one that diverged after it keeps its time; areas and success at "
    "the end are those of the other seeds. "
)
LOWER = 0.8  # a second mark, which shows how much of a difference hangs on the first
APPEARS = {True: "**appears**", False: "**does not appear**"}
UNDECIDED = "**not decided**"


def mastery(table: Table, module: str = "", level: float = MASTERED, **labels: Any) -> list[float]:
    """Return the episodes to mastery of each seed that has ended: of mean success, or of one module."""
    return list(mastery_per_seed(table, labels, module, level).values())


def mastery_per_seed(
    table: Table, labels: Mapping[str, Any], module: str = "", level: float = MASTERED
) -> dict[int, float]:
    """Return {seed: episodes to mastery} of the seeds of a condition that have ended; infinity for never.

    A seed that diverged before mastery never got there; one that diverged after it keeps its time.
    In runs with --target-success an evaluation at the target is followed by one on fresh episodes, after the same
    number of training episodes: that is the next in the row, whatever it shows.

    Args:
      module: whose success is meant; empty for the mean.
      level: of success that counts as mastery.
    """
    key, fresh = (f"{name}/{module}" if module else name for name in (SUCCESS, FRESH))
    if key not in table:
        return per_seed(table, labels, statistics.time_to, key, diverged=True)
    found = in_a_row(table, labels, key, fresh, diverged=True)
    return {seed: statistics.time_to(*row, level=level) for seed, row in found.items()}


def area(table: Table, **labels: Any) -> list[float]:
    """Compute the area under the curve of mean success of each finished seed; those that diverged have none."""
    return list(per_seed(table, labels, statistics.area_under_curve).values())


def recovery_per_seed(table: Table, labels: Mapping[str, Any], at: float) -> dict[int, float]:
    """Return {seed: episodes to recover} of the seeds that had mastered all modules when their sensor failed.

    A seed that diverged after that and before it recovered never did. One that diverged before it is left out.

    Args:
      at: training episodes after which the sensor is off.
    """
    back, level, last = (
        per_seed(table, labels, measure, diverged=True)
        for measure in (
            functools.partial(statistics.recovery, at=at),
            functools.partial(statistics.former_level, at=at),
            lambda episodes, _: float(episodes[-1]) if len(episodes) else 0.0,
        )
    )
    return {seed: value for seed, value in back.items() if level[seed] >= MASTERED and last[seed] >= at}


def pending(table: Table, *sides: Mapping[str, Any]) -> str:
    """Say how many seeds of some conditions have not ended; empty when all have."""
    found = [count(table, side) for side in sides]
    left, asked = sum(one.pending for one in found), sum(one.asked for one in found)
    return f"{left} of {asked} seeds {'has' if left == 1 else 'have'} not ended" if left else ""


def left_out(table: Table, *sides: Mapping[str, Any]) -> str:
    """Say which seeds of some conditions what is described leaves out; empty when none."""
    diverged = sum(count(table, side).diverged for side in sides)
    said = [pending(table, *sides), f"{diverged} diverged" if diverged else ""]
    return ", ".join(part for part in said if part)


@dataclass(frozen=True)
class Claim:
    """A comparison that was declared before the runs: the values of `a` are smaller (or larger) than those of `b`."""

    text: str  # what the paper says, as a sentence
    a: Sequence[float]
    b: Sequence[float]
    name_a: str
    name_b: str
    measure: str = f"Episodes to mean success {MASTERED:g}"
    smaller: bool = True  # the claim is that a is smaller
    pending: str = ""  # how many seeds of either side have not ended

    def comparison(self) -> statistics.Comparison | None:
        """Run the test; None without values on both sides."""
        if not self.a or not self.b:
            return None
        first, second = (self.b, self.a) if self.smaller else (self.a, self.b)
        return statistics.mann_whitney(first, second)

    def verdict(self, test: statistics.Comparison) -> str:
        """Say whether the claim appears, or that it is not decided.

        It is not while a seed has not ended, as those that end first may be the fast ones, and with so few seeds that
        no outcome could show it.
        """
        if self.pending:
            return f"{UNDECIDED}: {self.pending}"
        level, numbers = statistics.LEVEL, (len(self.a), len(self.b))
        least = statistics.least_p(*numbers)
        if least >= level:
            seeds = "{} and {} seeds".format(*numbers)
            return f"{UNDECIDED} at {level:g}, which {seeds} cannot reach (their least p is {p_value(least)})"
        return f"{APPEARS[test.p < level]} at {level:g}"

    def words(self, verdict: bool = True) -> str:
        """Say claim, test and verdict; without a verdict for a secondary measure."""
        test = self.comparison()
        if test is None:
            return f"- {self.text}: cannot be tested yet (no finished seeds on one side)."
        shown = self.verdict(test) if verdict else self.pending
        said = (f"{shown}. " if shown else "") + ("Until now: " if verdict and self.pending else "")
        text = (
            f"- {self.text}: {said}{self.measure}, {self.name_a} against {self.name_b}: {spread(self.a)} against "
            f"{spread(self.b)} ({len(self.a)} and {len(self.b)} seeds), one-tailed Mann-Whitney U = {test.u:g}, "
            f"p = {p_value(test.p)}; {self.name_a} {'smaller' if self.smaller else 'larger'} in "
            f"{100 * test.larger:.0f} % of pairs, rank-biserial {test.rank_biserial:+.2f}"
        )
        gap = statistics.difference(self.a, self.b)
        return text + (f"; difference of means {interval(gap)}." if np.isfinite(gap.low) else ".")


def faster(table: Table, text: str, a: Mapping[str, Any], b: Mapping[str, Any], declared: bool = True) -> list[str]:
    """Test whether condition `a` reaches mastery in fewer episodes than `b`; area, a lower mark and modules follow.

    What follows is not tested.

    Args:
      declared: the test was declared; one that was not has no verdict.
    """
    names = title(a), title(b)
    left = pending(table, a, b)
    lines = [Claim(text, mastery(table, **a), mastery(table, **b), *names, pending=left).words(verdict=declared)]
    if not ends_at_target(table):
        diverged = sum(count(table, side).diverged for side in (a, b))
        measure = "area under the curve" + (f" (without the {diverged} that diverged)" if diverged else "")
        second = Claim("Secondary", area(table, **a), area(table, **b), *names, measure, smaller=False)
        lines.append("  " + second.words(verdict=False))
    marks = [("", "mean success", LOWER), *((m, m, MASTERED) for m in modules(table, achievable=True))]
    for module, name, level in marks:
        sides = mastery(table, module, level, **a), mastery(table, module, level, **b)
        if all(sides):
            lines.append(f"  - {name} to {level:g}: {spread(sides[0])} against {spread(sides[1])}.")
    return lines


def spread(values: Sequence[float]) -> str:
    """Show the median of some seeds, their range and how many never got there: 3,840 (2,400 to 5,280; 1 never)."""
    inner = f"{number(min(values))} to {number(max(values))}"
    never = sum(map(math.isinf, values))
    ordered = sorted(values)  # the median of an even number of which one half is infinite is infinite
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return f"median {number(middle)} ({inner}{f'; {never} never' if never else ''})"


def number(value: float) -> str:
    """Show a figure as a reader wants it: 0.123, 1,200, never."""
    if math.isinf(value):
        return "never"
    if math.isnan(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def interval(found: Interval) -> str:
    """Show an interval: 0.123 [0.100, 0.150]; without ends, the estimate alone."""
    ends = f" [{number(found.low)}, {number(found.high)}]" if not math.isnan(found.low) else ""
    return number(found.estimate) + ends


def p_value(p: float) -> str:
    """Show 0.0123, or 2e-05."""
    return f"{p:.4f}" if p >= 1e-3 else f"{p:.0e}"


def title(labels: Mapping[str, Any]) -> str:
    """Name a condition: CURIOUS, distractors 4."""
    shown = {key: "none" if value is None else str(value) for key, value in labels.items()}
    parts = [NAMES.get(v, v) if key == "algorithm" else f"{key} {v}" for key, v in shown.items()]
    return ", ".join(parts) or "all"


def states(table: Table, conditions: Sequence[Condition]) -> list[str]:
    """Say which seeds are not done, and why."""
    lines = []
    for condition in conditions:
        own = select_rows(table, condition.labels)
        reasons = own[REASON].fillna("") if REASON in own else [""] * len(own)
        seeds: dict[tuple[str, str], set[int]] = {}
        for state, reason, seed in zip(own[STATUS], reasons, own["seed"]):
            if state != DONE:
                seeds.setdefault((state, reason), set()).add(int(seed))
        for (state, reason), those in seeds.items():
            why = f" ({reason})" if reason else ""
            lines.append(f"- {title(condition.labels)}: seeds {', '.join(map(str, sorted(those)))} **{state}**{why}")
    return lines


def results(table: Table, conditions: Sequence[Condition]) -> list[str]:
    """Make a markdown table: per condition its seeds, episodes to mastery, area under the curve, success at the end.

    Where the last evaluation met a target, which chance favours, success at the end is that on fresh episodes.
    """
    lines = [
        f"| condition | seeds | episodes to {MASTERED:g} | seeds that got there | area under the curve: mean | "
        "success at the end: mean |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for condition in conditions:
        times = mastery(table, **condition.labels)
        name = title(condition.labels)
        if not times:
            lines.append(f"| {name} | 0 | | | | |")
            continue
        seeds = count(table, condition.labels)
        asked = f"{len(times)} of {seeds.asked}" if seeds.pending else str(len(times))
        got = f"{sum(map(math.isfinite, times))} of {len(times)}"
        got += f"; {seeds.diverged} diverged" if seeds.diverged else ""
        own = in_a_row(table, condition.labels, SUCCESS, FRESH) if SUCCESS in table else {}
        last, areas = [float(values[-1]) for _, values in own.values()], area(table, **condition.labels)
        under = "" if ends_at_target(table) or not areas else interval(statistics.bootstrap(areas))
        end = interval(statistics.bootstrap(last)) if last else ""
        lines.append(f"| {name} | {asked} | {spread(times)} | {got} | {under} | {end} |")
    return lines


def document(heading: str, command: str, table: Table, conditions: Sequence[Condition], findings: Sequence[str]) -> str:
    """Write the whole of summary.md."""
    parts = [
        f"# {heading}",
        "",
        f"    {command}",
        "",
        f"A seed is the unit of all figures. Mastery is the first of two evaluations in a row at {MASTERED:g} or more; "
        f"a seed that never gets there ranks last. {COVERAGE}The area under the "
        "curve is the mean height of the curve of success over achievable modules. "
        + (ENDED if ends_at_target(table) else "")
        + (DIVERGED_SEEDS if count(table).diverged else "")
        + "Tests were declared before the runs "
        "(experiments/declared.md); the dots of the figure are descriptive.",
        "",
        "## Results",
        "",
        *results(table, conditions),
        "",
        "## Findings",
        "",
        *findings,
        "",
        "## Not done",
        "",
        *(states(table, conditions) or ["Nothing: every seed was trained to its end."]),
    ]
    return "\n".join(parts) + "\n"
