"""Statistics of what is shown: by hand, and against SciPy's other ways."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from curious_jax.show import stats


def test_series_lays_seeds_side_by_side():
    rows = [{"episodes": e, "seed": s, "x": x} for e, s, x in [(10, 3, 0.5), (10, 4, 0.7), (20, 3, None), (20, 4, 1.0)]]
    episodes, values = stats.series(rows, "x")
    assert episodes.tolist() == [10, 20]
    np.testing.assert_array_equal(values, [[0.5, 0.7], [np.nan, 1.0]])


def test_fresh_episodes_count_where_the_target_was_tried_again():
    """An evaluation of 47 episodes met the target by chance; the 100 fresh ones say what the policy does."""
    row = {
        "eval/success": 0.95,
        "eval/success/push": 0.915,
        "eval/n/push": 47,
        "eval/success/pnp": 1.2,
        "eval/n/pnp": 4,
    }
    assert stats.mean_success(row) == 0.95 and stats.success(row, "push") == (0.915, 47)
    assert stats.success(row, "pnp") == (1.0, 4) and stats.success(row, "distractor1") is None
    row |= {"eval/fresh": 0.93, "eval/fresh/push": 0.87, "eval/fresh_n/push": 100}
    assert stats.mean_success(row) == 0.93 and stats.success(row, "push") == (0.87, 100)


@pytest.mark.parametrize(
    ("successes", "episodes", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (95, 100, 0.8882, 0.9785)],
)
def test_wilson_interval(successes, episodes, low, high):
    assert stats.wilson(successes, episodes) == pytest.approx((low, high), abs=1e-4)


def test_the_interval_over_seeds_is_student_s():
    rates = [0.45, 0.8, 0.96]  # mean 0.7367, standard error 0.1505, t(0.975, 2) = 4.303: beyond [0, 1] on both sides
    assert stats.rate_over_seeds(rates) == pytest.approx((0.0890, 1.0), abs=1e-3)
    rates = [0.5, 0.52, 0.54, 0.56]
    expected = scipy_stats.ttest_1samp(rates, 0.0).confidence_interval(0.95)
    assert stats.rate_over_seeds(rates) == pytest.approx(tuple(expected))
    assert stats.rate_over_seeds([1.0, 1.0]) == (1.0, 1.0)
