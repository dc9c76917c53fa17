"""MG-ME, multi-goal module-experts (CURIOUS, "Impact of the policy and value function architecture"): one learner
per module, on a leading axis M of the learner's state.

An expert is trained one epoch in N, an epoch being the time between two evaluations. In its epoch every episode is
collected on its module and it alone is updated, on its module throughout; all share the stored episodes.
"""

from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.settings import ScheduleConfig
from curious_jax.types import Learner


def make(learner: Learner, num_modules: int) -> Learner:
    """M experts as one learner: `init` and `act` are of all of them, `update` and `end_cycle` of the picked one."""

    def init(key: jax.Array) -> Any:
        return jax.vmap(learner.init)(jax.random.split(key, num_modules))

    def act(actors: Any, inputs: jax.Array) -> jax.Array:
        """[..., I] -> [..., A]: the action of the expert that the descriptor (the last M inputs) names."""
        actions = jax.vmap(learner.act, (0, None))(actors, inputs)  # [M, ..., A]
        named = jnp.moveaxis(inputs[..., -num_modules:], -1, 0)[..., None] > 0  # [M, ..., 1]
        return jnp.where(named, actions, 0.0).sum(axis=0)

    return learner._replace(init=init, act=act)


def turn(schedule: ScheduleConfig, cycle: jax.Array, num_modules: int) -> jax.Array:
    """[] int32: the module whose expert is trained in this cycle (cycles count from 0)."""
    return (cycle // schedule.cycles_per_epoch) % num_modules


def pick(experts: Any, module: jax.Array) -> Any:
    """[M, ...] -> [...]: the learner state of one expert."""
    return jax.tree.map(lambda leaf: leaf[module], experts)


def put(experts: Any, module: jax.Array, expert: Any) -> Any:
    """The experts with one of them replaced."""
    return jax.tree.map(lambda leaf, one: leaf.at[module].set(one), experts, expert)
