"""Learning progress beside chance: the figures by hand, and which folders have them."""

import numpy as np
import pandas as pd
import pytest

from curious_jax.errors import ConfigError
from experiments.checks import progress_signal


def rows(rng, size, success, seeds=3, evaluations=400):
    """A condition whose success is `success(t)` [evaluations] and whose windows hold `size` results."""
    found = []
    for seed in range(seeds):
        p = success(np.linspace(0, 1, evaluations))
        now, before = (rng.binomial(size, one) / size for one in (p, np.r_[p[:1], p[:-1]]))
        columns = {"competence/reach": now, "learning_progress/reach": now - before, "eval/success/reach": p}
        found.append(pd.DataFrame({"seed": seed, "episodes": np.arange(evaluations), **columns}))
    return pd.concat(found)


def test_windows_are_found_by_their_competences():
    assert progress_signal.find_window(np.array([0.25, 0.5, 1.0])) == 4
    assert progress_signal.find_window(np.array([0.333333, 0.1])) == 30
    with pytest.raises(ConfigError, match="up to 400 results"):
        progress_signal.find_window(np.array([0.1239, 0.777123, 0.31]))


def test_chance_by_hand():
    """Of one result each: two differ with probability 2 p (1 - p). Of two, at a half: 1/2 · 1/2 + 1/8 · 1."""
    np.testing.assert_allclose(progress_signal.by_chance(np.array([0.0, 0.5, 0.9]), 1), [0.0, 0.5, 0.18])
    np.testing.assert_allclose(progress_signal.by_chance(np.array([0.5, 0.5]), 2), [0.375, 0.375])


def test_success_that_stands_still_is_chance_and_success_that_jumps_is_not():
    rng = np.random.default_rng(0)
    still = progress_signal.measure(rows(rng, 4, lambda t: np.where(t < 0.5, 0.2, 0.6) + 0.3 * (t > 0.8)), ["reach"])
    assert still["l"] == 4 and still["mean"] == pytest.approx(still["chance"], rel=0.1) and abs(still["change"]) < 0.2
    swings = progress_signal.measure(rows(rng, 40, lambda t: 0.5 + 0.4 * np.sin(300 * t)), ["reach"])
    assert swings["mean"] > 2 * swings["chance"] and swings["change"] > 0.8


def test_the_arms_runs_have_a_row_per_condition(capsys):
    assert progress_signal.main(["docs/results/point-distractors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [[f"| CURIOUS, distractors {n}", "30"] for n in (0, 4, 7)]


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("docs", "neither metrics.csv.gz"),
        ("docs/results/point-curricula", "compares no algorithms"),
        ("docs/results/point-architectures", "has no evaluations of curious"),
    ],
)
def test_other_folders_are_refused_in_one_line(folder, says, capsys):
    assert progress_signal.main([folder]) == 2
    said = capsys.readouterr().err
    assert says in said and said.count("\n") == 1
