"""Keeps episodes of a frozen policy whole, state by state, to be looked at.

Its loop is not rollout.collect: pictures need every state and the goal at every step, of which a training cycle keeps
neither, and no exploration.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax.evaluation import check_overflow
from curious_jax.learner import rollout
from curious_jax.learner.state import Setup, make_policy, setup
from curious_jax.run.policies import Loaded


@dataclasses.dataclass(frozen=True)
class Recording:
    """Holds episodes side by side, on the host."""

    states: Any  # the environment's state, each leaf [T+1, E, ...]
    goal: np.ndarray  # [T+1, E, G], as it stands at each step
    solved: np.ndarray  # [T+1, E] bool
    module: np.ndarray  # [E] int32, FLAT for the flat goal

    @property
    def length(self) -> int:
        """Returns T + 1."""
        return self.solved.shape[0]

    def state(self, time: int, episode: int) -> Any:
        """Returns the environment's state at one step of one episode."""
        return jax.tree.map(lambda leaf: leaf[time, episode], self.states)


def record(loaded: Loaded, key: jax.Array, module: Any) -> Recording:
    """Plays one episode per entry of module [E], without exploration, from fresh starts and goals."""
    return recorder(loaded, module)(loaded, key)


def recorder(loaded: Loaded, module: Any) -> Callable[[Loaded, jax.Array], Recording]:
    """Compiles `record` for one episode per entry of module [E]; it then takes any policy of the same run, and a key.

    The same key gives the same starts and goals, whatever the policy.
    """
    module = jnp.asarray(module, jnp.int32)
    run = setup(loaded.config, loaded.env.with_worlds(module.shape[0]))
    module = run.algorithm.test(module)
    play = jax.jit(functools.partial(_episodes, run))

    def record(one: Loaded, key: jax.Array) -> Recording:
        states, goal, solved, overflow = jax.device_get(play(one.params, one.offset, key, module))
        check_overflow(overflow, overflow.size)
        return Recording(states, goal, solved & ~overflow, np.asarray(module))

    return record


def _episodes(run: Setup, policy: Any, offset: Any, key: Any, module: Any) -> tuple[Any, Any, Any, Any]:
    """Returns (states, goal, solved), each with leading axes [T+1, E], and what the physics dropped [E]."""
    key_reset, key_goal = jax.random.split(key)
    env, modules = run.env, run.env.modules
    act = make_policy(run, policy)
    first, drawn = rollout.begin(env, key_reset, key_goal, module)

    def look(state: Any) -> tuple[Any, Any, Any]:
        obs = state.obs if offset is None else state.obs + offset
        goal = jax.vmap(modules.goal_at)(drawn, module, obs)
        return obs, goal, jax.vmap(modules.reward)(obs, goal, module) == 0.0

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        obs, goal, solved = look(state)
        following = jax.vmap(env.step)(state, act(obs, goal, module))
        return following, (_drawable(state), goal, solved)

    last, before = jax.lax.scan(step, first, length=env.episode_length)
    _, goal, solved = look(last)
    played = jax.tree.map(lambda a, b: jnp.concatenate([a, b[None]]), before, (_drawable(last), goal, solved))
    return *played, last.overflow


def _drawable(state: Any) -> Any:
    """Returns the state without its random keys, which NumPy cannot hold."""
    return state.replace(key=jnp.zeros(state.obs.shape[:-1])) if hasattr(state, "key") else state
