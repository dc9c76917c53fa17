"""Substitutes modules and goals, and recomputes the internal reward (Algorithm 1, lines 20-21)."""

import chex
import jax
import jax.numpy as jnp

from curious_jax.config import HindsightConfig
from curious_jax.learner import keys, rollout
from curious_jax.learner.replay import ReplayState
from curious_jax.types import ModuleTable, Transition


def draw_later(key: jax.Array, t: jax.Array, steps: int) -> jax.Array:
    """Draws t' [B] uniformly from t+1 ... T, the last state included and the present one never."""
    u = jax.random.uniform(key, t.shape)
    return jnp.minimum(t + 1 + (u * (steps - t)).astype(jnp.int32), steps)


@jax.named_scope("substitution")
def substitute(
    state: ReplayState,
    modules: ModuleTable,
    config: HindsightConfig,
    key: keys.Key,
    module: jax.Array,
    slot: jax.Array,
    t: jax.Array,
) -> Transition:
    """Rewrites the transitions (slot, t) to train on `module`, and recomputes their reward.

    With the hindsight probability a transition takes `module` and the outcome reached at a later time of its
    episode as goal. Otherwise it keeps its own module and goal (`own`), or takes `module` with its own goal if
    it was collected for that module and a fresh one if not (`drawn`).

    Args:
      module, slot, t: [B] int32. For module FLAT (episodes of HER) the goal's parts are substituted together, all by
        the outcomes of one moment.
    Returns:
      Transition, [B, ...].
    """
    chex.assert_rank(module, 1)
    chex.assert_equal_shape((module, slot, t))
    key_flag, key_time, key_goal = keys.split(key, 3)
    steps = state.action.shape[1]
    hindsight = jax.random.bernoulli(key_flag, config.probability, t.shape)
    obs, next_obs = state.obs[slot, t], state.obs[slot, t + 1]
    later = state.obs[slot, draw_later(key_time, t, steps)]

    own_module, own_goal = state.module[slot], state.goal[slot]
    if config.substitution == "drawn":
        fresh = jax.vmap(modules.sample_goal)(jax.random.split(key_goal, t.shape[0]), module)
        fresh = rollout.place_goals(modules, fresh, module, state.obs[slot, 0])
        own_goal = jnp.where((own_module == module)[:, None], own_goal, fresh)
        own_module = module
    goal_at = jax.vmap(modules.goal_at)
    reached = jnp.where(modules.mask(module), jax.vmap(modules.outcomes)(later), 0.0)
    chosen = jnp.where(hindsight, module, own_module)
    goal = jnp.where(hindsight[:, None], reached, goal_at(own_goal, own_module, obs))
    next_goal = jnp.where(hindsight[:, None], reached, goal_at(own_goal, own_module, next_obs))
    return Transition(
        obs=obs,
        action=state.action[slot, t],
        reward=jax.vmap(modules.reward)(next_obs, next_goal, chosen),
        next_obs=next_obs,
        goal=goal,
        next_goal=next_goal,
        module=chosen,
    )
