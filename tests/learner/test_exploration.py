"""Exploration: Gaussian noise, uniform random actions, and random actions that last."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_uniform
from scipy import stats

from curious_jax.config import ExplorationConfig, make_config
from curious_jax.errors import ConfigError
from curious_jax.learner import exploration

CONFIG = ExplorationConfig(noise=0.2, random_action=0.3)
E, STEPS = 400, 200


def test_noise_and_random_actions():
    action = jnp.full((40_000, 2), 0.1)
    noisy = np.asarray(jax.jit(exploration.explore, static_argnums=2)(jax.random.key(0), action, CONFIG))
    near = stats.norm(0.1, 0.2)
    for low, high in [(-1, -0.6), (-0.6, -0.1), (-0.1, 0.3), (0.3, 0.7), (0.7, 1)]:
        share = ((noisy > low) & (noisy < high)).mean()
        expected = 0.3 * (high - low) / 2 + 0.7 * (near.cdf(high) - near.cdf(low))
        assert share == pytest.approx(expected, abs=0.01)
    # A random action replaces all coordinates at once. A tenth of uniform ones lie below -0.8, where the noise
    # hardly ever comes (4.5 deviations).
    far = noisy < -0.8
    assert far.mean() == pytest.approx(0.3 * 0.1, abs=0.003)
    assert far.all(axis=1).mean() == pytest.approx(0.3 * 0.1 * 0.1, abs=0.0015)  # each for itself: 0.0009


def test_exploration_may_be_none_or_all():
    action = jnp.full((2000, 2), 0.7)
    key = jax.random.key(0)
    np.testing.assert_array_equal(exploration.explore(key, action, ExplorationConfig(0.0, 0.0)), action)
    every = exploration.explore(key, action, ExplorationConfig(0.0, 1.0))
    assert_uniform(np.floor(np.asarray(every) * 5), range(-5, 5))
    loud = exploration.explore(key, action, ExplorationConfig(10.0, 0.0))
    assert np.abs(loud).max() == 1.0


def play(random_steps, random_action=0.3):
    """[STEPS, E, 2]: actions of a policy that stands still, without noise; zero where no random one was taken."""
    return played(ExplorationConfig(0.0, random_action, random_steps))


def played(config):
    """[STEPS, E, 2]: actions of a policy that stands still, with this exploration."""
    still = jnp.zeros((E, 2))

    def step(lasting, key):
        action, lasting = exploration.explore_lasting(key, still, lasting, config)
        return lasting, action

    lasting = exploration.begin(jax.random.key(1), E, 2, config)
    return np.asarray(jax.lax.scan(step, lasting, jax.random.split(jax.random.key(2), STEPS))[1])


def lengths(actions):
    """Steps that the random actions lasted which began and ended within the episode."""
    found = []
    for one in actions[..., 0].T:
        changes = np.flatnonzero(np.diff(one)) + 1
        found += [b - a for a, b in zip(changes[:-1], changes[1:], strict=True) if one[a] != 0]
    return np.array(found)


@pytest.mark.parametrize("random_steps", [2.0, 4.0])
def test_random_actions_last_as_long_as_asked_and_their_share_stays(random_steps):
    actions = play(random_steps)
    share = (actions[..., 0] != 0).mean(axis=1)
    assert share[0] == pytest.approx(0.3, abs=0.07) and share.mean() == pytest.approx(0.3, abs=0.01)
    found = lengths(actions)
    assert found.mean() == pytest.approx(random_steps, rel=0.06)
    assert (found == 1).mean() == pytest.approx(1 / random_steps, abs=0.03)  # geometric
    assert_uniform(np.floor(np.unique(actions[..., 0][actions[..., 0] != 0]) * 5), range(-5, 5))


def test_random_actions_that_last_one_step_are_drawn_anew_as_ever():
    config = ExplorationConfig(0.2, 0.3)
    action, key = jnp.full((E, 2), 0.5), jax.random.key(0)
    none = exploration.begin(key, E, 2, config)
    assert none == (None, None)
    found, underway = exploration.explore_lasting(key, action, none, config)
    np.testing.assert_array_equal(found, exploration.explore(key, action, config))
    assert underway == (None, None)


def test_without_random_actions_none_lasts():
    assert (play(4.0, random_action=0.0) == 0).all()
    actions = play(4.0, random_action=1.0)
    assert (actions != 0).all() and lengths(actions).mean() == pytest.approx(4.0, rel=0.06)


def test_random_actions_last_at_least_one_step():
    with pytest.raises(ConfigError, match=r"random_steps=0.5: must be between 1 and 1000"):
        make_config(random_steps=0.5)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_random_commands_of_the_gripper_last_as_long_as_asked_and_leave_the_rest(share):
    actions = played(ExplorationConfig(0.0, 0.0, random_gripper=share, random_gripper_steps=8.0))
    assert (actions[..., 0] == 0).all()
    gripper = actions[..., 1:]
    assert set(np.unique(gripper)) == {-1.0, 1.0} | ({0.0} if share < 1 else set())
    assert gripper.mean() == pytest.approx(0, abs=0.02)
    on = (gripper[..., 0] != 0).mean(axis=1)
    assert on[0] == pytest.approx(share, abs=0.08) and on.mean() == pytest.approx(share, abs=0.01)
    if share == 1:  # the next command begins at once, on the other side half of the time: twice as long between sides
        assert lengths(gripper).mean() == pytest.approx(16, rel=0.1)


def test_the_gripper_takes_its_own_commands_within_random_actions_too():
    config = ExplorationConfig(0.0, 1.0, random_steps=3.0, random_gripper=1.0)
    actions = played(config)
    assert set(np.unique(actions[..., 1])) == {-1.0, 1.0}
    np.testing.assert_array_equal(actions[..., 0], play(3.0, random_action=1.0)[..., 0])
    single = played(ExplorationConfig(0.0, 1.0, random_gripper=1.0))
    np.testing.assert_array_equal(single[..., 0], play(1.0, random_action=1.0)[..., 0])
