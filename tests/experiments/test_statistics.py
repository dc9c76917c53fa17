"""The statistics of the experiments against hand-worked values and scipy."""

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
    assert statistics.mann_whitney(a, b)[:2] == (expected.statistic, pytest.approx(expected.pvalue))


def test_the_other_direction():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 1, 10), rng.normal(0, 1, 12)
    reverse = statistics.mann_whitney(b, a)
    assert reverse.u == 120 - statistics.mann_whitney(a, b).u and reverse.p > 0.5


def test_seeds_that_never_recover_rank_last_and_ties_are_halves():
    inf = float("inf")
    found = statistics.mann_whitney([inf, inf, 7], [inf, 3, 4])
    # inf ties inf (1/2) and beats 3, 4, twice over; 7 beats 3, 4.
    assert found.u == 2 * 2.5 + 2
    with pytest.raises(ValueError, match="no NaN"):
        statistics.mann_whitney([1.0, np.nan], [0.0])
    with pytest.raises(ValueError, match="at least one"):
        statistics.mann_whitney([], [0.0])


def test_one_percent_needs_clear_data():
    assert statistics.mann_whitney(range(10, 20), range(10)).p == pytest.approx(1 / 184_756)  # 20 choose 10
    assert statistics.mann_whitney([1, 2, 3], [0, 0.5, 0.7]).p == pytest.approx(1 / 20)  # three seeds never reach 0.01


def test_iqm_drops_a_quarter_at_each_end():
    assert statistics.iqm([0, 1, 2, 100]) == pytest.approx(1.5)
    assert statistics.iqm([9, 1, 2, 3, 4, -50, 5, 6]) == pytest.approx((2 + 3 + 4 + 5) / 4)
    np.testing.assert_allclose(statistics.iqm(np.array([[0, 1, 2, 9], [4, 4, 4, 4]])), [1.5, 4])


def test_bootstrap_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(40):
        found = statistics.bootstrap(rng.normal(3, 2, 30))
        assert found.low < found.estimate < found.high
        inside += found.low <= 3 <= found.high
    assert 32 <= inside <= 40  # 95 % of 40 are 38
    values = rng.normal(0, 1, 200)
    found = statistics.bootstrap(values)
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / np.sqrt(200), rel=0.1)


def test_bootstrap_is_the_same_every_time_and_sound_at_its_edges():
    assert statistics.bootstrap([1, 2, 4]) == statistics.bootstrap([1, 2, 4])
    assert statistics.bootstrap([0.5, 0.5, 0.5]) == (0.5, 0.5, 0.5)
    assert statistics.bootstrap([2.0]) == (2.0, 2.0, 2.0)
    found = statistics.bootstrap([0, 1, 2, 100], statistics.iqm)
    assert found.estimate == 1.5 and found.low >= 0 and found.high <= 100


def test_difference_of_means():
    found = statistics.bootstrap_difference([2, 4, 6], [1, 1, 1])
    assert found.estimate == pytest.approx(3) and (found.low, found.high) == (1, 5)  # of three: 2 or 6 throughout
    assert np.isnan(statistics.bootstrap_difference([1.0], [2.0, 3.0]).low)


EPISODES = [100, 200, 300, 400, 500, 600, 700, 800]


def test_recovery_by_hand():
    # Former level (0.7 + 0.8 + 0.9) / 3 = 0.8; 95 % of it 0.76. The look at 500 is a lucky one: the next is below.
    values = [0.7, 0.8, 0.9, 0.4, 0.78, 0.7, 0.76, 0.9]
    assert statistics.former_level(EPISODES, values, at=400) == pytest.approx(0.8)
    assert statistics.recovery(EPISODES, values, at=400) == 300
    assert statistics.recovery(EPISODES, values, at=400, sustained=1) == 100
    assert statistics.recovery(EPISODES, values, at=400, share=0.5) == 0 + 0  # 0.4 is half of 0.8
    assert statistics.drop(EPISODES, values, at=400) == pytest.approx(0.5)


def test_recovery_counts_from_the_perturbation_wherever_evaluations_lie():
    values = [0.8, 0.8, 0.8, 0.4, 0.8, 0.8, 0.8, 0.8]
    assert statistics.recovery(EPISODES, values, at=350) == 150
    assert statistics.recovery(EPISODES, [0.8] * 8, at=400) == 0
    assert statistics.recovery(EPISODES, [0.8] * 3 + [0.1] * 5, at=400) == float("inf")
    assert statistics.recovery(EPISODES, [0.8] * 7 + [0.1], at=800) == float("inf")  # one look is not two
    assert np.isnan(statistics.recovery(EPISODES, [0.8] * 8, at=50))


def test_first_evaluations_at_a_level():
    assert statistics.first_at([10, 20, 30, 40], [0.9, 0.1, 0.9, 0.95], 0.9) == 30
    assert statistics.first_at([10, 20, 30, 40], [0.9, 0.1, 0.9, 0.95], 0.9, sustained=1) == 10
    assert statistics.first_at([10, 20], [0.1, 0.2], 0.9) == float("inf")


def test_wilson_by_hand():
    # (p + z²/2n ± z·sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n), z = 1.95996, p = 0.8, n = 10.
    z = 1.959964
    middle, half = (0.8 + z**2 / 20) / (1 + z**2 / 10), z * np.sqrt(0.016 + z**2 / 400) / (1 + z**2 / 10)
    assert wilson(8, 10) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
