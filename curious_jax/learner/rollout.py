"""Collects one batch of episodes: policy and environment, scanned over the control steps (Algorithm 1, lines 6-13)."""

from collections.abc import Callable
from typing import Any

import chex
import jax
import jax.numpy as jnp

from curious_jax.config import ExplorationConfig
from curious_jax.learner import devices, exploration, guidance
from curious_jax.types import Env, Episode, ModuleTable, Policy

Propose = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""(module [E], obs [E, O] at the start, uniform goal [E, G]) -> goal [E, G], in its place (see `place_goals`)."""


def begin(env: Env, key_reset: jax.Array, key_goal: jax.Array, module: jax.Array) -> tuple[Any, jax.Array]:
    """Starts an episode for each module [E]: (the environment's state [E, ...], goal [E, G] as its module draws it).

    A world that draws its starts (envs.fetch.mixture) gives each module one that suits it, and goals around it.
    """
    reset_keys, goal_keys = (jax.random.split(key, module.shape[0]) for key in (key_reset, key_goal))
    world: Any = env
    if getattr(env, "mixture", None) is None:
        state = devices.each(jax.vmap(env.reset))(reset_keys)
        return state, jax.vmap(env.modules.sample_goal)(goal_keys, module)
    state = devices.each(jax.vmap(world.reset_for))(reset_keys, module)
    goal = jax.vmap(env.modules.sample_goal)(goal_keys, module)
    return state, jax.vmap(world.place_goal)(state, goal, module)


def place_goals(modules: ModuleTable, goal: jax.Array, module: jax.Array, first: jax.Array) -> jax.Array:
    """Moves goals, as their modules draw them, to where they belong in their episodes: [..., G], [...], [..., O].

    Only a world that draws its starts (envs.fetch.mixture) has something to move; elsewhere they stay as they are.

    Args:
      first: the first observations of the episodes.
    """
    table: Any = modules
    if getattr(table, "placement", None) is None:
        return goal
    place = table.place_goal
    for _ in module.shape:
        place = jax.vmap(place)
    return place(goal, module, first)


@jax.named_scope("rollout")  # the name that traces show
def collect(
    policy: Policy,
    env: Env,
    config: ExplorationConfig,
    key: jax.Array,
    module: jax.Array,
    exploring: jax.Array,
    offset: jax.Array | None = None,
    propose: Propose | None = None,
) -> tuple[Episode, jax.Array]:
    """Plays E whole episodes from fresh starts and fresh goals.

    Args:
      policy: acts without noise.
      module: [E] int32.
      exploring: [E] bool, which environments add exploration noise and may be guided.
      offset: [O], added to everything that the sensors read (perturbation.py); None for nothing.
      propose: gives the episodes' goals; None for uniform ones.
    Returns:
      (Episode [E, ...], overflow [] int32: in how many the physics lost contacts, which makes them invalid).
    """
    chex.assert_rank(module, 1)
    chex.assert_equal_shape((module, exploring))
    key_reset, key_goal, key_steps = jax.random.split(key, 3)
    num_envs = module.shape[0]
    state, goal = begin(env, key_reset, key_goal, module)
    chex.assert_shape(state.obs, (num_envs, env.obs_size))
    step_all = devices.each(jax.vmap(env.step))
    goal_at = jax.vmap(env.modules.goal_at)
    if propose is not None:
        shown = state.obs if offset is None else state.obs + offset
        goal = propose(module, shown, goal)

    def observe(state):
        return state.obs if offset is None else state.obs + offset

    def step(carry, key):
        state, lasting = carry
        obs = observe(state)
        asked = guidance.guide(env.modules, config.guide, key, obs, goal_at(goal, module, obs), module, exploring)
        with jax.named_scope("policy"):
            action = policy(obs, *asked)
        explored, lasting = exploration.explore_lasting(key, action, lasting, config)
        action = jnp.where(exploring[:, None], explored, action)
        with jax.named_scope("physics"):
            state = step_all(state, action)
        return (state, lasting), (observe(state), action)

    first = observe(state)
    lasting = exploration.begin(key_steps, num_envs, env.action_size, config)
    (state, _), (obs, action) = jax.lax.scan(step, (state, lasting), jax.random.split(key_steps, env.episode_length))
    obs = jnp.concatenate([first[None], obs]).swapaxes(0, 1)  # [E, T+1, O]
    last = observe(state)
    reward = jax.vmap(env.modules.reward)(last, goal_at(goal, module, last), module)
    valid = jnp.all(jnp.isfinite(obs) & (jnp.abs(obs) <= env.obs_bound), axis=(1, 2)) & ~state.overflow
    episode = Episode(
        obs=obs,
        action=action.swapaxes(0, 1),
        goal=goal,
        module=module,
        success=(reward == 0.0) & valid,
        valid=valid,
    )
    return devices.whole((episode, jnp.sum(state.overflow, dtype=jnp.int32)))
