"""Actor and critic against the same layers written in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers.learners import forward, layers

from curious_jax.config import NetworkConfig
from curious_jax.learner import networks


def test_actor_and_critic():
    actor, critic = networks.make(NetworkConfig(hidden_size=16, hidden_layers=2), 3)
    key = jax.random.key(0)
    x, a = jax.random.normal(jax.random.key(1), (5, 4)), jax.random.normal(jax.random.key(2), (5, 3))
    actor_params, critic_params = actor.init(key, x), critic.init(key, x, a)
    np.testing.assert_allclose(actor.apply(actor_params, x), np.tanh(forward(actor_params, x)), atol=1e-5)
    q = critic.apply(critic_params, x, a)
    assert q.shape == (5,)
    np.testing.assert_allclose(q, forward(critic_params, np.concatenate([x, a], 1))[:, 0], atol=1e-5)
    # One element as its batch.
    np.testing.assert_allclose(critic.apply(critic_params, x[0], a[0]), q[0], atol=1e-6)


def test_sizes_and_xavier_start():
    actor, critic = networks.make(NetworkConfig(hidden_size=256, hidden_layers=3), 4)
    params = critic.init(jax.random.key(0), jnp.zeros(50), jnp.zeros(4))
    shapes = [kernel.shape for kernel, _ in layers(params)]
    assert shapes == [(54, 256), (256, 256), (256, 256), (256, 1)]
    assert [kernel.shape for kernel, _ in layers(actor.init(jax.random.key(0), jnp.zeros(50)))][-1] == (256, 4)
    for kernel, bias in layers(params):
        limit = np.sqrt(6 / sum(kernel.shape))  # Glorot and Bengio 2010, uniform
        assert 0.95 * limit < np.abs(kernel).max() <= limit
        assert abs(kernel.std() - limit / np.sqrt(3)) < 0.1 * limit
        assert (bias == 0).all()


def test_actions_stay_between_minus_one_and_one():
    actor, _ = networks.make(NetworkConfig(hidden_size=8, hidden_layers=1), 2)
    params = actor.init(jax.random.key(0), jnp.zeros(3))
    action = actor.apply(params, 1e3 * jax.random.normal(jax.random.key(1), (100, 3)))
    assert np.abs(action).max() <= 1.0
    assert np.abs(action).max() > 0.99


def test_each_network_has_its_own_choice_of_layer_normalisation():
    """Each layer is brought to mean 0 and variance 1 before its ReLU, which leaves about half of it."""
    key, x, a = jax.random.key(0), jax.random.normal(jax.random.key(1), (5, 4)), jnp.zeros((5, 3))
    for chosen in ({"actor_layer_norm": True}, {"critic_layer_norm": True}):
        actor, critic = networks.make(NetworkConfig(hidden_size=16, hidden_layers=1, **chosen), 3)
        params = {"actor_layer_norm": actor.init(key, x), "critic_layer_norm": critic.init(key, x, a)}
        assert {name for name, held in params.items() if "LayerNorm_0" in held["params"]["MLP_0"]} == set(chosen)
        if "actor_layer_norm" in chosen:
            held = params["actor_layer_norm"]["params"]["MLP_0"]
            hidden = np.asarray(x) @ np.asarray(held["Dense_0"]["kernel"])
            hidden = (hidden - hidden.mean(axis=1, keepdims=True)) / hidden.std(axis=1, keepdims=True)
            expected = np.tanh(np.maximum(hidden, 0) @ np.asarray(held["Dense_1"]["kernel"]))
            np.testing.assert_allclose(actor.apply(params["actor_layer_norm"], x), expected, atol=1e-4)
