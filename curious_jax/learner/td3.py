"""Updates by TD3 (Fujimoto et al. 2018) in DDPG's place: twin critics, a smoothed target policy, a delayed actor.

What it shares with DDPG (Adam, discount, clipped target, action penalty, target averages) is set in DDPGConfig.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from curious_jax.config import DDPGConfig, NetworkConfig, TD3Config
from curious_jax.learner import networks
from curious_jax.learner.ddpg import average, target_value
from curious_jax.types import Learner, LearnerBatch


@struct.dataclass
class TD3State:
    """Parameters, their slow copies, and Adam's moments; the critics' leaves have a leading axis of two."""

    actor: Any
    critics: Any
    target_actor: Any
    target_critics: Any
    actor_opt: Any
    critic_opt: Any
    key: jax.Array  # of the target noise
    updates: jax.Array  # [] int32, of the critics
    actor_loss: jax.Array  # [], of the actor's last update


def smooth(action: jax.Array, noise: jax.Array, config: TD3Config) -> jax.Array:
    """Adds clipped noise to a target action [..., A]: clip(π'(s') + clip(σ·noise, -c, c), -1, 1)."""
    noise = jnp.clip(config.target_noise * noise, -config.target_noise_clip, config.target_noise_clip)
    return jnp.clip(action + noise, -1.0, 1.0)


def make(network: NetworkConfig, config: DDPGConfig, td3: TD3Config, input_size: int, action_size: int) -> Learner:
    """Makes the TD3 learner for inputs [I] and actions [A]."""
    actor, critic = networks.make(network, action_size)
    actor_adam, critic_adam = optax.adam(config.actor_lr), optax.adam(config.critic_lr)
    both = jax.vmap(critic.apply, (0, None, None))  # critics, [B, I], [B, A] -> [2, B]

    def init(key: jax.Array) -> TD3State:
        key_actor, key_critics, key_noise = jax.random.split(key, 3)
        inputs, action = jnp.zeros(input_size), jnp.zeros(action_size)
        actor_params = actor.init(key_actor, inputs)
        critics = jax.vmap(critic.init, (0, None, None))(jax.random.split(key_critics), inputs, action)
        return TD3State(
            actor=actor_params,
            critics=critics,
            target_actor=jax.tree.map(jnp.copy, actor_params),
            target_critics=jax.tree.map(jnp.copy, critics),
            actor_opt=actor_adam.init(actor_params),
            critic_opt=critic_adam.init(critics),
            key=key_noise,
            updates=jnp.zeros((), jnp.int32),
            actor_loss=jnp.zeros(()),
        )

    def act(actor_params: Any, inputs: jax.Array) -> jax.Array:
        return actor.apply(actor_params, inputs)

    def critic_loss(params: Any, state: TD3State, batch: LearnerBatch, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Computes E[(Q1(s, a) - y)² + (Q2(s, a) - y)²] with y from min(Q1', Q2'), and the mean Q."""
        next_action = smooth(actor.apply(state.target_actor, batch.next_inputs), noise, td3)
        next_q = both(state.target_critics, batch.next_inputs, next_action).min(axis=0)
        y = jax.lax.stop_gradient(target_value(batch.reward, next_q, config.discount))
        q = both(params, batch.inputs, batch.action)  # [2, B]
        return jnp.square(q - y).mean(axis=1).sum(), q.mean()

    def actor_loss(params: Any, state: TD3State, batch: LearnerBatch) -> jax.Array:
        """Computes E[-Q1(s, π(s))] + λ·mean(π(s)²)."""
        action = actor.apply(params, batch.inputs)
        first = jax.tree.map(lambda leaf: leaf[0], state.critics)
        return -critic.apply(first, batch.inputs, action).mean() + config.action_l2 * jnp.mean(jnp.square(action))

    def update_actor(state: TD3State, batch: LearnerBatch) -> TD3State:
        loss, gradient = jax.value_and_grad(actor_loss)(state.actor, state, batch)
        step, actor_opt = actor_adam.update(gradient, state.actor_opt, state.actor)
        state = state.replace(actor=optax.apply_updates(state.actor, step), actor_opt=actor_opt, actor_loss=loss)
        return average_targets(state) if config.target_period == "update" else state

    def update(state: TD3State, batch: LearnerBatch) -> tuple[TD3State, dict[str, jax.Array]]:
        """Steps the critics; at every `policy_delay`-th step also the actor, on the new critics, and the targets."""
        key, key_noise = jax.random.split(state.key)
        noise = jax.random.normal(key_noise, batch.action.shape)
        (loss, q_mean), gradient = jax.value_and_grad(critic_loss, has_aux=True)(state.critics, state, batch, noise)
        step, critic_opt = critic_adam.update(gradient, state.critic_opt, state.critics)
        state = state.replace(
            critics=optax.apply_updates(state.critics, step), critic_opt=critic_opt, key=key, updates=state.updates + 1
        )
        due = state.updates % td3.policy_delay == 0
        state = jax.lax.cond(due, update_actor, lambda state, batch: state, state, batch)
        return state, {"critic_loss": loss, "actor_loss": state.actor_loss, "q_mean": q_mean}

    def td_error(state: TD3State, batch: LearnerBatch) -> jax.Array:
        next_action = actor.apply(state.target_actor, batch.next_inputs)
        next_q = both(state.target_critics, batch.next_inputs, next_action).min(axis=0)
        y = target_value(batch.reward, next_q, config.discount)
        return jnp.abs(both(state.critics, batch.inputs, batch.action) - y).mean(axis=0)

    def average_targets(state: TD3State) -> TD3State:
        return state.replace(
            target_actor=average(state.target_actor, state.actor, config.target_rate),
            target_critics=average(state.target_critics, state.critics, config.target_rate),
        )

    def end_cycle(state: TD3State) -> TD3State:
        return average_targets(state) if config.target_period == "cycle" else state

    return Learner(init, act, update, end_cycle, td_error)
