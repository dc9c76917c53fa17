"""Updates actor and critic by DDPG (Lillicrap et al. 2015), with the settings of the authors' program."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from curious_jax.config import DDPGConfig, NetworkConfig
from curious_jax.learner import networks, packed
from curious_jax.types import Learner, LearnerBatch


@struct.dataclass
class DDPGState:
    """Parameters, their slow copies, and Adam's moments."""

    actor: Any
    critic: Any
    target_actor: Any
    target_critic: Any
    actor_opt: Any
    critic_opt: Any


def target_value(reward: jax.Array, next_q: jax.Array, discount: float) -> jax.Array:
    """Computes y = clip(r + γ Q'(s', π'(s')), -1/(1-γ), 0): no terminal flag, the time limit bootstraps."""
    return jnp.clip(reward + discount * next_q, -1.0 / (1.0 - discount), 0.0)


def average(target: Any, online: Any, rate: float) -> Any:
    """Moves a target: target ← (1 - rate)·target + rate·online."""
    return optax.incremental_update(online, target, rate)


def make(network: NetworkConfig, config: DDPGConfig, input_size: int, action_size: int) -> Learner:
    """Makes the DDPG learner for inputs [I] and actions [A]."""
    actor, critic = networks.make(network, action_size)
    actor_adam, critic_adam = optax.adam(config.actor_lr), optax.adam(config.critic_lr)

    def init(key: jax.Array) -> DDPGState:
        key_actor, key_critic = jax.random.split(key)
        inputs, action = jnp.zeros(input_size), jnp.zeros(action_size)
        actor_params, critic_params = actor.init(key_actor, inputs), critic.init(key_critic, inputs, action)
        return DDPGState(
            actor=actor_params,
            critic=critic_params,
            target_actor=jax.tree.map(jnp.copy, actor_params),
            target_critic=jax.tree.map(jnp.copy, critic_params),
            actor_opt=actor_adam.init(actor_params),
            critic_opt=critic_adam.init(critic_params),
        )

    def act(actor_params: Any, inputs: jax.Array) -> jax.Array:
        return actor.apply(actor_params, inputs)

    def critic_loss(params: Any, state: DDPGState, batch: LearnerBatch) -> tuple[jax.Array, jax.Array]:
        """Computes L(φ) = E[(Q(s, a) - y)²], and the mean Q."""
        next_action = actor.apply(state.target_actor, batch.next_inputs)
        next_q = critic.apply(state.target_critic, batch.next_inputs, next_action)
        y = jax.lax.stop_gradient(target_value(batch.reward, next_q, config.discount))
        q = critic.apply(params, batch.inputs, batch.action)
        return jnp.mean(jnp.square(q - y)), q.mean()

    def actor_loss(params: Any, state: DDPGState, batch: LearnerBatch) -> jax.Array:
        """Computes E[-Q(s, π(s))] + λ·mean(π(s)²)."""
        action = actor.apply(params, batch.inputs)
        q = critic.apply(state.critic, batch.inputs, action)
        return -q.mean() + config.action_l2 * jnp.mean(jnp.square(action))

    def update(state: DDPGState, batch: LearnerBatch) -> tuple[DDPGState, dict[str, jax.Array]]:
        (c_loss, q_mean), c_grad = jax.value_and_grad(critic_loss, has_aux=True)(state.critic, state, batch)
        a_loss, a_grad = jax.value_and_grad(actor_loss)(state.actor, state, batch)
        c_step, critic_opt = critic_adam.update(c_grad, state.critic_opt, state.critic)
        a_step, actor_opt = actor_adam.update(a_grad, state.actor_opt, state.actor)
        state = state.replace(
            actor=optax.apply_updates(state.actor, a_step),
            critic=optax.apply_updates(state.critic, c_step),
            actor_opt=actor_opt,
            critic_opt=critic_opt,
        )
        if config.target_period == "update":
            state = average_targets(state)
        return state, {"critic_loss": c_loss, "actor_loss": a_loss, "q_mean": q_mean}

    def td_error(state: DDPGState, batch: LearnerBatch) -> jax.Array:
        next_q = critic.apply(
            state.target_critic, batch.next_inputs, actor.apply(state.target_actor, batch.next_inputs)
        )
        y = target_value(batch.reward, next_q, config.discount)
        return jnp.abs(critic.apply(state.critic, batch.inputs, batch.action) - y)

    def average_targets(state: DDPGState) -> DDPGState:
        return state.replace(
            target_actor=average(state.target_actor, state.actor, config.target_rate),
            target_critic=average(state.target_critic, state.critic, config.target_rate),
        )

    def end_cycle(state: DDPGState) -> DDPGState:
        return average_targets(state) if config.target_period == "cycle" else state

    possible = config.packed and packed.is_possible(network, action_size)
    arrangement = packed.make(network, config, input_size, action_size) if possible else None
    return Learner(init, act, update, end_cycle, td_error, arrangement)
