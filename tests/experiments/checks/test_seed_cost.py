"""Seeds side by side: one program, traced as often as that of one seed, at about the cost of as many."""

import pytest
from helpers.parts import tiny_config

import envs
from curious_jax.fit import fit
from experiments.checks import seed_cost


@pytest.mark.slow
def test_ten_seeds_compile_once():
    """Two epochs of ten seeds trace the world's step as often as two epochs of one: no seed, no epoch adds one."""
    traces = {}
    for seeds in (1, 10):
        config = tiny_config(num_seeds=seeds)
        env = envs.make(config.world, config.modules, config.distractors)
        progress = fit(config, env)
        assert len(progress.rows) == 2 * seeds
        traces[seeds] = env.traces.step
    assert traces[10] == traces[1] == 2  # training and evaluation, once each


def test_its_help_is_its_own(capsys):
    with pytest.raises(SystemExit):
        seed_cost.main(["--help"])
    text = capsys.readouterr().out
    assert text.startswith("usage: python -m experiments.checks.seed_cost") and "seeds side by side" in text


@pytest.mark.slow
def test_ten_seeds_cost_ten_times_one():
    """A loose bound for a machine that does other things, too; the measured figure is in experiments/README.md."""
    found = seed_cost.measure({})
    assert 1 < found["ratio"] <= 13, found
