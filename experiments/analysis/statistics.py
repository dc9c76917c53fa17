"""What the comparisons compute, on top of scipy: area under a curve, recovery, tests, effect sizes, intervals.

Values are one number per seed; a seed is the unit of every test (CURIOUS, "Evaluation": one-tailed Mann-Whitney U).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.01  # of the paper's tests
RECOVERED = 0.95  # share of the former level that counts as regained
SUSTAINED = 2  # evaluations in a row that must show it
FORMER = 3  # evaluations before the perturbation whose mean is the former level
RESAMPLES = 9_999
EXACT = 50  # values on a side up to which the test is exact


class Comparison(NamedTuple):
    """One-tailed Mann-Whitney U of `a` against `b`, with its effect size."""

    u: float  # pairs (a, b) with a > b, ties as halves
    p: float  # of so many or more, if a and b were alike
    larger: float  # share of pairs with a > b (common-language effect size), ties as halves
    rank_biserial: float  # 2·larger - 1: from -1 to 1, 0 for no effect


class Interval(NamedTuple):
    """An estimate with its 95 % bootstrap interval."""

    estimate: float
    low: float
    high: float


def area_under_curve(episodes: Sequence[float], values: Sequence[float]) -> float:
    """Mean height of a curve: the trapezoids between its points, divided by the distance from first to last.

    Raises:
      ValueError: when episodes do not rise, or there are none.
    """
    x, y = np.asarray(episodes, float), np.asarray(values, float)
    if x.size == 0 or x.shape != y.shape or (np.diff(x) <= 0).any():
        raise ValueError("a curve needs one value per episode number, and rising episode numbers")
    if x.size == 1:
        return float(y[0])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def mann_whitney(a: Sequence[float], b: Sequence[float]) -> Comparison:
    """Is `a` larger than `b`? One-tailed; infinite values (never recovered) rank as the largest.

    Exact without ties and with at most EXACT values on each side, else by the normal approximation (ties corrected).

    Raises:
      ValueError: when either is empty or holds NaN.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if not first.size or not second.size or np.isnan(first).any() or np.isnan(second).any():
        raise ValueError("a comparison needs at least one value on each side and no NaN")
    ranked = _ranked(first, second), _ranked(second, first)
    tied = np.unique(np.concatenate(ranked)).size < first.size + second.size
    method = "asymptotic" if tied or max(first.size, second.size) > EXACT else "exact"
    result = stats.mannwhitneyu(*ranked, alternative="greater", method=method)
    larger = float(result.statistic) / (first.size * second.size)
    return Comparison(float(result.statistic), float(result.pvalue), larger, 2.0 * larger - 1.0)


def _ranked(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The same order in finite numbers, which is all the test looks at."""
    return np.searchsorted(np.unique(np.concatenate([values, others])), values).astype(float)


def iqm(values: Sequence[float] | np.ndarray, axis: int = -1) -> np.ndarray:
    """Interquartile mean: of the middle half, a quarter cut off at each end (rounded down)."""
    return stats.trim_mean(np.asarray(values, float), 0.25, axis=axis)


def bootstrap(values: Sequence[float], statistic: Callable[..., np.ndarray] = np.mean, seed: int = 0) -> Interval:
    """95 % percentile bootstrap over seeds; a single value is its own interval.

    Args:
      statistic: (values, axis=) -> one number, such as np.mean or `iqm`.
    """
    array = np.asarray(values, float)
    estimate = float(statistic(array, axis=-1))
    if array.size < 2 or np.ptp(array) == 0 or not np.isfinite(array).all():
        return Interval(estimate, *((estimate, estimate) if array.size and np.isfinite(estimate) else (np.nan, np.nan)))
    result = stats.bootstrap(
        (array,),
        statistic,
        vectorized=True,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return Interval(estimate, float(result.confidence_interval.low), float(result.confidence_interval.high))


def bootstrap_difference(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Interval:
    """mean(a) - mean(b) with its 95 % percentile bootstrap interval, seeds of each side resampled on their own."""
    first, second = np.asarray(a, float), np.asarray(b, float)
    estimate = float(first.mean() - second.mean())
    if first.size < 2 or second.size < 2:
        return Interval(estimate, np.nan, np.nan)
    rng = np.random.default_rng(seed)
    draws = [rng.choice(side, (RESAMPLES, side.size)).mean(axis=1) for side in (first, second)]
    low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5])
    return Interval(estimate, float(low), float(high))


def former_level(episodes: Sequence[float], values: Sequence[float], at: float) -> float:
    """Mean of the last FORMER values before `at`; NaN when there is none.

    The evaluation after `at` episodes is the first that the perturbation touches.
    """
    before = [v for e, v in zip(episodes, values, strict=True) if e < at]
    return float(np.mean(before[-FORMER:])) if before else float("nan")


def recovery(
    episodes: Sequence[float], values: Sequence[float], at: float, share: float = RECOVERED, sustained: int = SUSTAINED
) -> float:
    """Episodes from `at` to the first of `sustained` evaluations in a row at `share` of the former level.

    Returns:
      0 when the very first evaluation is one of them (no drop), infinity when it never happens,
      NaN without evaluations before `at`.
    """
    level = share * former_level(episodes, values, at)
    if np.isnan(level):
        return float("nan")
    after = [(e, v) for e, v in zip(episodes, values, strict=True) if e >= at]
    for i in range(len(after) - sustained + 1):
        if all(v >= level for _, v in after[i : i + sustained]):
            return float(after[i][0] - at)
    return float("inf")


def drop(episodes: Sequence[float], values: Sequence[float], at: float) -> float:
    """Former level minus the first value after `at`, as a share of the former level."""
    level = former_level(episodes, values, at)
    after = [v for e, v in zip(episodes, values, strict=True) if e >= at]
    return float((level - after[0]) / level) if after and level > 0 else float("nan")


def first_at(episodes: Sequence[float], values: Sequence[float], level: float, sustained: int = SUSTAINED) -> float:
    """Episodes until the first of `sustained` evaluations in a row at `level` or more; infinity for never."""
    v = np.asarray(values, float)
    for i in range(len(v) - sustained + 1):
        if (v[i : i + sustained] >= level).all():
            return float(episodes[i])
    return float("inf")
