"""Episodes as collected: fresh every time, whole, and true to policy and environment."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import FaultyEnv, assert_same

from curious_jax.config import ExplorationConfig
from curious_jax.learner import rollout
from envs import point
from envs.modules import Module, ModuleTable, distance_solved

E = 16
CONFIG = ExplorationConfig()


@jax.jit
def towards(obs, goal, module):
    """Towards the goal of reach (slots 0 and 1), hand open."""
    return jnp.concatenate([jnp.clip((goal[:, :2] - obs[:, :2]) / point.STEP, -1, 1), -jnp.ones((len(obs), 1))], axis=1)


@functools.partial(jax.jit, static_argnums=0)
def collect(env, key, module, exploring):
    return rollout.collect(towards, env, CONFIG, key, module, exploring)


@pytest.fixture(scope="module")
def env():
    return point.create(("reach", "push"), 1)


@pytest.fixture(scope="module")
def collected(env):
    """Half the environments explore; modules alternate 0 0 1 1."""
    module = jnp.arange(E) // 2 % 2
    return collect(env, jax.random.key(0), module, jnp.arange(E) % 2 == 1)[0]


def test_episodes_are_what_the_environment_did(env, collected):
    state = jax.vmap(env.reset)(jax.random.split(jax.random.split(jax.random.key(0), 3)[0], E))
    step = jax.jit(jax.vmap(env.step))
    for t in range(env.episode_length):
        np.testing.assert_allclose(collected.obs[:, t], state.obs, atol=1e-6)
        state = step(state, collected.action[:, t])
    np.testing.assert_allclose(collected.obs[:, -1], state.obs, atol=1e-6)
    assert collected.obs.shape == (E, env.episode_length + 1, env.obs_size)
    assert collected.action.shape == (E, env.episode_length, env.action_size)


def test_only_exploring_environments_explore(collected):
    for t in range(collected.action.shape[1]):
        wanted = towards(collected.obs[:, t], collected.goal, collected.module)
        np.testing.assert_allclose(collected.action[::2, t], wanted[::2], atol=1e-6)
        assert (jnp.abs(collected.action[1::2, t] - wanted[1::2]) > 1e-4).any(axis=1).all()
    assert np.abs(collected.action).max() <= 1.0


def test_success_is_that_of_the_last_step(collected):
    # Without noise the point stands on reach's goal after 7 steps; nobody moves the object.
    reach, quiet = collected.module == 0, jnp.arange(E) % 2 == 0
    assert collected.success[reach & quiet].all()
    distance = np.linalg.norm(collected.obs[:, -1, :2] - collected.goal[:, :2], axis=1)
    moved = np.linalg.norm(collected.obs[:, -1, 2:4] - collected.goal[:, 2:4], axis=1)
    expected = np.where(collected.module == 0, distance, moved) < point.TOLERANCE
    np.testing.assert_array_equal(collected.success, expected)


def test_goals_fill_their_modules_slots_alone(collected):
    goal, module = np.asarray(collected.goal), np.asarray(collected.module)
    assert (goal[module == 0][:, 2:] == 0).all() and (goal[module == 0][:, :2] != 0).all()
    assert (goal[module == 1][:, [0, 1, 4, 5]] == 0).all() and (goal[module == 1][:, 2:4] != 0).all()


def test_all_is_drawn_anew_every_episode(env):
    """8 environments, 20 episodes each: 160 goals and 160 starts."""
    module = jnp.zeros(8, jnp.int32)
    several = [collect(env, jax.random.key(k), module, module == 1)[0] for k in range(20)]
    goals = np.concatenate([e.goal[:, :2] for e in several])
    starts = np.concatenate([e.obs[:, 0, 2:4] for e in several])
    assert len(np.unique(goals, axis=0)) == 160
    assert len(np.unique(starts, axis=0)) == 160
    assert len({e.obs[:, 0].tobytes() for e in several}) == 20


def test_same_key_same_episodes(env, collected):
    again, _ = collect(env, jax.random.key(0), jnp.arange(E) // 2 % 2, jnp.arange(E) % 2 == 1)
    assert_same(again, collected)


def test_a_broken_world_is_marked_and_stays_alone(env, collected):
    broken_env = FaultyEnv(env)
    episode, overflow = collect(broken_env, jax.random.key(0), jnp.arange(E) // 2 % 2, jnp.arange(E) % 2 == 1)
    broken = np.isnan(np.asarray(episode.obs)).any(axis=(1, 2))
    assert 0 < broken.sum() < E
    np.testing.assert_array_equal(episode.valid, ~broken)
    assert not episode.success[broken].any()
    assert np.isfinite(episode.obs[:, -1]).any()  # it looked sound again at the end, and is out all the same
    assert int(overflow) == 0
    for name in ("obs", "action", "goal", "success"):
        np.testing.assert_allclose(getattr(episode, name)[~broken], getattr(collected, name)[~broken], atol=1e-5)


@pytest.mark.parametrize("value", [1e6, -jnp.inf])
def test_a_world_that_left_the_workspace_is_broken(env, value):
    module = jnp.zeros(E, jnp.int32)
    episode, overflow = collect(FaultyEnv(env, value), jax.random.key(0), module, module == 1)
    np.testing.assert_array_equal(episode.valid, (jnp.abs(episode.obs) < 100).all(axis=(1, 2)))
    assert 0 < episode.valid.sum() < E
    assert int(overflow) == 0


def test_episodes_in_which_contacts_were_lost_are_counted_and_invalid(env, collected):
    module, exploring = jnp.arange(E) // 2 % 2, jnp.arange(E) % 2 == 1
    lossy = FaultyEnv(env, value=None, overflows=True)
    episode, overflow = collect(lossy, jax.random.key(0), module, exploring)
    lost = np.asarray(jax.vmap(lossy.reset)(jax.random.split(jax.random.split(jax.random.key(0), 3)[0], E)).broken)
    assert 0 < lost.sum() < E and int(overflow) == lost.sum()
    np.testing.assert_array_equal(episode.valid, ~lost)
    np.testing.assert_array_equal(episode.success, np.asarray(collected.success) & ~lost)
    np.testing.assert_allclose(episode.obs, collected.obs, atol=1e-5)


def test_policy_and_success_see_a_moving_goal_where_it_stands(env):
    """The goal stays 0.05 ahead of the point, which follows it to the wall and has reached it all the while."""
    ahead = Module(
        name="ahead",
        goal_size=2,
        outcome=lambda obs: obs[:2],
        sample_goal=lambda key: jnp.full(2, 5.0),  # as it is drawn it is out of reach, on the other side
        solved=lambda obs, goal: distance_solved(obs[:2], goal, point.TOLERANCE),
        goal_at=lambda goal, obs: obs[:2] - 0.05,
    )
    moving = dataclasses.replace(env, modules=ModuleTable((ahead,)))
    none = jnp.zeros(2, jnp.int32)
    episode, _ = collect(moving, jax.random.key(0), none, none == 1)
    np.testing.assert_allclose(episode.action[:, :, :2], -0.5, atol=1e-5)
    np.testing.assert_allclose(episode.goal, 5.0)  # kept as it was drawn
    assert episode.success.all()
