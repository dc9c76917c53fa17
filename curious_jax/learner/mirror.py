"""Mirrors replayed transitions in the world's plane of symmetry (invariant transform replay, arXiv 1909.10707).

Each transition of a batch is replaced by its mirror image with probability 0.5: observations, action and goal. The
reward is computed of the image, as a module of the user's own may tell left from right. The arm is mirrored in the
vertical plane through its gripper at the start. It is no perfect mirror (its joints bend to one side), so this is an
approximation; docs/algorithm.md says how good.
"""

import chex
import jax
import jax.numpy as jnp

from curious_jax.errors import ConfigError
from curious_jax.types import Env, Transition

PROBABILITY = 0.5
STREAM = 0x3152  # folded into the key of substitution, so that a run without mirror images draws the same numbers


def reflect(env: Env, key: jax.Array, batch: Transition) -> Transition:
    """Replaces half of a batch [B, ...] by mirror images, drawn with a key of its own."""
    chex.assert_rank(batch.module, 1)
    flip = jax.random.bernoulli(jax.random.fold_in(key, STREAM), PROBABILITY, batch.module.shape)

    def choose(mirrored: jax.Array, own: jax.Array) -> jax.Array:
        return jnp.where(flip[:, None], mirrored, own)

    view, turn = jax.vmap(env.mirror), jax.vmap(env.modules.mirror)
    next_obs, next_goal = view(batch.next_obs), turn(batch.next_goal, batch.module)
    reward = jax.vmap(env.modules.reward)(next_obs, next_goal, batch.module)
    return batch.replace(
        obs=choose(view(batch.obs), batch.obs),
        action=choose(jax.vmap(env.mirror_action)(batch.action), batch.action),
        reward=jnp.where(flip, reward, batch.reward),
        next_obs=choose(next_obs, batch.next_obs),
        goal=choose(turn(batch.goal, batch.module), batch.goal),
        next_goal=choose(next_goal, batch.next_goal),
    )


def check(mirror: bool, env: Env) -> None:
    """Refuses mirror images of goals that have none.

    Raises:
      ConfigError: naming the option.
    """
    if mirror and env.modules.without_mirror:
        names = ", ".join(env.modules.without_mirror)
        raise ConfigError(f"--mirror on: must be off, since {names} has no mirror image of its goal (Module.mirror)")
