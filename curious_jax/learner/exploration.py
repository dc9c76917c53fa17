"""Explores: adds noise to the actions of training episodes, and replaces some by uniform random ones.

Random actions may last for several steps (temporally extended ε-greedy, Dabney et al. 2021). So may random commands of
the gripper alone, which is told to close or to open for a while: an object is lifted only by fingers that stay closed.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from curious_jax.config import ExplorationConfig

STREAM = 0xE9  # folded into keys, so that a run without random actions that last draws the same numbers
GRIPPER = 0x69  # the same for the gripper's


class Lasting(NamedTuple):
    """Random commands under way in E environments."""

    command: jax.Array  # [E, A], or [E] for the gripper's alone
    on: jax.Array  # [E] bool


class Underway(NamedTuple):
    """Commands that last beyond a step; None where none do."""

    action: Lasting | None
    gripper: Lasting | None


def explore(key: jax.Array, action: jax.Array, config: ExplorationConfig) -> jax.Array:
    """Adds Gaussian noise to actions [E, A], or draws uniform ones instead, as the authors' program does."""
    noisy, uniform, drawn = _draw(key, action, config, config.random_action)
    return jnp.where(drawn[..., None], uniform, noisy)


def begin(key: jax.Array, num_envs: int, action_size: int, config: ExplorationConfig) -> Underway:
    """Draws the random commands that are under way when episodes start."""
    action = gripper = None
    if config.random_steps > 1:
        none = jnp.zeros((num_envs, action_size))
        action = Lasting(*_draw(jax.random.fold_in(key, STREAM), none, config, config.random_action)[1:])
    if config.random_gripper:
        gripper = Lasting(*_draw_gripper(jax.random.fold_in(key, GRIPPER), num_envs, config.random_gripper))
    return Underway(action, gripper)


def explore_lasting(
    key: jax.Array, action: jax.Array, underway: Underway, config: ExplorationConfig
) -> tuple[jax.Array, Underway]:
    """Explores as `explore` does, with random commands that last as many steps on average as the settings say.

    In the long run the shares of random actions and of random commands of the gripper are `random_action` and
    `random_gripper`, however long they last.

    Args:
      action: [E, A], the policy's; the last number is the gripper's.
    Returns:
      (the actions [E, A] to take, the random commands now under way).
    """
    going, gripping = underway
    if going is None:
        explored = explore(key, action, config)
    else:
        begins = _begins(config.random_action, config.random_steps)
        noisy, uniform, again = _draw(key, action, config, begins)
        going = _go_on(jax.random.fold_in(key, STREAM), going, uniform, again, config.random_steps)
        explored = jnp.where(going.on[:, None], going.command, noisy)
    if gripping is not None:
        key_draw, key_end = jax.random.split(jax.random.fold_in(key, GRIPPER))
        begins = _begins(config.random_gripper, config.random_gripper_steps)
        drawn, again = _draw_gripper(key_draw, action.shape[0], begins)
        gripping = _go_on(key_end, gripping, drawn, again, config.random_gripper_steps)
        explored = explored.at[:, -1].set(jnp.where(gripping.on, gripping.command, explored[:, -1]))
    return explored, Underway(going, gripping)


def _begins(share: float, steps: float) -> float:
    """The probability that a command begins where none is under way, which keeps their share as it is."""
    return share / (share + (1.0 - share) * steps) if share else 0.0


def _go_on(key: jax.Array, lasting: Lasting, drawn: jax.Array, again: jax.Array, steps: float) -> Lasting:
    """Ends commands after `steps` steps on average; elsewhere what was drawn begins, where `again` [E] says so."""
    chex.assert_equal_shape((lasting.command, drawn))
    ends = jax.random.bernoulli(key, 1.0 / steps, lasting.on.shape)
    stays = lasting.on & ~ends
    kept = jnp.where(jnp.expand_dims(stays, range(1, drawn.ndim)), lasting.command, drawn)
    return Lasting(kept, stays | again)


def _draw_gripper(key: jax.Array, num_envs: int, probability: float) -> tuple[jax.Array, jax.Array]:
    """Draws (commands [E] to close or to open all the way, whether one is taken [E])."""
    key_side, key_flag = jax.random.split(key)
    side = jax.random.rademacher(key_side, (num_envs,), jnp.float32)
    return side, jax.random.bernoulli(key_flag, probability, (num_envs,))


def _draw(
    key: jax.Array, action: jax.Array, config: ExplorationConfig, probability: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws (noisy actions [E, A], uniform ones [E, A], whether a uniform one is taken [E])."""
    key_noise, key_uniform, key_flag = jax.random.split(key, 3)
    noisy = jnp.clip(action + config.noise * jax.random.normal(key_noise, action.shape), -1.0, 1.0)
    uniform = jax.random.uniform(key_uniform, action.shape, minval=-1.0, maxval=1.0)
    flag = jax.random.bernoulli(key_flag, probability, action.shape[:-1])
    return noisy, uniform, flag
