"""TD3: target noise by hand, and updates against finite differences in double precision (as test_ddpg.py)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import ACTIONS, INPUTS, NETWORK, adam, finite_differences, forward
from jax.flatten_util import ravel_pytree

from curious_jax.config import DDPGConfig, TD3Config
from curious_jax.learner import td3

DISCOUNT, L2 = 0.9, 0.5


def test_target_actions_are_smoothed_by_clipped_noise_and_stay_in_range():
    config = TD3Config(target_noise=0.2, target_noise_clip=0.5)
    action, noise = jnp.array([0.0, 0.1, 0.0, 0.9, -0.8]), jnp.array([1.0, -2.0, 9.0, 1.0, -9.0])
    np.testing.assert_allclose(td3.smooth(action, noise, config), [0.2, -0.3, 0.5, 1.0, -1.0], atol=1e-6)


def learner(**settings):
    config = DDPGConfig(actor_lr=3e-2, critic_lr=1e-2, discount=DISCOUNT, action_l2=L2, **settings)
    return td3.make(NETWORK, config, TD3Config(target_noise=0.0, policy_delay=2), INPUTS, ACTIONS)


def one(critics, k):
    return jax.tree.map(lambda leaf: leaf[k], critics)


def q(params, x, a):
    return forward(params, np.concatenate([x, a], axis=1))[:, 0]


def numpy_critic_loss(state, batch):  # noqa: F811
    next_action = np.tanh(forward(state.target_actor, batch.next_inputs))
    next_q = np.minimum(*(q(one(state.target_critics, k), batch.next_inputs, next_action) for k in (0, 1)))
    y = np.clip(np.asarray(batch.reward) + DISCOUNT * next_q, -1 / (1 - DISCOUNT), 0)
    shape = ravel_pytree(state.critics)[1]
    loss = lambda p: np.mean((q(p, batch.inputs, batch.action) - y) ** 2)  # noqa: E731
    return lambda flat: loss(one(shape(flat), 0)) + loss(one(shape(flat), 1))


def numpy_actor_loss(state, batch):  # noqa: F811
    shape = ravel_pytree(state.actor)[1]

    def loss(flat):
        action = np.tanh(forward(shape(flat), batch.inputs))
        return -q(one(state.critics, 0), batch.inputs, action).mean() + L2 * np.mean(action**2)

    return loss


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0], np.float64)


def test_the_critics_learn_at_once_and_the_actor_and_targets_at_every_second_update(batch):  # noqa: F811
    learn = learner(target_rate=0.1)
    update = jax.jit(learn.update)
    start = learn.init(jax.random.key(1))
    lower = lambda p: jax.tree.map(lambda x: x - 2.0 if x.shape == (2, 1) else x, p)  # noqa: E731, last biases
    other = learn.init(jax.random.key(2))
    start = start.replace(critics=lower(start.critics), target_critics=lower(other.critics))

    first_loss = numpy_critic_loss(start, batch)
    first_gradient = finite_differences(first_loss, flat(start.critics))
    middle, got = update(start, batch)
    assert float(got["critic_loss"]) == pytest.approx(first_loss(flat(start.critics)), rel=1e-4)
    for part in ("actor", "target_actor", "target_critics"):
        np.testing.assert_array_equal(flat(getattr(middle, part)), flat(getattr(start, part)))

    second_gradient = finite_differences(numpy_critic_loss(middle, batch), flat(middle.critics))
    end, got = update(middle, batch)
    moved = flat(end.critics) - flat(start.critics)
    np.testing.assert_allclose(moved, adam([first_gradient, second_gradient], 1e-2), atol=1e-4)

    actor_loss = numpy_actor_loss(end, batch)  # on the critics just updated
    assert float(got["actor_loss"]) == pytest.approx(actor_loss(flat(start.actor)), rel=1e-4)
    gradient = finite_differences(actor_loss, flat(start.actor))
    np.testing.assert_allclose(flat(end.actor) - flat(start.actor), adam([gradient], 3e-2), atol=1e-4)
    for target, online in (("target_actor", "actor"), ("target_critics", "critics")):
        expected = 0.9 * flat(getattr(start, target)) + 0.1 * flat(getattr(end, online))
        np.testing.assert_allclose(flat(getattr(end, target)), expected, atol=1e-6)


def test_critics_start_apart_and_targets_average_once_a_cycle():
    learn = learner(target_rate=0.05, target_period="cycle")
    state = learn.init(jax.random.key(0))
    assert not np.array_equal(flat(one(state.critics, 0)), flat(one(state.critics, 1)))
    np.testing.assert_array_equal(flat(state.target_critics), flat(state.critics))
    moved = state.replace(critics=jax.tree.map(lambda x: x + 1.0, state.critics))
    np.testing.assert_allclose(flat(learn.end_cycle(moved).target_critics) - flat(state.critics), 0.05, atol=1e-6)


def test_td_errors_are_the_mean_distances_of_both_critics_from_the_lower_target(batch):
    """There is no noise on the target action, and numpy computes the same."""
    learn = learner()
    state = learn.init(jax.random.key(1))
    lower = lambda p: jax.tree.map(lambda x: x - 2.0 if x.shape == (2, 1) else x, p)  # noqa: E731, last biases
    state = state.replace(critics=lower(state.critics), target_critics=lower(learn.init(jax.random.key(2)).critics))
    action = np.tanh(forward(state.target_actor, batch.next_inputs))
    next_q = np.minimum(*(q(one(state.target_critics, k), batch.next_inputs, action) for k in (0, 1)))
    y = np.clip(np.asarray(batch.reward) + DISCOUNT * next_q, -1 / (1 - DISCOUNT), 0)
    expected = np.mean([np.abs(q(one(state.critics, k), batch.inputs, batch.action) - y) for k in (0, 1)], axis=0)
    np.testing.assert_allclose(learn.td_error(state, batch), expected, rtol=1e-4)
