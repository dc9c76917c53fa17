"""Says what a goal sampler is: pure functions that propose goals for exploring episodes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from curious_jax.learner import rollout
from curious_jax.learner.estimators.protocol import Results
from curious_jax.types import LearnerBatch, ModuleTable

CANDIDATES = 32  # uniform goals of which one is kept
MAX_REACH = 3  # dimensions of a goal that samplers look at; more are left out of a goal's neighbourhood


class View(NamedTuple):
    """Sees goals as the networks do; a view is itself a function of both."""

    encode: Callable[
        [jax.Array, jax.Array, jax.Array], jax.Array
    ]  # obs [..., O], goal [..., G], module [...] -> [..., I]
    act: Callable[[jax.Array], jax.Array]  # inputs [..., I] -> the policy's actions [..., A], without noise

    def __call__(self, obs: jax.Array, goal: jax.Array, module: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Gives the networks' inputs and the policy's actions: [..., O], [..., G], [...] -> ([..., I], [..., A])."""
        inputs = self.encode(obs, goal, module)
        return inputs, self.act(inputs)


Batches = Callable[[jax.Array], LearnerBatch]
"""key -> a batch as the learner sees it."""


def _same(state: Any, *others: Any) -> Any:
    return state


class Sampler(NamedTuple):
    """Proposes goals. Self-evaluations and evaluations never ask: their goals stay uniform."""

    init: Callable[[jax.Array], Any]  # key -> state
    # state, key, module [E], obs [E, O] at the start, view -> goal [E, G], as `draw_candidates` gives them
    propose: Callable[[Any, jax.Array, jax.Array, jax.Array, View], jax.Array]
    update: Callable[[Any, Results], Any] = _same  # state, results of a cycle -> state
    # state, key, batches, view -> state, after the learner's updates of a cycle
    learn: Callable[[Any, jax.Array, Batches, View], Any] = _same


def sample_uniform(modules: ModuleTable, key: jax.Array, module: jax.Array) -> jax.Array:
    """Draws uniform goals: key, [...] -> [..., G]."""
    sample = modules.sample_goal
    for _ in module.shape:
        sample = jax.vmap(sample)
    return sample(jax.random.split(key, module.shape), module)


class Candidates(NamedTuple):
    """The uniform goals of which each environment keeps one."""

    goal: jax.Array  # [E, C, G] as drawn, in the episode's place
    now: jax.Array  # [E, C, G] as it stands at the start
    module: jax.Array  # [E, C] int32


def draw_candidates(modules: ModuleTable, key: jax.Array, module: jax.Array, obs: jax.Array) -> Candidates:
    """Draws C = CANDIDATES uniform goals for each environment, in their places: key, [E], [E, O] -> [E, C, ...]."""
    each = jnp.broadcast_to(module[:, None], (module.shape[0], CANDIDATES))
    drawn = sample_uniform(modules, key, each)
    goal = jax.vmap(lambda goal, module: rollout.place_goals(modules, goal, module, obs), 1, 1)(drawn, each)
    now = jax.vmap(jax.vmap(modules.goal_at, (0, 0, None)))(goal, each, obs)
    return Candidates(goal, now, each)


def own_slots(modules: ModuleTable) -> tuple[jax.Array, jax.Array]:
    """Lists each module's slots in the goal vector: (slot [M, D] int32, used [M, D] bool), D the largest goal's size.

    At most MAX_REACH of a module's slots are listed.
    """
    sizes = [min(s.stop - s.start, MAX_REACH) for s in modules.slots]
    width = max([1, *sizes])
    slot = [
        [s.start + k if k < size else 0 for k in range(width)] for s, size in zip(modules.slots, sizes, strict=True)
    ]
    used = [[k < size for k in range(width)] for size in sizes]
    return jnp.array(slot, jnp.int32), jnp.array(used)


def own_part(modules: ModuleTable, goal: jax.Array, module: jax.Array) -> jax.Array:
    """Takes a module's own part out of goal vectors, with zeros for what it lacks: [..., G], [...] -> [..., D]."""
    slot, used = own_slots(modules)
    if not modules.goal_size:
        return jnp.zeros((*module.shape, slot.shape[1]))
    return jnp.where(used[module], jnp.take_along_axis(goal, slot[module], axis=-1), 0.0)


def choose(key: jax.Array, goals: jax.Array, weights: jax.Array, uniform_share: float) -> jax.Array:
    """Keeps one of C uniform goals in proportion to its weight: [E, C, G], [E, C] -> [E, G].

    Args:
      weights: not negative; all equal, all zero or not finite means uniform.
      uniform_share: probability of a uniform goal instead.
    """
    key_flag, key_choice = jax.random.split(key)
    total = weights.sum(axis=1, keepdims=True)
    usable = jnp.isfinite(total) & (total > 0)
    p = jnp.where(usable, weights / jnp.where(usable, total, 1.0), 1.0 / weights.shape[1])
    plain = jax.random.bernoulli(key_flag, uniform_share, (goals.shape[0], 1))
    p = jnp.where(plain, 1.0 / weights.shape[1], p)
    number = jax.random.categorical(key_choice, jnp.log(p), axis=1)
    return jnp.take_along_axis(goals, number[:, None, None], axis=1)[:, 0]
