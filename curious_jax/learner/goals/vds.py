"""Proposes goals that value functions disagree about (VDS, Zhang, Abbeel and Pinto, NeurIPS 2020, arXiv 2006.09641).

Of uniform goals one is kept in proportion to the standard deviation over an ensemble of Q(s0, g, π(s0, g)), s0 being
the episode's first observation. The ensemble is trained beside the learner, on the learner's batches and its policy:
y = clip(r + γ Q'(s', π(s')), -1/(1-γ), 0), with a slow copy Q' of each member.

Differences from the source: the ensemble learns from the learner's batches, with hindsight and with modules replayed
by their shares, where the source's learns without hindsight; 32 candidates instead of 1,000; the members are small,
take an eighth of the learner's updates, and share a batch, from which each draws its own rows with replacement, so
that more than their first weights tells them apart.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner import ddpg, networks
from curious_jax.learner.estimators.protocol import Results
from curious_jax.learner.goals import protocol
from curious_jax.learner.goals.protocol import Batches, Sampler, View
from curious_jax.types import ModuleTable

MEMBERS = 3  # K
HIDDEN = (64, 64)
SHARE_OF_UPDATES = 8  # the learner's updates for one of the ensemble's
STEP_SIZE = 1e-3  # of Adam
TARGET_RATE = 0.05  # per update
UNIFORM_SHARE = 0.0  # as in the source

_CRITIC = networks.Critic(HIDDEN)
_ADAM = optax.adam(STEP_SIZE)


@struct.dataclass
class EnsembleState:
    """Parameters, slow copies and Adam's moments of K critics."""

    params: Any  # [K, ...]
    target: Any  # [K, ...]
    moments: Any  # [K, ...]
    trained: jax.Array  # [] bool, whether there was something to learn from


def evaluate(params: Any, inputs: jax.Array, action: jax.Array) -> jax.Array:
    """Computes each member's Q: [K, ...], [..., I], [..., A] -> [K, ...]."""
    return jax.vmap(_CRITIC.apply, (0, None, None))(params, inputs, action)


def disagreement(params: Any, inputs: jax.Array, action: jax.Array) -> jax.Array:
    """Computes the standard deviation of Q over the ensemble: [K, ...], [..., I], [..., A] -> [...]."""
    return evaluate(params, inputs, action).std(axis=0)


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler:
    """Makes the sampler."""
    updates = max(1, config.schedule.updates_per_cycle // SHARE_OF_UPDATES)
    discount = config.ddpg.discount

    def init(key: jax.Array) -> EnsembleState:
        start = lambda key: _CRITIC.init(key, jnp.zeros(input_size), jnp.zeros(action_size))  # noqa: E731
        params = jax.vmap(start)(jax.random.split(key, MEMBERS))
        target = jax.tree.map(jnp.copy, params)
        return EnsembleState(params, target, jax.vmap(_ADAM.init)(params), jnp.array(False))

    def update(state: EnsembleState, results: Results) -> EnsembleState:
        return state.replace(trained=state.trained | results.valid.any())

    def step(state: EnsembleState, key: jax.Array, draw: Batches, view: View) -> EnsembleState:
        """Makes one gradient step of all members."""
        key_batch, key_rows = jax.random.split(key)
        batch = draw(key_batch)
        number = batch.reward.shape[0]
        next_q = evaluate(state.target, batch.next_inputs, view.act(batch.next_inputs))  # [K, B]
        y = jax.lax.stop_gradient(ddpg.target_value(batch.reward, next_q, discount))
        rows = jax.random.randint(key_rows, (MEMBERS, number), 0, number)

        def loss(params: Any, y: jax.Array, rows: jax.Array) -> jax.Array:
            q: Any = _CRITIC.apply(params, batch.inputs[rows], batch.action[rows])
            return jnp.square(q - y[rows]).mean()

        gradient = jax.vmap(jax.grad(loss))(state.params, y, rows)
        change, moments = jax.vmap(_ADAM.update)(gradient, state.moments)
        params = optax.apply_updates(state.params, change)
        target = ddpg.average(state.target, params, TARGET_RATE)
        return state.replace(params=params, target=target, moments=moments)

    def learn(state: EnsembleState, key: jax.Array, draw: Batches, view: View) -> EnsembleState:
        body = lambda held, key: (step(held, key, draw, view), None)  # noqa: E731
        learned, _ = jax.lax.scan(body, state, jax.random.split(key, updates))
        return jax.tree.map(lambda new, old: jnp.where(state.trained, new, old), learned, state)

    def propose(state: EnsembleState, key: jax.Array, module: jax.Array, obs: jax.Array, view: View) -> jax.Array:
        key_candidates, key_choice = jax.random.split(key)
        candidates = protocol.draw_candidates(modules, key_candidates, module, obs)
        shown = jnp.broadcast_to(obs[:, None], (*candidates.module.shape, obs.shape[1]))
        inputs, action = view(shown, candidates.now, candidates.module)
        weights = jnp.where(state.trained, disagreement(state.params, inputs, action), 0.0)
        return protocol.choose(key_choice, candidates.goal, weights, UNIFORM_SHARE)

    return Sampler(init, propose, update, learn)
