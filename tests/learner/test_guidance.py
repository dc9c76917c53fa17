"""Guidance: who acts in whose place, when, and what of an episode it leaves alone."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_same, fetch_obs, fetch_table

from curious_jax.config import ExplorationConfig, make_config
from curious_jax.errors import ConfigError
from curious_jax.learner import guidance, rollout
from envs import point

E = 16
QUIET = ExplorationConfig(noise=0.0, random_action=0.0)
TABLE = ("reach", "push", "pnp", "stack")
CUBE, BASE = (1.4, 0.8, 0.425), (1.2, 0.6, 0.425)
ABOVE_BASE = (1.2, 0.6, 0.475)


def towards(obs, goal, module):
    """Towards the goal in the slots of reach, and nowhere for another module."""
    action = jnp.where((module == 0)[:, None], (goal[:, :2] - obs[:, :2]) / point.STEP, 0.0)
    return jnp.concatenate([jnp.clip(action, -1, 1), -jnp.ones((len(obs), 1))], axis=1)


def observe(gripper, cube, base):
    """An observation of the arm with two cubes, their positions relative to the gripper included."""
    _, layout = fetch_table("reach")
    obs = fetch_obs(layout, gripper, cube1=cube, cube2=base)
    return obs.at[layout.cube_relative_position(1)].set(jnp.array(cube) - jnp.array(gripper))


def collect(names, guide, exploring):
    env = point.create(names)
    config = dataclasses.replace(QUIET, guide=guide)
    module = jnp.full(E, len(names) - 1, jnp.int32)
    return rollout.collect(towards, env, config, jax.random.key(3), module, exploring)[0], env


def distances(episode, env):
    """[E], from point to object at the end."""
    return np.linalg.norm(episode.obs[:, -1, env.layout.cube_relative_position(1)], axis=1)


def test_reach_brings_the_point_to_the_object_of_drag_in_exploring_episodes_alone():
    exploring = jnp.arange(E) % 2 == 0
    episode, env = collect(("reach", "drag"), 1.0, exploring)
    start = np.linalg.norm(episode.obs[:, 0, env.layout.cube_relative_position(1)], axis=1)
    assert (distances(episode, env)[::2] <= point.CLING).all()
    np.testing.assert_array_equal(episode.obs[1::2, -1, :2], 0.0)  # a self-evaluation is not guided
    assert (start > point.CLING).sum() >= 4
    assert (episode.module == 1).all() and (episode.goal[:, :2] == 0).all()  # still episodes of drag


def test_guides_that_are_not_in_the_run_do_not_act():
    guided, _ = collect(("drag",), 1.0, jnp.ones(E, bool))
    assert_same(guided, collect(("drag",), 0.0, jnp.ones(E, bool))[0])


def test_a_step_is_guided_with_the_given_probability():
    table, n = fetch_table("reach", "push")[0], 4000
    obs = jnp.tile(observe((1.3, 0.7, 0.6), CUBE, BASE), (n, 1))
    goal, module = jnp.zeros((n, table.goal_size)), jnp.ones(n, jnp.int32)
    exploring = jnp.arange(n) < n // 2
    asked, acting = guidance.guide(table, 0.3, jax.random.key(0), obs, goal, module, exploring)
    assert abs((acting[: n // 2] == 0).mean() - 0.3) < 0.03 and (acting[n // 2 :] == 1).all()
    np.testing.assert_allclose(asked[acting == 0], [[1.4, 0.8, 0.425, 0.0, 0.0]] * int((acting == 0).sum()))
    assert (asked[acting == 1] == 0).all()
    assert guidance.guide(table, 0.0, jax.random.key(0), obs, goal, module, exploring)[0] is goal


@pytest.mark.parametrize(
    ("module", "gripper", "cube", "acting", "goal"),
    [
        (0, (1.3, 0.7, 0.6), CUBE, 0, (1.3, 0.7, 0.5)),  # reach has no guide
        (1, (1.3, 0.7, 0.6), CUBE, 0, CUBE),
        (2, (1.3, 0.7, 0.6), CUBE, 0, CUBE),
        (2, (1.4, 0.8, 0.45), CUBE, 2, (1.3, 0.7, 0.5)),  # 2.5 cm away is at hand
        (3, (1.3, 0.7, 0.6), CUBE, 0, CUBE),
        (3, (1.4, 0.8, 0.44), CUBE, 2, ABOVE_BASE),  # pnp with the goal of stack
        (3, (1.2, 0.6, 0.48), ABOVE_BASE, 3, ABOVE_BASE),  # there: stack lets go itself
        (3, (1.3, 0.7, 0.6), ABOVE_BASE, 3, ABOVE_BASE),
        (3, (np.nan, 0.7, 0.6), CUBE, 3, ABOVE_BASE),
    ],
)
def test_who_acts_on_the_arm(module, gripper, cube, acting, goal):
    table, _ = fetch_table(*TABLE)
    obs = observe(gripper, cube, BASE)
    slots = table.slots[module]
    own = jnp.zeros(table.goal_size).at[slots].set(jnp.array([1.3, 0.7, 0.5])[: slots.stop - slots.start])
    own = table.goal_at(own, jnp.int32(module), obs)
    found, asked = table.guide(obs, own, jnp.int32(module))
    assert int(found) == acting
    width = 2 if acting == 1 else 3
    np.testing.assert_allclose(np.asarray(asked)[table.slots[acting]], goal[:width], atol=1e-6)
    assert (np.asarray(asked)[~np.asarray(table.mask(found))] == 0).all()


def test_the_flat_goal_has_no_guides():
    with pytest.raises(ConfigError, match=r"guide=0.5: must be 0.0 with algorithm=her"):
        make_config(algorithm="her", guide=0.5)
    with pytest.raises(ConfigError, match=r"guide=1.5: must be between 0 and 1"):
        make_config(guide=1.5)
