"""MG-ME, multi-goal module-experts (CURIOUS, "Impact of the policy and value function architecture"): one learner
per module, on a leading axis M of the learner's state.

An expert is trained one epoch in N, an epoch being `--expert-epoch` episodes; each round of N epochs gives every expert
one turn, in a random order of its own. In its epoch every episode is collected on its module and it alone is updated,
on its module throughout; all share the stored episodes.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import ScheduleConfig
from curious_jax.types import Learner


@struct.dataclass
class ExpertsState:
    """The experts, and what orders their turns."""

    experts: Any  # a learner's state with a leading axis M
    order: jax.Array  # [] key, one for the whole run

    @property
    def actor(self) -> Any:
        """The actors of all experts."""
        return self.experts.actor


def make(learner: Learner, num_modules: int) -> Learner:
    """M experts as one learner: `init` and `act` are of all of them, `update` and `end_cycle` of the picked one."""

    def init(key: jax.Array) -> ExpertsState:
        key_experts, key_order = jax.random.split(key)
        return ExpertsState(jax.vmap(learner.init)(jax.random.split(key_experts, num_modules)), key_order)

    def act(actors: Any, inputs: jax.Array) -> jax.Array:
        """[..., I] -> [..., A]: the action of the expert that the descriptor (the last M inputs) names."""
        actions = jax.vmap(learner.act, (0, None))(actors, inputs)  # [M, ..., A]
        named = jnp.moveaxis(inputs[..., -num_modules:], -1, 0)[..., None] > 0  # [M, ..., 1]
        return jnp.where(named, actions, 0.0).sum(axis=0)

    return learner._replace(init=init, act=act)


def turn(schedule: ScheduleConfig, order: jax.Array, cycle: jax.Array, num_modules: int) -> jax.Array:
    """[] int32: the module whose expert is trained in this cycle (cycles count from 0)."""
    epoch = cycle // schedule.cycles_per_expert
    turns = jax.random.permutation(jax.random.fold_in(order, epoch // num_modules), num_modules)
    return turns[epoch % num_modules].astype(jnp.int32)


def pick(state: ExpertsState, module: jax.Array) -> Any:
    """[M, ...] -> [...]: the learner state of one expert."""
    return jax.tree.map(lambda leaf: leaf[module], state.experts)


def put(state: ExpertsState, module: jax.Array, expert: Any) -> ExpertsState:
    """The experts with one of them replaced."""
    return state.replace(experts=jax.tree.map(lambda leaf, one: leaf.at[module].set(one), state.experts, expert))
