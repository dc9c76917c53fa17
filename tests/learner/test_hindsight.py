"""Substitution of modules and goals, and the reward that follows from it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_uniform, empty_module, episodes, fetch_obs, fetch_table, line_module, line_table

from curious_jax.config import HindsightConfig
from curious_jax.learner import hindsight, replay
from curious_jax.types import FLAT
from envs.modules import ModuleTable

T = 5
B = 6000


def store(episode, modules):
    """A full store of just these episodes."""
    number, steps, size = episode.obs.shape
    state = replay.init(number, steps - 1, size, episode.action.shape[-1], modules.goal_size, modules.num_modules)
    return replay.add(state, episode, jnp.ones((number, modules.num_modules), bool))


@functools.partial(jax.jit, static_argnums=(1, 2, 3))
def substitute(state, modules, probability, substitution, key, module, slot, t):
    config = HindsightConfig(probability, substitution)
    return hindsight.substitute(state, modules, config, key, module, slot, t)


def full(value):
    return jnp.full(B, value, jnp.int32)


@pytest.fixture(scope="module")
def lines():
    """Two modules; coordinate 0 runs 0 ... 5 in episode 0 and 10 ... 15 in episode 1, coordinate 1 is 100 more.

    Episode 0 was collected for module 0 with goal 2, episode 1 for module 1 with goal 113.
    """
    modules = line_table(0, 1)
    time = np.arange(T + 1.0)
    first = np.stack([np.stack([time, 100 + time], 1), np.stack([10 + time, 110 + time], 1)])
    episode = episodes(first, module=[0, 1], goal=[[2.0, 0.0], [0.0, 113.0]])
    return modules, store(episode, modules)


@pytest.mark.parametrize("t", range(T))
def test_hindsight_goals_are_later_outcomes_the_last_included_and_uniform(lines, t):
    modules, state = lines
    batch = substitute(state, modules, 1.0, "own", jax.random.key(t), full(0), full(0), full(t))
    assert_uniform(batch.goal[:, 0], np.arange(t + 1, T + 1))
    np.testing.assert_array_equal(batch.goal[:, 1], 0.0)  # the other module's slot
    np.testing.assert_array_equal(batch.next_goal, batch.goal)
    # Solved where the goal is the very next outcome, a share of 1 / (T - t).
    np.testing.assert_array_equal(batch.reward, np.where(batch.goal[:, 0] == t + 1, 0.0, -1.0))


def test_hindsight_takes_the_drawn_module_and_its_own_episode(lines):
    modules, state = lines
    slot = jnp.arange(B) % 2
    batch = substitute(state, modules, 1.0, "own", jax.random.key(9), full(1), slot, full(3))
    np.testing.assert_array_equal(batch.module, 1)
    np.testing.assert_array_equal(batch.goal[:, 0], 0.0)
    assert_uniform(batch.goal[slot == 0, 1], [104, 105])
    assert_uniform(batch.goal[slot == 1, 1], [114, 115])
    np.testing.assert_array_equal(batch.obs[:, 0], 10 * slot + 3)
    np.testing.assert_array_equal(batch.next_obs[:, 0], 10 * slot + 4)
    np.testing.assert_array_equal(batch.action[:, 0], 3)


def test_later_time_of_many_steps():
    t = jnp.full(20_000, 44, jnp.int32)
    assert_uniform(hindsight.draw_later(jax.random.key(0), t, 50), range(45, 51))
    last = hindsight.draw_later(jax.random.key(1), jnp.full(1000, 49, jnp.int32), 50)
    np.testing.assert_array_equal(last, 50)


def test_probability_zero_changes_nothing(lines):
    modules, state = lines
    slot, t = jnp.arange(B) % 2, jnp.arange(B) % T
    batch = substitute(state, modules, 0.0, "own", jax.random.key(0), full(0), slot, t)
    np.testing.assert_array_equal(batch.module, state.module[slot])
    np.testing.assert_array_equal(batch.goal, state.goal[slot])
    np.testing.assert_array_equal(batch.next_goal, state.goal[slot])
    # Goal 2 of episode 0 is reached by the step from 1 to 2, goal 113 of episode 1 by the step from 112 to 113.
    np.testing.assert_array_equal(batch.reward == 0, np.where(slot == 0, t == 1, t == 2))


def test_the_probability_is_per_transition(lines):
    modules, state = lines
    batch = substitute(state, modules, 0.8, "own", jax.random.key(0), full(1), full(0), full(0))
    assert_uniform(batch.module, [0, 1], [0.2, 0.8])
    np.testing.assert_array_equal(batch.goal[batch.module == 0], [[2.0, 0.0]] * int((batch.module == 0).sum()))


def test_drawn_substitution_keeps_the_drawn_module(lines):
    modules, state = lines
    slot = jnp.arange(B) % 2
    batch = substitute(state, modules, 0.0, "drawn", jax.random.key(0), full(0), slot, full(1))
    np.testing.assert_array_equal(batch.module, 0)
    own, other = batch.goal[slot == 0], batch.goal[slot == 1]
    np.testing.assert_array_equal(own, [[2.0, 0.0]] * len(own))  # its module is the drawn one
    fresh = np.asarray(other[:, 0])
    assert (fresh >= 100).all() and (fresh <= 101).all()  # line_module's goals
    assert len(np.unique(fresh)) > 0.95 * len(fresh)
    np.testing.assert_array_equal(other[:, 1], 0.0)
    np.testing.assert_array_equal(batch.reward, np.where(slot == 0, 0.0, -1.0))


def test_drawn_substitution_with_hindsight(lines):
    modules, state = lines
    batch = substitute(state, modules, 0.8, "drawn", jax.random.key(1), full(0), full(1), full(T - 1))
    assert_uniform(batch.goal[:, 0] == 15.0, [True, False], [0.8, 0.2])


def test_a_module_without_goal_is_substituted_by_its_descriptor_alone():
    modules = ModuleTable((line_module("a", 0), empty_module("high", 0)))
    state = store(episodes(np.arange(T + 1.0)[None, :, None], module=0, goal=[[3.0]]), modules)
    batch = substitute(state, modules, 1.0, "own", jax.random.key(0), full(1), full(0), jnp.arange(B) % T)
    np.testing.assert_array_equal(batch.module, 1)
    np.testing.assert_array_equal(batch.goal, 0.0)
    np.testing.assert_array_equal(batch.reward, np.where(batch.next_obs[:, 0] > 1, 0.0, -1.0))


def test_a_flat_goal_keeps_every_module(lines):
    modules, state = lines
    state = state.replace(module=jnp.full(2, FLAT), goal=jnp.array([[2.0, 102.0], [12.0, 113.0]]))
    batch = substitute(state, modules, 0.0, "own", jax.random.key(0), full(FLAT), jnp.arange(B) % 2, full(1))
    np.testing.assert_array_equal(batch.reward, np.where(jnp.arange(B) % 2 == 0, 0.0, -1.0))  # both, or one alone
    batch = substitute(state, modules, 1.0, "own", jax.random.key(0), full(FLAT), full(0), full(1))
    np.testing.assert_array_equal(batch.goal[:, 1], batch.goal[:, 0] + 100)  # all parts of one moment
    assert_uniform(batch.goal[:, 0], range(2, T + 1))


def test_a_stacks_own_goal_follows_its_cube_and_hindsights_does_not():
    modules, layout = fetch_table("push", "stack")
    x = 1.2 + 0.05 * np.arange(T + 1)
    obs = np.stack([fetch_obs(layout, cube1=(1.0 + i, 0.7, 0.42), cube2=(x[i], 0.8, 0.42)) for i in range(T + 1)])
    asked = [[0.0, 0.0, 9.0, 9.0, 0.475]]  # its x and y are placeholders
    state = store(episodes(obs[None], module=1, goal=asked), modules)

    own = substitute(state, modules, 0.0, "own", jax.random.key(0), full(0), full(0), full(2))
    np.testing.assert_array_equal(own.module, 1)
    np.testing.assert_allclose(own.goal[0], [0, 0, x[2], 0.8, 0.475], atol=1e-6)
    np.testing.assert_allclose(own.next_goal[0], [0, 0, x[3], 0.8, 0.475], atol=1e-6)

    seen = substitute(state, modules, 1.0, "own", jax.random.key(0), full(1), full(0), full(2))
    np.testing.assert_array_equal(seen.goal, seen.next_goal)
    assert_uniform(np.round(np.asarray(seen.goal[:, 2]), 3), [4.0, 5.0, 6.0])  # cube 1 at the later times 3, 4, 5
    np.testing.assert_allclose(seen.goal[:, 3:], [[0.7, 0.42]] * B, atol=1e-6)
    np.testing.assert_array_equal(seen.goal[:, :2], 0.0)
