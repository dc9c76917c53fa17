"""Describes the compared algorithms, a record each (CURIOUS, "Impact of the policy and value function architecture").

CURIOUS and M-UVFA run one program: they differ in how modules are chosen and replayed (config.ALGORITHM_SETTINGS).
HER has one flat goal that asks for every module at once, in training and evaluation ("the agent needs to satisfy the
constraints described by all the modules at once"; its curve stays at 0). MG-ME trains one expert per module, each one
epoch (expert_epoch episodes) in N; each round of N epochs gives every expert one turn, in a random order of its own.
In its epoch every episode is collected on its module and it alone is updated, on its module throughout. All experts
share the stored episodes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import ScheduleConfig
from curious_jax.types import FLAT, Learner


class Algorithm(NamedTuple):
    """The steps of a training cycle in which algorithms differ."""

    extend: Callable[[Learner, int], Learner]  # a learner, M -> the algorithm's learner
    turn: Callable[[Any, ScheduleConfig, jax.Array, int], jax.Array]  # learner state, schedule, cycle, M -> [] int32
    practise: Callable[[jax.Array, jax.Array], jax.Array]  # chosen modules [E], turn -> modules to collect for [E]
    replay: Callable[[jax.Array, jax.Array], jax.Array]  # drawn modules [B], turn -> modules to train on [B]
    pick: Callable[[Any, jax.Array], Any]  # learner state, turn -> the part of it that is updated
    put: Callable[[Any, jax.Array, Any], Any]  # learner state, turn, the updated part -> learner state
    test: Callable[[jax.Array], jax.Array]  # modules [W] -> what their evaluation episodes ask for [W]


CURIOUS = Algorithm(
    extend=lambda learner, num_modules: learner,
    turn=lambda learner, schedule, cycle, num_modules: jnp.int32(0),  # nobody's
    practise=lambda module, turn: module,
    replay=lambda module, turn: module,
    pick=lambda learner, turn: learner,
    put=lambda learner, turn, updated: updated,
    test=lambda module: module,
)
HER = CURIOUS._replace(
    practise=lambda module, turn: jnp.full_like(module, FLAT),
    test=lambda module: jnp.full_like(module, FLAT),
)


@struct.dataclass
class ExpertsState:
    """The experts of MG-ME, and what orders their turns."""

    experts: Any  # a learner's state with a leading axis M
    order: jax.Array  # [] key, one for the whole run

    @property
    def actor(self) -> Any:
        """Gives the actors of all experts."""
        return self.experts.actor


def _make_experts(learner: Learner, num_modules: int) -> Learner:
    """Makes M experts one learner: `init` and `act` are of all of them, `update` and `end_cycle` of the picked one."""

    def init(key: jax.Array) -> ExpertsState:
        key_experts, key_order = jax.random.split(key)
        return ExpertsState(jax.vmap(learner.init)(jax.random.split(key_experts, num_modules)), key_order)

    def act(actors: Any, inputs: jax.Array) -> jax.Array:
        """Acts as the expert that the descriptor (the last M inputs) names: [..., I] -> [..., A]."""
        actions = jax.vmap(learner.act, (0, None))(actors, inputs)  # [M, ..., A]
        named = jnp.moveaxis(inputs[..., -num_modules:], -1, 0)[..., None] > 0  # [M, ..., 1]
        return jnp.where(named, actions, 0.0).sum(axis=0)

    return learner._replace(init=init, act=act)


def _find_turn(state: ExpertsState, schedule: ScheduleConfig, cycle: jax.Array, num_modules: int) -> jax.Array:
    """Finds the module whose expert is trained in this cycle (cycles count from 0): [] int32."""
    epoch = cycle // schedule.cycles_per_expert
    turns = jax.random.permutation(jax.random.fold_in(state.order, epoch // num_modules), num_modules)
    return turns[epoch % num_modules].astype(jnp.int32)


def _put(state: ExpertsState, turn: jax.Array, expert: Any) -> ExpertsState:
    return state.replace(experts=jax.tree.map(lambda leaf, one: leaf.at[turn].set(one), state.experts, expert))


MGME = CURIOUS._replace(
    extend=_make_experts,
    turn=_find_turn,
    practise=lambda module, turn: jnp.full_like(module, turn),
    replay=lambda module, turn: jnp.full_like(module, turn),
    pick=lambda state, turn: jax.tree.map(lambda leaf: leaf[turn], state.experts),
    put=_put,
)
ALGORITHMS = {"curious": CURIOUS, "muvfa": CURIOUS, "her": HER, "mgme": MGME}
