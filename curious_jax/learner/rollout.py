"""Collects one batch of episodes: policy and environment, scanned over the control steps (Algorithm 1, lines 6-13)."""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from curious_jax.config import ExplorationConfig
from curious_jax.learner import devices, guidance
from curious_jax.types import Env, Episode, Policy

Propose = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
"""(module [E], obs [E, O] at the start, uniform goal [E, G]) -> goal [E, G]."""


def explore(key: jax.Array, action: jax.Array, config: ExplorationConfig) -> jax.Array:
    """Adds Gaussian noise to actions [E, A], or draws uniform ones instead, as the authors' program does."""
    key_noise, key_uniform, key_flag = jax.random.split(key, 3)
    noisy = jnp.clip(action + config.noise * jax.random.normal(key_noise, action.shape), -1.0, 1.0)
    uniform = jax.random.uniform(key_uniform, action.shape, minval=-1.0, maxval=1.0)
    flag = jax.random.bernoulli(key_flag, config.random_action, action.shape[:-1])
    return jnp.where(flag[..., None], uniform, noisy)


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
      (Episode [E, ...], overflow []: some physics buffer ran out).
    """
    chex.assert_rank(module, 1)
    chex.assert_equal_shape((module, exploring))
    key_reset, key_goal, key_steps = jax.random.split(key, 3)
    num_envs = module.shape[0]
    reset, step_all = devices.each(jax.vmap(env.reset)), devices.each(jax.vmap(env.step))
    state = reset(jax.random.split(key_reset, num_envs))
    chex.assert_shape(state.obs, (num_envs, env.obs_size))
    goal = jax.vmap(env.modules.sample_goal)(jax.random.split(key_goal, num_envs), module)
    goal_at = jax.vmap(env.modules.goal_at)
    if propose is not None:
        shown = state.obs if offset is None else state.obs + offset
        goal = propose(module, shown, goal)

    def observe(state):
        return state.obs if offset is None else state.obs + offset

    def step(state, key):
        obs = observe(state)
        asked = guidance.guide(env.modules, config.guide, key, obs, goal_at(goal, module, obs), module, exploring)
        with jax.named_scope("policy"):
            action = policy(obs, *asked)
        action = jnp.where(exploring[:, None], explore(key, action, config), action)
        with jax.named_scope("physics"):
            state = step_all(state, action)
        return state, (observe(state), action)

    first = observe(state)
    state, (obs, action) = jax.lax.scan(step, state, jax.random.split(key_steps, env.episode_length))
    obs = jnp.concatenate([first[None], obs]).swapaxes(0, 1)  # [E, T+1, O]
    last = observe(state)
    reward = jax.vmap(env.modules.reward)(last, goal_at(goal, module, last), module)
    valid = jnp.all(jnp.isfinite(obs) & (jnp.abs(obs) <= env.obs_bound), axis=(1, 2))
    episode = Episode(
        obs=obs,
        action=action.swapaxes(0, 1),
        goal=goal,
        module=module,
        success=(reward == 0.0) & valid,
        valid=valid,
    )
    return devices.whole((episode, jnp.any(state.overflow)))
