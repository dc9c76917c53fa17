"""Compute the measures of one seed's curve and compare them over seeds, with scipy.

A seed is the unit of every test: its curve becomes one number, and one-tailed Mann-Whitney U tests compare those
numbers (CURIOUS, "Evaluation Methodology"). A seed that never reaches a level has infinity, which ranks last.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

LEVEL = 0.01  # of the paper's tests
MASTERED = 0.9  # mean success, or competence, that counts as mastery
RECOVERED = 0.95  # share of the former level that counts as regained
SUSTAINED = 2  # evaluations in a row that must show it
FORMER = 3  # evaluations before the perturbation whose mean is the former level
FORGOTTEN = 0.1  # fall of competence after mastery that counts as forgetting
AFTER = 3  # evaluations, from the fall on, whose mean share says what the agent did next
FEWEST = 5  # seeds of each sample that a verdict about a bootstrap interval needs: with two it covers half as often
COUNTED = 40  # seeds, of both sides together, up to which p counts every way to divide them

Values = Sequence[float] | np.ndarray  # one number per evaluation, or per seed


class Comparison(NamedTuple):
    """One-tailed Mann-Whitney U of `a` against `b`, with its effect size."""

    u: float  # pairs (a, b) with a > b, ties as halves
    p: float  # probability of this U or more if a and b were alike
    larger: float  # share of pairs with a > b (common-language effect size), ties as halves
    rank_biserial: float  # 2·larger - 1: from -1 to 1, 0 for no effect


class Interval(NamedTuple):
    """An estimate with its 95 % bootstrap interval; NaN ends where there is none."""

    estimate: float
    low: float
    high: float


class Lapse(NamedTuple):
    """One time that a mastered module was forgotten."""

    episode: float  # the evaluation that first shows competence FORGOTTEN below its height
    before: float  # that height, since mastery or since the last lapse ended
    lowest: float  # lowest competence until it is MASTERED again, or until the end
    share_before: float  # the module's share p at the evaluation before
    share_after: float  # its mean share over AFTER evaluations from this one on, or those that are left
    complete: bool  # the run had as many left
    regained: bool  # competence was MASTERED again later


def area_under_curve(episodes: Values, values: Values) -> float:
    """Compute the mean height of a curve: the area of its trapezoids divided by the distance from first to last.

    Raises:
      ValueError: when episodes do not rise, or there are none.
    """
    x, y = np.asarray(episodes, float), np.asarray(values, float)
    if x.size == 0 or x.shape != y.shape or (np.diff(x) <= 0).any():
        raise ValueError("a curve needs one value per episode number, and rising episode numbers")
    return float(np.trapezoid(y, x) / (x[-1] - x[0])) if x.size > 1 else float(y[0])


def time_to(episodes: Values, values: Values, level: float = MASTERED, times: int = SUSTAINED) -> float:
    """Return the episodes at the first of `times` evaluations in a row at `level` or more; infinity for never."""
    v = np.asarray(values, float)
    for i in range(len(v) - times + 1):
        if (v[i : i + times] >= level).all():
            return float(episodes[i])
    return float("inf")


def former_level(episodes: Values, values: Values, at: float) -> float:
    """Return the mean of the last FORMER values before `at`; NaN when there is none.

    The evaluation after `at` episodes is the first that the perturbation touches.
    """
    before = [v for e, v in zip(episodes, values, strict=True) if e < at]
    return float(np.mean(before[-FORMER:])) if before else float("nan")


def recovery(episodes: Values, values: Values, at: float) -> float:
    """Return the episodes from `at` to the first of SUSTAINED evaluations in a row at RECOVERED of the former level.

    Returns:
      0 when the very first evaluation is one of them (no drop), infinity when it never happens,
      NaN without evaluations before `at`.
    """
    level = RECOVERED * former_level(episodes, values, at)
    if np.isnan(level):
        return float("nan")
    after = np.asarray(episodes) >= at
    return time_to(np.asarray(episodes)[after], np.asarray(values)[after], level) - at


def fall(episodes: Values, values: Values, at: float) -> float:
    """Return former level minus the first value after `at`, as a share of the former level."""
    level = former_level(episodes, values, at)
    after = [v for e, v in zip(episodes, values, strict=True) if e >= at]
    return float((level - after[0]) / level) if after and level > 0 else float("nan")


def lapses(episodes: Values, competence: Values, share: Values) -> list[Lapse]:
    """Find every fall of competence by FORGOTTEN or more after it was MASTERED, and what the share p did next."""
    found: list[Lapse] = []
    height, forgotten = 0.0, False
    for i, c in enumerate(competence):
        height = c if forgotten and c >= MASTERED else max(height, c)
        forgotten = forgotten and c < MASTERED
        if forgotten or height < MASTERED or height - c < FORGOTTEN - 1e-9:
            continue
        forgotten = True
        back = next((k for k in range(i, len(competence)) if competence[k] >= MASTERED), len(competence))
        lowest, after = min(competence[i:back], default=c), float(np.mean(share[i : i + AFTER]))
        complete = len(share) - i >= AFTER
        found.append(Lapse(episodes[i], height, lowest, share[i - 1], after, complete, back < len(competence)))
    return found


def mann_whitney(a: Values, b: Values) -> Comparison:
    """Test whether `a` is larger than `b`, one-tailed: exact, ties included, up to COUNTED seeds in all.

    With more seeds p is that of scipy's normal approximation.

    Raises:
      ValueError: when either is empty or holds NaN.
    """
    if not len(a) or not len(b) or np.isnan([*a, *b]).any():
        raise ValueError("a comparison needs at least one value on each side and no NaN")
    u = float(stats.rankdata([*a, *b])[: len(a)].sum() - len(a) * (len(a) + 1) / 2)
    if len(a) + len(b) <= COUNTED:
        p = exact_p(a, b)
    else:
        p = float(stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic").pvalue)
    larger = u / (len(a) * len(b))
    return Comparison(u, p, larger, 2.0 * larger - 1.0)


def exact_p(a: Values, b: Values) -> float:
    """Compute the share of all ways to choose len(a) of the values whose ranks add up to those of `a`, or to more.

    Tied values share their mean rank, in the observed choice and in all others.
    """
    ranks = np.rint(2 * stats.rankdata([*a, *b])).astype(int)  # doubled, so that halves are whole
    ways = np.zeros((len(a) + 1, ranks.sum() + 1))  # to choose so many values with this sum of ranks
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    chosen = ways[len(a)]
    return float(chosen[ranks[: len(a)].sum() :].sum() / chosen.sum())


def least_p(number_a: int, number_b: int) -> float:
    """Compute the least p for these numbers of seeds: every seed of one side before every seed of the other."""
    return 1.0 / math.comb(number_a + number_b, number_a)


def bootstrap(*samples: Values, statistic: Callable[..., Any] = np.mean) -> Interval:
    """Compute a statistic of one or more samples with its 95 % percentile bootstrap interval over seeds.

    Args:
      samples: one number per seed; each sample's seeds are resampled on their own.
      statistic: (samples ..., axis=) -> one number.
    """
    arrays = [np.asarray(sample, float) for sample in samples]
    with np.errstate(divide="ignore", invalid="ignore"):
        estimate = float(statistic(*arrays, axis=-1))
        if min(a.size for a in arrays) < 2 or not all(np.isfinite(a).all() for a in arrays):
            return Interval(estimate, np.nan, np.nan)
        result = stats.bootstrap(arrays, statistic, method="percentile", rng=np.random.default_rng(0))
    return Interval(estimate, float(result.confidence_interval.low), float(result.confidence_interval.high))


def difference(a: Values, b: Values) -> Interval:
    """Compute mean(a) - mean(b)."""
    return bootstrap(a, b, statistic=lambda x, y, axis: x.mean(axis) - y.mean(axis))


def speeds(times: Values) -> np.ndarray:
    """Turn episodes to mastery into speeds, 1 / episodes; a seed that never masters has speed 0."""
    return 1.0 / np.asarray(times, float)


def slowdown(times: Values, reference: Values) -> Interval:
    """Compute the mean speed of learning as a share of the reference's mean speed."""
    return bootstrap(speeds(times), speeds(reference), statistic=lambda x, y, axis: x.mean(axis) / y.mean(axis))


def advantage(a: Values, b: Values) -> Interval:
    """Compute the share by which `b` is slower than `a`: 1 - mean speed of b / mean speed of a."""
    return bootstrap(speeds(a), speeds(b), statistic=_advantage)


def growth(a: Values, b: Values, c: Values, d: Values) -> Interval:
    """Compute advantage(c, d) - advantage(a, b)."""
    return bootstrap(
        *map(speeds, (a, b, c, d)), statistic=lambda w, x, y, z, axis: _advantage(y, z, axis) - _advantage(w, x, axis)
    )


def _advantage(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
    return 1.0 - y.mean(axis) / x.mean(axis)
