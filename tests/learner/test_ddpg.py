"""DDPG's target, one gradient step against finite differences in double precision, and the target averages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import ACTIONS, INPUTS, NETWORK, adam, finite_differences, forward
from jax.flatten_util import ravel_pytree

from curious_jax.config import DDPGConfig
from curious_jax.learner import ddpg


@pytest.mark.parametrize(
    ("reward", "next_q", "target"),
    [
        (-1.0, -3.0, -3.94),  # -1 + 0.98·(-3)
        (-1.0, -60.0, -50.0),  # clipped at -1/(1 - 0.98)
        (0.0, 5.0, 0.0),  # clipped at 0
        (0.0, -3.0, -2.94),  # solved, and the time limit bootstraps all the same
        (-1.0, 0.0, -1.0),
        (-1.0, -50.0, -50.0),
    ],
)
def test_target(reward, next_q, target):
    assert float(ddpg.target_value(jnp.float32(reward), jnp.float32(next_q), 0.98)) == pytest.approx(target, abs=1e-4)


def test_the_clip_follows_the_discount():
    assert float(ddpg.target_value(jnp.float32(-1), jnp.float32(-60), 0.9)) == pytest.approx(-10.0, abs=1e-4)


def learner(**settings):
    return ddpg.make(NETWORK, DDPGConfig(**settings), INPUTS, ACTIONS)


@pytest.fixture(scope="module")
def start():
    """A state whose target networks differ from the online ones, far enough from 0 for the clip not to matter."""
    one, other = (learner().init(jax.random.key(k)) for k in (1, 2))
    lower = lambda p: jax.tree.map(lambda x: x - 2.0 if x.shape == (1,) else x, p)  # noqa: E731, the critic's last bias
    return one.replace(critic=lower(one.critic), target_actor=other.actor, target_critic=lower(other.critic))


def numpy_losses(state, batch, discount, action_l2):
    """The losses of flat critic and actor parameters, in numpy."""
    critic_shape, actor_shape = ravel_pytree(state.critic)[1], ravel_pytree(state.actor)[1]
    actor = lambda p, x: np.tanh(forward(p, x))  # noqa: E731
    q = lambda p, x, a: forward(p, np.concatenate([x, a], axis=1))[:, 0]  # noqa: E731
    next_q = q(state.target_critic, batch.next_inputs, actor(state.target_actor, batch.next_inputs))
    y = np.clip(np.asarray(batch.reward) + discount * next_q, -1 / (1 - discount), 0)

    def critic_loss(flat):
        return np.mean((q(critic_shape(flat), batch.inputs, batch.action) - y) ** 2)

    def actor_loss(flat):
        action = actor(actor_shape(flat), batch.inputs)
        return -q(state.critic, batch.inputs, action).mean() + action_l2 * np.mean(action**2)

    return critic_loss, actor_loss


def test_two_updates_against_finite_differences(batch, start):
    """Two, because Adam's first step shows the gradient's sign alone."""
    learn = learner(actor_lr=3e-2, critic_lr=1e-2, discount=0.9, action_l2=0.5)
    update = jax.jit(learn.update)
    state, gradients = start, {"critic": [], "actor": []}
    for _ in range(2):
        losses = dict(zip(gradients, numpy_losses(state, batch, 0.9, 0.5), strict=True))
        flat = {name: np.asarray(ravel_pytree(getattr(state, name))[0], np.float64) for name in gradients}
        for name, loss in losses.items():
            gradients[name].append(finite_differences(loss, flat[name]))
        state, got = update(state, batch)
        for name, loss in losses.items():
            assert float(got[f"{name}_loss"]) == pytest.approx(loss(flat[name]), rel=1e-4)
    for name, lr in [("critic", 1e-2), ("actor", 3e-2)]:
        moved = np.asarray(ravel_pytree(getattr(state, name))[0] - ravel_pytree(getattr(start, name))[0])
        np.testing.assert_allclose(moved, adam(gradients[name], lr), atol=1e-4)
        assert np.abs(moved).max() > lr  # it did move


def test_targets_average_after_every_update(batch, start):
    learn = learner(target_rate=0.02, target_period="update")
    state, _ = jax.jit(learn.update)(start, batch)
    for target, online in [("target_actor", "actor"), ("target_critic", "critic")]:
        expected = jax.tree.map(lambda t, o: 0.98 * t + 0.02 * o, getattr(start, target), getattr(state, online))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), getattr(state, target), expected)
    assert learn.end_cycle(state) is state


def test_targets_average_once_a_cycle(batch, start):
    learn = learner(target_rate=0.05, target_period="cycle")
    state, _ = jax.jit(learn.update)(start, batch)
    jax.tree.map(np.testing.assert_array_equal, state.target_critic, start.target_critic)
    jax.tree.map(np.testing.assert_array_equal, state.target_actor, start.target_actor)
    ended = learn.end_cycle(state)
    for target, online in [("target_actor", "actor"), ("target_critic", "critic")]:
        expected = jax.tree.map(lambda t, o: 0.95 * t + 0.05 * o, getattr(state, target), getattr(state, online))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), getattr(ended, target), expected)


def test_targets_start_as_copies_and_seeds_differ():
    state = learner().init(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, state.target_actor, state.actor)
    jax.tree.map(np.testing.assert_array_equal, state.target_critic, state.critic)
    other = ravel_pytree(learner().init(jax.random.key(1)).critic)[0]
    assert not np.array_equal(other, ravel_pytree(state.critic)[0])


def test_td_errors_are_the_distances_from_the_target(batch, start):
    """The target networks say what the next state is worth, as numpy computes it."""
    actor = np.tanh(forward(start.target_actor, batch.next_inputs))
    next_q = forward(start.target_critic, np.concatenate([batch.next_inputs, actor], axis=1))[:, 0]
    y = np.clip(np.asarray(batch.reward) + 0.9 * next_q, -10.0, 0.0)
    q = forward(start.critic, np.concatenate([batch.inputs, batch.action], axis=1))[:, 0]
    np.testing.assert_allclose(learner(discount=0.9).td_error(start, batch), np.abs(q - y), rtol=1e-4)
