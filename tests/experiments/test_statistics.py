"""The statistics of the experiments against hand-worked values and scipy."""

import itertools

import numpy as np
import pytest
from scipy import stats

from curious_jax.show.stats import wilson
from experiments.analysis import statistics


def test_area_is_the_mean_height():
    # Trapezoids 10·(0 + 0.4)/2 = 2 and 30·(0.4 + 0.8)/2 = 18, over a distance of 40.
    assert statistics.area_under_curve([10, 20, 50], [0.0, 0.4, 0.8]) == pytest.approx(0.5)
    assert statistics.area_under_curve([7], [0.3]) == 0.3
    for episodes, values in (([], []), ([1, 1], [0, 0]), ([2, 1], [0, 0]), ([1, 2], [0])):
        with pytest.raises(ValueError, match="rising"):
            statistics.area_under_curve(episodes, values)


def test_mann_whitney_by_hand():
    # Pairs won by a: 4 beats 1, 3; 5 beats 1, 3; 2 beats 1 and loses to 3: 5 of 6. Of the 10 ways to place two b among
    # five ranks, U >= 5 in two: b = {1, 2} (6), b = {1, 3} (5).
    found = statistics.mann_whitney([4, 5, 2], [1, 3])
    assert (found.u, found.p) == (5, pytest.approx(0.2))
    assert found.larger == pytest.approx(5 / 6) and found.rank_biserial == pytest.approx(2 / 3)


def test_mann_whitney_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 1, 10), rng.normal(0, 1, 12)
    expected = stats.mannwhitneyu(a, b, alternative="greater", method="exact")
    assert statistics.mann_whitney(a, b)[:2] == (expected.statistic, pytest.approx(expected.pvalue))
    a, b = np.round(a, 0), np.round(b, 0)  # with ties
    assert len({*a, *b}) < 22
    expected = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic")
    found = statistics.mann_whitney(a, b)
    assert found.u == expected.statistic and found.p == pytest.approx(expected.pvalue, abs=0.005)
    a, b = np.tile(a, 3), np.tile(b, 3)  # more seeds than are counted
    expected = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic")
    assert statistics.mann_whitney(a, b)[:2] == (expected.statistic, pytest.approx(expected.pvalue))


def test_p_is_exact_with_ties():
    """Against every way to divide the values, and never below the least that so many seeds can have."""
    rng = np.random.default_rng(1)
    for size_a, size_b in ((1, 4), (3, 3), (4, 4), (5, 3)):
        values = [INF if v == 3 else float(v) for v in rng.integers(0, 4, size_a + size_b)]
        pairs = lambda one, two: sum((x > y) + (x == y) / 2 for x in one for y in two)  # noqa: E731
        observed, all_u = pairs(values[:size_a], values[size_a:]), []
        for chosen in itertools.combinations(range(len(values)), size_a):
            rest = [v for i, v in enumerate(values) if i not in chosen]
            all_u.append(pairs([values[i] for i in chosen], rest))
        assert statistics.exact_p(values[:size_a], values[size_a:]) == pytest.approx(
            np.mean(np.array(all_u) >= observed)
        )
    assert statistics.mann_whitney([INF] * 4, [640] * 4).p == pytest.approx(1 / 70) == statistics.least_p(4, 4)
    assert statistics.mann_whitney([INF] * 5, [1, 2, 3, 4, 4]).p == pytest.approx(1 / 252)
    assert statistics.mann_whitney([7, 7], [7, 7, 7]).p == 1


def test_the_other_direction():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 1, 10), rng.normal(0, 1, 12)
    reverse = statistics.mann_whitney(b, a)
    assert reverse.u == 120 - statistics.mann_whitney(a, b).u and reverse.p > 0.5


def test_seeds_that_never_recover_rank_last_and_ties_are_halves():
    found = statistics.mann_whitney([INF, INF, 7], [INF, 3, 4])
    # inf ties inf (1/2) and beats 3, 4, twice over; 7 beats 3, 4.
    assert found.u == 2 * 2.5 + 2
    with pytest.raises(ValueError, match="no NaN"):
        statistics.mann_whitney([1.0, np.nan], [0.0])
    with pytest.raises(ValueError, match="at least one"):
        statistics.mann_whitney([], [0.0])


def test_one_percent_needs_clear_data():
    assert statistics.mann_whitney(range(10, 20), range(10)).p == pytest.approx(1 / 184_756)  # 20 choose 10
    assert statistics.mann_whitney([1, 2, 3], [0, 0.5, 0.7]).p == pytest.approx(1 / 20)  # three seeds never reach 0.01


def test_bootstrap_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(40):
        found = statistics.bootstrap(rng.normal(3, 2, 30))
        assert found.low < found.estimate < found.high
        inside += found.low <= 3 <= found.high
    assert 32 <= inside <= 40  # 95 % of 40 are 38


def test_bootstrap_is_the_same_every_time_and_sound_at_its_edges():
    assert statistics.bootstrap([1, 2, 4]) == statistics.bootstrap([1, 2, 4])
    assert statistics.bootstrap([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.5)
    for values, estimate in (([2.0], 2.0), ([1.0, np.inf], np.inf)):  # one seed, or one that never got there
        found = statistics.bootstrap(values)
        assert found.estimate == estimate and np.isnan(found[1:]).all()


def test_difference_of_means():
    found = statistics.difference([2, 4, 6], [1, 1, 1])
    assert found.estimate == pytest.approx(3) and (found.low, found.high) == (1, 5)  # of three: 2 or 6 throughout
    assert np.isnan(statistics.difference([1.0], [2.0, 3.0]).low)


INF = float("inf")


def test_slope_by_hand():
    # Speeds 1/100, 1/100 without; 1/200 and 0 (never) with: mean 0.0025 of 0.01. Resampled with: 0, 1/200 throughout.
    found = statistics.slowdown([200, INF], [100, 100])
    assert found.estimate == pytest.approx(0.25)
    assert (found.low, found.high) == (0, pytest.approx(0.5))
    # Three modules and four distractors, learned 7/3 times more slowly: the paper's share, achievable / all.
    assert statistics.slowdown([700, 700], [300, 300]).estimate == pytest.approx(3 / 7)


def test_advantage_and_its_growth_by_hand():
    # M-UVFA needs 200 for CURIOUS's 100: half the speed. With more distractors it needs 400: a quarter.
    assert statistics.advantage([100, 100], [200, 200]) == pytest.approx((0.5, 0.5, 0.5))
    assert statistics.advantage([100, 100], [INF, INF]).estimate == 1  # never there
    found = statistics.growth([100, 100], [200, 200], [100, 100], [400, 400])
    assert found == pytest.approx((0.25, 0.25, 0.25))
    assert np.isnan(statistics.advantage([INF, INF], [INF, INF]).estimate)


def test_lapses_by_hand():
    episodes = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    #    mastered at 20; 0.1 below its height 0.95 at 40; back at 60; falls again at 70, and stays
    competence = [0.5, 0.92, 0.95, 0.84, 0.7, 0.9, 0.8, 0.85, 0.6]
    share = [0.1, 0.2, 0.25, 0.3, 0.5, 0.4, 0.2, 0.2, 0.5]
    first, second = statistics.lapses(episodes, competence, share)
    assert first[:3] == (40, 0.95, 0.7) and first.regained
    assert (first.share_before, first.share_after) == (0.25, pytest.approx((0.3 + 0.5 + 0.4) / 3))
    assert second[:3] == (70, 0.9, 0.6) and not second.regained  # height since it was back: 0.9
    assert (second.share_before, second.share_after) == (0.4, pytest.approx((0.2 + 0.2 + 0.5) / 3))
    assert first.complete and second.complete
    (cut,) = statistics.lapses(episodes[:5], competence[:5], share[:5])
    assert cut.share_after == pytest.approx((0.3 + 0.5) / 2) and not cut.complete


def test_what_is_no_lapse():
    count = lambda *competence: len(statistics.lapses(range(len(competence)), competence, competence))  # noqa: E731
    assert count(0.89, 0.5) == 0  # never mastered
    assert count(0.95, 0.86, 0.86) == 0  # less than 0.1 below
    assert count(1.0, 0.9, 0.95) == 1  # 0.1 below its height is one, even at 0.9
    assert count(1.0, 0.85, 0.5, 0.2) == 1  # one fall, however deep


EPISODES = [100, 200, 300, 400, 500, 600, 700, 800]


def test_recovery_by_hand():
    # Former level (0.7 + 0.8 + 0.9) / 3 = 0.8; 95 % of it 0.76. The look at 500 is a lucky one: the next is below.
    values = [0.7, 0.8, 0.9, 0.4, 0.78, 0.7, 0.76, 0.9]
    assert statistics.former_level(EPISODES, values, at=400) == pytest.approx(0.8)
    assert statistics.recovery(EPISODES, values, at=400) == 300
    assert statistics.fall(EPISODES, values, at=400) == pytest.approx(0.5)


def test_recovery_counts_from_the_perturbation_wherever_evaluations_lie():
    values = [0.8, 0.8, 0.8, 0.4, 0.8, 0.8, 0.8, 0.8]
    assert statistics.recovery(EPISODES, values, at=350) == 150
    assert statistics.recovery(EPISODES, [0.8] * 8, at=400) == 0
    assert statistics.recovery(EPISODES, [0.8] * 3 + [0.1] * 5, at=400) == float("inf")
    assert statistics.recovery(EPISODES, [0.8] * 7 + [0.1], at=800) == float("inf")  # one look is not two
    assert np.isnan(statistics.recovery(EPISODES, [0.8] * 8, at=50))


def test_first_evaluations_at_a_level():
    assert statistics.time_to([10, 20, 30, 40], [0.9, 0.1, 0.9, 0.95], 0.9) == 30
    assert statistics.time_to([10, 20, 30, 40], [0.9, 0.1, 0.9, 0.95], 0.9, times=1) == 10
    assert statistics.time_to([10, 20, 30], [0.9, 0.9, 0.1]) == 10  # mastery: 0.9, twice in a row
    assert statistics.time_to([10, 20], [0.1, 0.2], 0.9) == float("inf")


def test_wilson_by_hand():
    # (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n), z = 1.95996, p = 0.8, n = 10.
    z = 1.959964
    middle, half = (0.8 + z**2 / 20) / (1 + z**2 / 10), z * np.sqrt(0.016 + z**2 / 400) / (1 + z**2 / 10)
    assert wilson(8, 10) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
