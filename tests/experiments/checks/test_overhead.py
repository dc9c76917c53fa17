"""What curricula cost: programs take turns, and ratios are to the first."""

import pytest

from experiments.checks import overhead
from experiments.checks.overhead import CHOICES


def test_the_papers_choice_is_the_first_of_all():
    assert CHOICES[0] == ("estimator", "competence") and ("goals", "uniform") not in CHOICES
    assert len(CHOICES) == 8 + 5


def test_ratios_are_to_the_first_in_the_same_round(monkeypatch):
    """The machine becomes twice as slow in every round; one program takes half as long again as the other."""
    speeds = {"competence": 1.0, "bayes": 1.5}

    def make_turn(config, seconds):
        rounds = iter(2.0**k for k in range(9))
        return lambda: next(rounds) * speeds[config.curriculum.estimator]

    monkeypatch.setattr(overhead, "make_turn", make_turn)
    found = overhead.measure({}, 3, [("estimator", "competence"), ("estimator", "bayes")])
    assert found == {"estimator competence": (2.0, 1.0), "estimator bayes": (3.0, 1.5)}


@pytest.mark.slow
def test_two_choices_measured(capsys):
    found = overhead.measure({"hidden_size": 16}, 3, [("estimator", "competence"), ("estimator", "ema")])
    assert 0.5 < found["estimator ema"][1] < 2.0
