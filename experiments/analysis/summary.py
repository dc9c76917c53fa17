"""summary.md: in words, what was run, what came out per condition, and what each comparison says."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curious_jax.show.stats import series, wilson
from experiments.analysis import statistics
from experiments.analysis.figures import NAMES, SUCCESS
from experiments.analysis.table import DONE, REASON, STATUS, Row, finished, select
from experiments.engine.grid import Condition

MASTERED = 0.9  # a seed that ends at this mean success or more counts as having learned


def per_seed(
    table: Sequence[Row], labels: Mapping[str, Any], measure: Callable[..., float], key: str = SUCCESS
) -> dict[int, float]:
    """{seed: measure(episodes, values)} over the finished seeds of a condition."""
    found = {}
    for seed in sorted({row["seed"] for row in finished(select(table, **labels))}):
        episodes, values = series(select(table, **labels, seed=seed), key)
        found[seed] = measure(episodes, values[:, 0])
    return found


def area(table: Sequence[Row], **labels: Any) -> list[float]:
    """Area under the curve of mean success, per finished seed."""
    return list(per_seed(table, labels, statistics.area_under_curve).values())


@dataclass(frozen=True)
class Claim:
    """A comparison that was declared before anybody looked: the values of `a` are larger than those of `b`."""

    text: str  # what the paper says, as a sentence
    a: Sequence[float]
    b: Sequence[float]
    name_a: str
    name_b: str
    measure: str  # of what, such as "area under the curve"
    smaller: bool = False  # the claim is that a is smaller

    def comparison(self) -> statistics.Comparison | None:
        """The test; None without values on both sides."""
        if not self.a or not self.b:
            return None
        first, second = (self.b, self.a) if self.smaller else (self.a, self.b)
        return statistics.mann_whitney(first, second)

    def words(self) -> str:
        """The claim, the test and its verdict."""
        test = self.comparison()
        if test is None:
            return f"- {self.text}: cannot be tested yet (no finished seeds on one side)."
        verdict = "**appears**" if test.p < statistics.LEVEL else "**does not appear**"
        word = "smaller" if self.smaller else "larger"
        text = (
            f"- {self.text}: {verdict} at {statistics.LEVEL:g}. {self.measure}, {self.name_a} against {self.name_b}: "
            f"{number(_middle(self.a))} against {number(_middle(self.b))} ({_middle_name(self.a, self.b)}; "
            f"{len(self.a)} and {len(self.b)} seeds), one-tailed Mann-Whitney U = {test.u:g}, p = {p_value(test.p)}; "
            f"{self.name_a} {word} in {100 * test.larger:.0f} % of pairs, rank-biserial {test.rank_biserial:+.2f}"
        )
        if np.isfinite([*self.a, *self.b]).all():
            text += f"; difference of means {interval(statistics.bootstrap_difference(self.a, self.b))}"
        return text + "."


def _middle(values: Sequence[float]) -> float:
    return float(np.mean(values)) if np.isfinite(values).all() else float(np.median(values))


def _middle_name(a: Sequence[float], b: Sequence[float]) -> str:
    sides = ["means" if np.isfinite(side).all() else "median" for side in (a, b)]
    return sides[0] if sides[0] == sides[1] else " and ".join(s.removesuffix("s") for s in sides)


def number(value: float) -> str:
    """A figure as a reader wants it: 0.123, 1,200, never."""
    if math.isinf(value):
        return "never"
    if math.isnan(value):
        return "unknown"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def interval(found: statistics.Interval) -> str:
    """0.123 [0.100, 0.150]."""
    return f"{number(found.estimate)} [{number(found.low)}, {number(found.high)}]"


def p_value(p: float) -> str:
    """0.0123, or 2e-05."""
    return f"{p:.4f}" if p >= 1e-3 else f"{p:.0e}"


def title(labels: Mapping[str, Any]) -> str:
    """CURIOUS, 4 distractors."""
    parts = []
    for key, value in labels.items():
        parts.append(NAMES.get(value, str(value)) if key == "algorithm" else f"{key} {value}")
    return ", ".join(parts) or "all"


def states(table: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """Which seeds are not done, and why the table still has them."""
    lines = []
    for condition in conditions:
        rows = [row for row in table if all(row.get(k) == v for k, v in condition.labels.items())]
        for state, reason in dict.fromkeys((r[STATUS], r.get(REASON, "")) for r in rows if r[STATUS] != DONE):
            seeds = sorted({r["seed"] for r in rows if (r[STATUS], r.get(REASON, "")) == (state, reason)})
            why = f" ({reason})" if reason else ""
            lines.append(f"- {title(condition.labels)}: seeds {', '.join(map(str, seeds))} **{state}**{why}")
    return lines


def results(table: Sequence[Row], conditions: Sequence[Condition]) -> list[str]:
    """A markdown table: per condition, seeds, area under the curve, final success, seeds that learned."""
    lines = [
        "| condition | seeds | area under the curve: mean | its IQM | success at the end: mean | seeds that end ≥ "
        f"{MASTERED:g} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for condition in conditions:
        areas = area(table, **condition.labels)
        last = list(per_seed(table, condition.labels, lambda _, values: float(values[-1])).values())
        if not areas:
            lines.append(f"| {title(condition.labels)} | 0 | | | | |")
            continue
        learned = sum(v >= MASTERED for v in last)
        low, high = wilson(learned, len(last))
        lines.append(
            f"| {title(condition.labels)} | {len(areas)} | {interval(statistics.bootstrap(areas))} | "
            f"{interval(statistics.bootstrap(areas, statistics.iqm))} | {interval(statistics.bootstrap(last))} | "
            f"{learned} of {len(last)} [{low:.2f}, {high:.2f}] |"
        )
    return lines


def document(
    heading: str, command: str, table: Sequence[Row], conditions: Sequence[Condition], findings: Sequence[str]
) -> str:
    """The whole of summary.md."""
    open_cells = states(table, conditions)
    parts = [
        f"# {heading}",
        "",
        f"    {command}",
        "",
        "A seed is the unit of every figure. Intervals: 95 %, percentile bootstrap over seeds (Wilson for shares of "
        "seeds). The area under the curve is the mean height of the curve of success over achievable modules. Claims "
        "were declared before the runs; the dots of the figure are descriptive.",
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
        *(open_cells or ["Nothing: every seed was trained to its end."]),
    ]
    return "\n".join(parts) + "\n"
