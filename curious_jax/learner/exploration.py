"""Explores: adds noise to the actions of training episodes, and replaces some by uniform random ones.

Random actions may last for several steps (temporally extended ε-greedy, Dabney et al. 2021).
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from curious_jax.config import ExplorationConfig

STREAM = 0xE9  # folded into keys, so that a run whose random actions last one step draws the same numbers


class Lasting(NamedTuple):
    """Random actions under way in E environments."""

    action: jax.Array  # [E, A]
    on: jax.Array  # [E] bool


def explore(key: jax.Array, action: jax.Array, config: ExplorationConfig) -> jax.Array:
    """Adds Gaussian noise to actions [E, A], or draws uniform ones instead, as the authors' program does."""
    noisy, uniform, drawn = _draw(key, action, config, config.random_action)
    return jnp.where(drawn[..., None], uniform, noisy)


def begin(key: jax.Array, num_envs: int, action_size: int, config: ExplorationConfig) -> Lasting | None:
    """Draws the random actions that are under way when episodes start; None where they last one step."""
    if config.random_steps == 1:
        return None
    key, none = jax.random.fold_in(key, STREAM), jnp.zeros((num_envs, action_size))
    _, uniform, drawn = _draw(key, none, config, config.random_action)
    return Lasting(uniform, drawn)


def explore_lasting(
    key: jax.Array, action: jax.Array, lasting: Lasting | None, config: ExplorationConfig
) -> tuple[jax.Array, Lasting | None]:
    """Explores as `explore` does, but with random actions that last `random_steps` steps on average.

    In the long run the share of random actions is `random_action`, however long they last.

    Args:
      action: [E, A], the policy's.
      lasting: those under way; None where they last one step.
    Returns:
      (the actions [E, A] to take, the random actions now under way).
    """
    if lasting is None:
        return explore(key, action, config), None
    chex.assert_equal_shape((action, lasting.action))
    share = config.random_action
    begins = share / (share + (1.0 - share) * config.random_steps) if share else 0.0  # which keeps the share as it is
    noisy, uniform, again = _draw(key, action, config, begins)
    ends = jax.random.bernoulli(jax.random.fold_in(key, STREAM), 1.0 / config.random_steps, lasting.on.shape)
    stays = lasting.on & ~ends  # elsewhere a random action may begin
    on = stays | again
    kept = jnp.where(stays[:, None], lasting.action, uniform)
    return jnp.where(on[:, None], kept, noisy), Lasting(kept, on)


def _draw(
    key: jax.Array, action: jax.Array, config: ExplorationConfig, probability: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws (noisy actions [E, A], uniform ones [E, A], whether a uniform one is taken [E])."""
    key_noise, key_uniform, key_flag = jax.random.split(key, 3)
    noisy = jnp.clip(action + config.noise * jax.random.normal(key_noise, action.shape), -1.0, 1.0)
    uniform = jax.random.uniform(key_uniform, action.shape, minval=-1.0, maxval=1.0)
    flag = jax.random.bernoulli(key_flag, probability, action.shape[:-1])
    return noisy, uniform, flag
