"""The sensor that goes wrong: which numbers it shifts, when, and what of the run sees it."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from helpers.parts import fetch_obs, fetch_table, line_module, make_run, tiny_config

from curious_jax import evaluation
from curious_jax.cli import environment
from curious_jax.config import PerturbationConfig
from curious_jax.errors import ConfigError
from curious_jax.learner import perturbation, rollout
from curious_jax.learner.state import init_one, policy_params
from envs.fetch.observation import ObservationLayout
from envs.modules import ModuleTable
from envs.point import PointLayout

AT_100 = PerturbationConfig(perturb_at=100, perturb_cube=2, perturb_shift=0.05)


def offset(config, layout, episodes):
    return perturbation.offset(config, SimpleNamespace(layout=layout, obs_size=layout.size), episodes)


def test_without_one_there_is_no_offset():
    assert offset(PerturbationConfig(), PointLayout(2, 0), 10**6) is None


@pytest.mark.parametrize(
    ("layout", "places"),
    [
        (PointLayout(2, 1), [6, 8]),  # point 2, object 1: 4, object 2: x y, relative x y
        (ObservationLayout(2, 1), [25, 28]),  # robot 10, cube 1: 15, cube 2: x y z, relative x y z
    ],
)
def test_x_and_relative_x_of_the_cube_shift_from_the_given_episode_on(layout, places):
    expected = np.zeros(layout.size, np.float32)
    np.testing.assert_array_equal(offset(AT_100, layout, 99), expected)
    expected[places] = 0.05
    np.testing.assert_array_equal(offset(AT_100, layout, 100), expected)
    np.testing.assert_array_equal(jax.jit(lambda n: offset(AT_100, layout, n))(100_000), expected)


def test_outcomes_and_rewards_of_the_arm_follow_the_sensor():
    modules, layout = fetch_table("push", "push2", "reach")
    obs = fetch_obs(layout, cube1=(1.3, 0.7, 0.425), cube2=(1.3, 0.9, 0.425))
    seen = obs + offset(AT_100, layout, 100)
    np.testing.assert_allclose(modules.outcomes(seen)[:4], [1.3, 0.7, 1.35, 0.9], atol=1e-6)
    asked = jnp.array([1.299, 0.7, 1.299, 0.9, 0.0, 0.0, 0.0])
    assert [float(modules.reward(seen, asked, m)) for m in (0, 1)] == [0.0, -1.0]  # 1 mm off, and 5.1 cm
    np.testing.assert_array_equal(seen[layout.gripper_position], obs[layout.gripper_position])


def test_a_cube_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="^--perturb-cube 2: must be at most 1, the scene's"):
        environment.make_env(tiny_config(perturb_at=10))
    environment.make_env(tiny_config())  # the default cube 2 is no fault of a run without perturbation
    with pytest.raises(ConfigError, match="^perturb_at=-1"):
        tiny_config(perturb_at=-1)


# A world that stands still.


@struct.dataclass
class StillState:
    obs: jax.Array
    overflow: jax.Array


@dataclass(frozen=True, eq=False)
class StillWorld:
    """Always observes (0.5, 5, 0.5): what its modules ask for is solved from the start or never."""

    modules: ModuleTable
    layout: Any = PointLayout(1, 0)  # the cube's x is coordinate 2, its relative x would be the fifth
    obs_size: int = 5
    action_size: int = 1
    episode_length: int = 2
    obs_bound: float = 100.0

    def with_worlds(self, num_worlds):
        return self

    def reset(self, key):
        return StillState(jnp.array([0.5, 5.0, 0.5, 0.0, 0.0]), jnp.array(False))

    def step(self, state, action):
        return state


@pytest.fixture(scope="module")
def still():
    """Modules solved (coordinate 0), cube (coordinate 2, solved while its sensor is right) and never (1)."""
    return StillWorld(
        ModuleTable((line_module("solved", 0, 0.0), line_module("cube", 2, 0.0), line_module("never", 1)))
    )


def rates(world, trained=0, names=("solved", "cube", "never"), **settings):
    world = StillWorld(ModuleTable(tuple(m for m in world.modules.modules if m.name in names)))
    config = tiny_config(modules=names, distractors=0, **settings)
    run = make_run(config, world)
    policy = policy_params(jax.eval_shape(lambda: init_one(run, 0)))
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), policy)
    return evaluation.evaluate(config, world, zeros, jax.random.key(0), 12, trained).rate


def test_evaluation_sees_the_sensor_go_wrong(still):
    settings = dict(episodes=64, perturb_at=50, perturb_cube=1, perturb_shift=2.0)
    assert rates(still, 49, **settings) == {"solved": 1.0, "cube": 1.0, "never": 0.0}
    assert rates(still, 50, **settings) == {"solved": 1.0, "cube": 0.0, "never": 0.0}


def test_the_flat_goal_is_solved_when_every_module_is(still):
    """HER: one module that cannot be solved makes every episode a failure."""
    assert rates(still, algorithm="her") == {"solved": 0.0, "cube": 0.0, "never": 0.0}
    assert rates(still, algorithm="her", names=("solved", "cube")) == {"solved": 1.0, "cube": 1.0}


def test_every_observation_of_an_episode_is_shifted(still):
    shift = jnp.array([0.0, 0.0, 0.25, 0.0, 0.25])
    seen = []

    def policy(obs, goal, module):
        seen.append(obs)
        return obs[:, 2:3]

    config = tiny_config().exploration
    module, quiet = jnp.array([0, 1]), jnp.zeros(2, bool)
    episode, _ = rollout.collect(policy, still, config, jax.random.key(0), module, quiet, shift)
    np.testing.assert_allclose(episode.obs, np.broadcast_to([0.5, 5, 0.75, 0, 0.25], (2, 3, 5)))
    np.testing.assert_allclose(episode.action, 0.75)  # what the policy saw


def test_goals_are_proposed_for_what_the_sensor_shows(still):
    shift = jnp.array([0.0, 0.0, 0.25, 0.0, 0.25])
    shown = lambda module, obs, goal: jnp.broadcast_to(obs[:, 2:3], goal.shape)  # noqa: E731
    policy = lambda obs, goal, module: obs[:, :1]  # noqa: E731
    config, module, quiet = tiny_config().exploration, jnp.array([0, 1]), jnp.zeros(2, bool)
    episode, _ = rollout.collect(policy, still, config, jax.random.key(0), module, quiet, shift, shown)
    np.testing.assert_allclose(episode.goal, 0.75)
