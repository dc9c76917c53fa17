"""The probe's settings keep what declared.md says of them, whatever sizes they are tuned to."""

import pytest

from curious_jax import config as configs
from envs import point
from experiments import probe

BY_EXPERIMENT = {
    "others": probe.SETTINGS,
    "perturbation": {**probe.SETTINGS, **probe.PERTURBATION},
    "learning_progress": {**probe.SETTINGS, **probe.LEARNING_PROGRESS},
    "scaling": {**probe.SETTINGS, **probe.SCALING},
    "curricula": {**probe.SETTINGS, **probe.CURRICULA},
}


@pytest.mark.parametrize("name", BY_EXPERIMENT)
def test_nothing_is_evicted_and_evaluations_are_large_enough(name):
    schedule = configs.make_config("cpu", **BY_EXPERIMENT[name]).schedule
    assert schedule.capacity >= schedule.episodes
    assert schedule.evaluation_episodes >= 192
    assert schedule.evaluation_interval % schedule.num_envs == 0  # evaluations at the same episodes in every run


@pytest.mark.parametrize("name", ["perturbation", "curricula"])
def test_the_sensor_is_off_by_one_tolerance_at_an_evaluation_that_leaves_time_to_recover(name):
    config = configs.make_config("cpu", **BY_EXPERIMENT[name])
    onset, schedule = config.perturbation.perturb_at, config.schedule
    assert config.perturbation.perturb_shift == point.TOLERANCE
    assert onset % schedule.evaluation_interval == 0
    assert 3 * schedule.evaluation_interval < onset < schedule.episodes - 3 * schedule.evaluation_interval


def test_curricula_measure_success_on_the_worst_goals():
    assert BY_EXPERIMENT["curricula"]["cvar_goals"] >= 10
