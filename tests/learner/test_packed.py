"""The update with all weights in one matrix, against ddpg.py's own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax.config import DDPGConfig, NetworkConfig
from curious_jax.learner import ddpg, packed, trainer
from curious_jax.learner.state import setup
from curious_jax.types import LearnerBatch

INPUTS, ACTIONS = 13, 4
SETTINGS = [
    (NetworkConfig(hidden_size=16, hidden_layers=3), DDPGConfig(packed=True), 32),
    (NetworkConfig(hidden_size=16, hidden_layers=2), DDPGConfig(packed=True, actor_lr=2e-3, action_l2=0.3), 30),
    (NetworkConfig(hidden_size=4, hidden_layers=1), DDPGConfig(packed=True, target_period="cycle"), 7),
]


def make_batch(size, seed=0):
    keys = jax.random.split(jax.random.key(seed), 4)
    return LearnerBatch(
        inputs=jax.random.normal(keys[0], (size, INPUTS)),
        action=jnp.tanh(jax.random.normal(keys[1], (size, ACTIONS))),
        reward=-jax.random.bernoulli(keys[2], 0.5, (size,)).astype(jnp.float32),
        next_inputs=jax.random.normal(keys[3], (size, INPUTS)),
    )


def assert_close(one, other, tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance), one, other)


@pytest.mark.parametrize("network, config, size", SETTINGS)
def test_updates_are_the_plain_formula_s(network, config, size):
    learner = ddpg.make(network, config, INPUTS, ACTIONS)
    state, arrangement = learner.init(jax.random.key(0)), learner.arrangement
    plain, arranged = state, arrangement.pack(state)
    losses, corrections = [], arrangement.corrections(state, 3)
    update, update_arranged = jax.jit(learner.update), jax.jit(arrangement.update)
    for number in range(3):
        batch = make_batch(size, number)
        plain, found = update(plain, batch)
        arranged = update_arranged(arranged, batch, corrections[number])
        losses.append(found)
        if number == 0:
            assert_close(arrangement.unpack(arranged, state, 1)[0], plain, 1e-6)
    unpacked, means = arrangement.unpack(arranged, state, 3)
    assert_close(unpacked, plain, 2e-6)
    assert_close(means, {name: np.mean([found[name] for found in losses]) for name in packed.LOSSES}, 2e-6)


@pytest.mark.parametrize("network, config, size", SETTINGS)
def test_packing_and_unpacking_changes_nothing(network, config, size):
    learner = ddpg.make(network, config, INPUTS, ACTIONS)
    state = learner.init(jax.random.key(1))
    unpacked, _ = learner.arrangement.unpack(learner.arrangement.pack(state), state, 0)
    jax.tree.map(np.testing.assert_array_equal, unpacked, state)


def test_networks_that_cannot_be_packed_are_updated_as_before():
    config = DDPGConfig(packed=True)
    for network in (NetworkConfig(critic_layer_norm=True), NetworkConfig(hidden_size=3)):
        assert ddpg.make(network, config, INPUTS, ACTIONS).arrangement is None
    assert ddpg.make(NetworkConfig(), DDPGConfig(), INPUTS, ACTIONS).arrangement is None
    assert make_run(tiny_config(learner="td3", packed=True)).learner.arrangement is None


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"num_seeds": 2}, {"algorithm": "mgme", "expert_epoch": 8}])
def test_cycles_are_the_same_but_for_the_order_of_sums(settings):
    states, losses = [], []
    for choice in (False, True):
        run = make_run(tiny_config(packed=choice, updates_per_cycle=3, **settings))
        state, total = jax.jit(
            lambda state, run=run: trainer.train_epoch(run, state, trainer.no_metrics(run.config), 2)
        )(trainer.init(run.config, run.env))
        states.append(state)
        losses.append((total.critic_loss, total.actor_loss, total.q_mean))
    assert_close(states[0].learner.actor, states[1].learner.actor, 1e-5)
    assert_close(losses[0], losses[1], 1e-4)


def test_several_devices_update_as_before(monkeypatch):
    config = dataclasses.replace(tiny_config(packed=True), devices=2)
    run = make_run(tiny_config(packed=True))
    assert run.learner.arrangement is not None
    assert setup(config, run.env).learner.arrangement is None


def test_corrections_go_on_from_the_updates_made_so_far():
    network, config, _ = SETTINGS[-1]
    learner = ddpg.make(network, config, INPUTS, ACTIONS)
    state = learner.init(jax.random.key(0))
    moments, *rest = state.critic_opt
    state = state.replace(critic_opt=(moments._replace(count=jnp.int32(3)), *rest))  # the next are the 4th and 5th
    expected = [[1 - 0.9**4, 1 - 0.999**4], [1 - 0.9**5, 1 - 0.999**5]]
    np.testing.assert_allclose(learner.arrangement.corrections(state, 2), expected, rtol=1e-4)
