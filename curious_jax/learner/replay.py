"""Stores episodes: a ring of whole episodes, and per module a queue of those relevant to it.

The queues are the paper's N buffers (Prioritized Interest Replay) without a second copy of the data, and
the ring itself serves as its N+1st. Adding and sampling cost nothing that grows with the capacity: when the
ring overwrites its oldest episode, that episode is also the oldest of every queue it stands in.
"""

import functools

import chex
import jax
import jax.numpy as jnp
from flax import struct
from jax.experimental.layout import Layout, with_layout_constraint

from curious_jax.learner import keys
from curious_jax.types import Episode


@struct.dataclass
class ReplayState:
    """Episodes in a ring of C slots, and queues of slots by module."""

    obs: jax.Array  # [C, T+1, O] float32
    action: jax.Array  # [C, T, A] float32
    goal: jax.Array  # [C, G] float32
    module: jax.Array  # [C] int32
    relevant: jax.Array  # [C, M] bool
    next: jax.Array  # [] int32, the slot written next
    size: jax.Array  # [] int32, episodes held
    queue: jax.Array  # [M, C] int32, slots relevant to each module, oldest first from `start`, as a ring
    start: jax.Array  # [M] int32
    count: jax.Array  # [M] int32, slots in each queue


def init(capacity: int, steps: int, obs_size: int, action_size: int, goal_size: int, num_modules: int) -> ReplayState:
    """Makes an empty store of `capacity` episodes of `steps` control steps."""
    return ReplayState(
        obs=jnp.zeros((capacity, steps + 1, obs_size)),
        action=jnp.zeros((capacity, steps, action_size)),
        goal=jnp.zeros((capacity, goal_size)),
        module=jnp.zeros(capacity, jnp.int32),
        relevant=jnp.zeros((capacity, num_modules), bool),
        next=jnp.zeros((), jnp.int32),
        size=jnp.zeros((), jnp.int32),
        queue=jnp.zeros((num_modules, capacity), jnp.int32),
        start=jnp.zeros(num_modules, jnp.int32),
        count=jnp.zeros(num_modules, jnp.int32),
    )


@jax.named_scope("store")
def add(state: ReplayState, episode: Episode, relevant: jax.Array) -> ReplayState:
    """Stores the valid ones of E <= C episodes, overwriting the oldest.

    Args:
      episode: [E, ...]; invalid episodes are left out.
      relevant: [E, M] bool.
    """
    capacity, num_modules = state.relevant.shape
    chex.assert_shape(relevant, (episode.valid.shape[0], num_modules))
    chex.assert_shape(episode.obs, (None, *state.obs.shape[1:]))
    chex.assert_axis_dimension_lteq(episode.obs, 0, capacity)  # two episodes in one slot would mix their parts
    rank = jnp.cumsum(episode.valid) - 1
    slot = jnp.where(episode.valid, (state.next + rank) % capacity, capacity)  # [E], C is dropped
    new = episode.valid.sum()

    in_use = (slot < state.size)[:, None]
    evicted = state.relevant.at[slot].get(mode="fill", fill_value=False) & in_use  # [E, M]
    start = (state.start + evicted.sum(axis=0)) % capacity
    count = state.count - evicted.sum(axis=0)

    flags = relevant & episode.valid[:, None]  # [E, M]
    place = (start + count + jnp.cumsum(flags, axis=0) - 1) % capacity
    rows = jnp.broadcast_to(jnp.arange(num_modules), flags.shape)
    queue = state.queue.at[rows, jnp.where(flags, place, capacity)].set(slot[:, None], mode="drop")
    write = functools.partial(jax.lax.platform_dependent, slot, state.next, tpu=_write_blocks, default=_write)
    return ReplayState(
        obs=write(state.obs, episode.obs),
        action=write(state.action, episode.action),
        goal=state.goal.at[slot].set(episode.goal, mode="drop"),
        module=state.module.at[slot].set(episode.module, mode="drop"),
        relevant=state.relevant.at[slot].set(relevant, mode="drop"),
        next=(state.next + new) % capacity,
        size=jnp.minimum(state.size + new, capacity),
        queue=queue,
        start=start,
        count=count + flags.sum(axis=0),
    )


def _write(slot: jax.Array, start: jax.Array, ring: jax.Array, rows: jax.Array) -> jax.Array:
    return ring.at[slot].set(rows, mode="drop")


def _write_blocks(slot: jax.Array, start: jax.Array, ring: jax.Array, rows: jax.Array) -> jax.Array:
    """Writes what `_write` writes, on TPUs: in two blocks of E slots, in place.

    A TPU's memory holds arrays in padded tiles. Batches are drawn from the store with its slots as the fastest axis,
    which is a multiple of the tiles or nearly so. A scatter wants the slots as the slowest axis, for which XLA would
    copy the whole store into padded tiles and back. Blocks are written in the order of the axes that is asked for.
    (Under vmap, with several seeds, XLA makes a scatter of them again.)

    The first block begins at `start`, or where it ends with the ring; the second is the beginning of the ring, and
    takes what goes over the end. Slots of a block that get no row keep their contents.

    Args:
      slot: [E] int32, the slots of the rows: one after the other from `start` on, C for rows that are left out.
      start: [] int32, the first slot to write.
      ring: [C, T, N].
      rows: [E, T, N], with E <= C.
    """
    capacity, number = ring.shape[0], rows.shape[0]
    order = jnp.argsort(slot == capacity, stable=True)
    new = jnp.sum(slot < capacity)
    keep_order = functools.partial(with_layout_constraint, layouts=Layout((1, 2, 0)))
    for first in (jnp.minimum(start, capacity - number), jnp.zeros_like(start)):
        rank = (first + jnp.arange(number) - start) % capacity  # of the row that goes into each slot of the block
        old = jax.lax.dynamic_slice_in_dim(ring, first, number)
        block = jnp.where((rank < new)[:, None, None], rows[order[jnp.minimum(rank, number - 1)]], old)
        ring = keep_order(jax.lax.dynamic_update_slice_in_dim(keep_order(ring), keep_order(block), first, 0))
    return ring


def shares(p: jax.Array, batch_size: int) -> jax.Array:
    """Gives each module floor(N_mb·p) transitions, and the remainder one each in order (Algorithm 1): p [M] -> [M].

    Modules of probability 0 (without relevant episodes) get none of the remainder.
    """
    whole = jnp.floor(batch_size * p + 1e-3).astype(jnp.int32)  # 1e-3 undoes float32's 0.1 + 0.6 < 0.7
    possible = p > 0
    rank = jnp.cumsum(possible) - 1
    return whole + (possible & (rank < batch_size - whole.sum()))


def batch_modules(p: jax.Array, batch_size: int) -> jax.Array:
    """Spreads a batch over the modules by p [M]: the module each transition is for, [B] int32, in module order."""
    ends = jnp.cumsum(shares(p, batch_size))
    module = jnp.searchsorted(ends, jnp.arange(batch_size), side="right")
    return jnp.minimum(module, p.shape[0] - 1).astype(jnp.int32)


@jax.named_scope("sampling")
def sample(state: ReplayState, key: keys.Key, module: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws (slot [B], t [B]): uniform over the episodes relevant to each transition's module, t uniform.

    Args:
      module: [B] int32. A module without relevant episodes draws from all episodes.
    """
    chex.assert_rank(module, 1)
    key_episode, key_time = keys.split(key)
    capacity = state.module.shape[0]
    steps = state.action.shape[1]
    count = state.count[module]
    number = _uniform_below(key_episode, jnp.where(count > 0, count, state.size))
    relevant_slot = state.queue[module, (state.start[module] + number) % capacity]
    t = jax.random.randint(key_time, module.shape, 0, steps)
    return jnp.where(count > 0, relevant_slot, number), t


def sample_any(state: ReplayState, key: keys.Key, batch_size: int) -> tuple[jax.Array, jax.Array]:
    """Draws (slot [B], t [B]): uniform over all episodes, t uniform."""
    key_episode, key_time = keys.split(key)
    slot = _uniform_below(key_episode, jnp.broadcast_to(state.size, (batch_size,)))
    return slot, jax.random.randint(key_time, (batch_size,), 0, state.action.shape[1])


def draw(state: ReplayState, key: keys.Key, module: jax.Array, own: bool) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Draws a batch: (module [B], slot [B], t [B]).

    Args:
      module: [B] int32, the module that each transition is for.
      own: draw from any episode instead, for the module that it was collected for (HER).
    """
    if own:
        slot, t = sample_any(state, key, module.shape[0])
        return state.module[slot], slot, t
    return module, *sample(state, key, module)


def _uniform_below(key: jax.Array, bound: jax.Array) -> jax.Array:
    """Draws [B] int32, uniform in 0 ... bound-1 (0 where bound is 0); bounds are far below 2^24."""
    u = jax.random.uniform(key, bound.shape)
    return jnp.clip((u * bound).astype(jnp.int32), 0, jnp.maximum(bound - 1, 0))
