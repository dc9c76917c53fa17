"""Recorded episodes: whole, from fresh starts, judged as evaluation judges them."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from helpers.parts import FaultyEnv

from curious_jax import config as configs
from curious_jax import evaluation
from curious_jax.learner.state import setup
from curious_jax.run import policies
from curious_jax.show import playback
from curious_jax.types import FLAT


@pytest.fixture(scope="module")
def loaded(finished_run):
    return policies.load(finished_run)


@pytest.fixture(scope="module")
def recording(loaded):
    return playback.record(loaded, jax.random.key(3), [0, 1, 0, 2])


def test_an_episode_is_there_from_its_first_state_to_its_last(loaded, recording):
    assert recording.length == loaded.env.episode_length + 1
    assert recording.solved.shape == (21, 4) and recording.goal.shape == (21, 4, loaded.env.modules.goal_size)
    assert recording.module.tolist() == [0, 1, 0, 2]
    first = recording.state(0, 1)
    np.testing.assert_array_equal(first.position, [0.0, 0.0])  # the point starts at the centre
    moved = np.abs(np.diff(recording.states.position, axis=0)).max(axis=(0, 2))
    assert (0 < moved).all() and (moved <= 0.1 + 1e-6).all()  # a full action's displacement


def test_solved_is_what_the_module_says_of_state_and_goal(loaded, recording):
    for episode, module in enumerate(recording.module):
        slots = loaded.env.modules.slots[module]
        place = loaded.env.modules.modules[module].outcome
        for time in (0, 10, 20):
            goal = recording.goal[time, episode, slots]
            distance = np.linalg.norm(np.asarray(place(recording.state(time, episode).obs)) - goal)
            assert recording.solved[time, episode] == (distance < 0.1)
            others = np.delete(recording.goal[time, episode], np.arange(slots.start, slots.stop))
            assert (others == 0).all()


def test_the_same_key_gives_the_same_episodes_and_another_key_others(loaded, recording):
    again = playback.record(loaded, jax.random.key(3), [0, 1, 0, 2])
    np.testing.assert_array_equal(again.states.position, recording.states.position)
    other = playback.record(loaded, jax.random.key(4), [0, 1, 0, 2])
    assert not np.array_equal(other.goal, recording.goal)
    assert not np.array_equal(recording.goal[0, 0], recording.goal[0, 2])  # two episodes of one module


def test_an_episode_that_lost_contacts_is_solved_at_no_time(loaded, monkeypatch):
    monkeypatch.setattr(playback, "check_overflow", lambda *_: None)  # half of them would stop it
    lossy = FaultyEnv(loaded.env, value=None, share=0.5, overflows=True)
    key, module = jax.random.key(0), np.zeros(60, int)
    whole, found = (playback.record(loaded._replace(env=env), key, module) for env in (loaded.env, lossy))
    key_reset, _ = jax.random.split(key)
    lost = np.asarray(jax.vmap(lossy.reset)(jax.random.split(key_reset, 60)).broken)
    assert whole.solved[:, lost].any()
    np.testing.assert_array_equal(found.solved, whole.solved & ~lost)


def test_it_succeeds_as_often_as_evaluation_does(loaded):
    rate = playback.record(loaded, jax.random.key(0), np.zeros(400, int)).solved[-1].mean()
    run = setup(loaded.config, loaded.env)
    batch = jax.jit(functools.partial(evaluation.batch_success, run))
    success, _ = batch(loaded.params, jax.random.key(1), np.zeros(400, np.int32))
    assert rate == pytest.approx(float(success.mean()), abs=0.15)  # four standard errors of the difference at 1/2


def test_the_flat_goal_of_her_asks_for_every_module(loaded):
    her = configs.make_config(**{"world": "point", "modules": ("reach", "push"), "algorithm": "her"})
    flat = dataclasses.replace(loaded.config, algorithm="her", curriculum=her.curriculum, hindsight=her.hindsight)
    found = playback.record(loaded._replace(config=flat), jax.random.key(0), [0, 1])
    assert (found.module == FLAT).all()
    assert (found.goal[0] != 0).all()  # every slot is asked for


def test_one_of_several_seeds(two_seed_run):
    export = policies.find(two_seed_run)
    first, second = (policies.load(export, seed_index=index) for index in (0, 1))
    assert (first.config.seed, second.config.seed, second.config.num_seeds) == (5, 6, 1)
    leaves = zip(jax.tree.leaves(first.params.actor), jax.tree.leaves(second.params.actor))
    assert any(not np.array_equal(a, b) for a, b in leaves)
