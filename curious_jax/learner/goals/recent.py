"""Keeps the most recent results of each module, in order of age."""

from collections.abc import Mapping

import chex
import jax
import jax.numpy as jnp
from flax import struct

MOST = 256  # results kept per module
LEAST_DEVIATION = 1e-4  # goals that differ less are all in one place


@struct.dataclass
class RecentState:
    """The last R results of each module, the newest last; the first R - size places hold nothing yet."""

    entries: dict[str, jax.Array]  # [M, R, ...]
    size: jax.Array  # [M] int32


def init(num_modules: int, shapes: Mapping[str, tuple[int, ...]]) -> RecentState:
    """Makes an empty store for R = MOST results per module.

    Args:
      shapes: what is kept of a result, by name.
    """
    entries = {name: jnp.zeros((num_modules, MOST, *shape)) for name, shape in shapes.items()}
    return RecentState(entries=entries, size=jnp.zeros(num_modules, jnp.int32))


def held(state: RecentState) -> jax.Array:
    """Says which places hold a result: [M, R] bool."""
    return jnp.arange(MOST) >= MOST - state.size[:, None]


def add(state: RecentState, counted: jax.Array, **new: jax.Array) -> RecentState:
    """Adds the results of a cycle; of each module's the last R stay.

    Args:
      counted: [M, E] bool, the results that are kept for a module.
      new: [E, ...], by name.
    """
    chex.assert_shape(counted, (state.size.shape[0], None))

    def source(size: jax.Array, counted: jax.Array) -> jax.Array:
        """Finds where each place's result comes from, in the old ones followed by the new: [], [E] -> [R]."""
        kept = jnp.concatenate([jnp.arange(MOST) >= MOST - size, counted])
        behind = jnp.cumsum(kept[::-1])[::-1]  # 1 for the newest
        place = jnp.where(kept & (behind <= MOST), MOST - behind, MOST)
        return jnp.zeros(MOST, jnp.int32).at[place].set(jnp.arange(kept.shape[0]), mode="drop")

    rows = jax.vmap(source)(state.size, counted)
    join = jax.vmap(lambda old, new, rows: jnp.concatenate([old, new])[rows], (0, None, 0))
    entries = {name: join(old, new[name].astype(jnp.float32), rows) for name, old in state.entries.items()}
    size = jnp.minimum(state.size + counted.sum(axis=1), MOST).astype(jnp.int32)
    return RecentState(entries=entries, size=size)


def spread(values: jax.Array, held: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Computes mean and deviation of what is held: [M, R, D], [M, R] -> [M, D], [M, D].

    The deviation is 1 where the values do not differ.
    """
    count = jnp.maximum(held.sum(axis=1), 1)[:, None]
    mean = jnp.where(held[..., None], values, 0.0).sum(axis=1) / count
    variance = jnp.where(held[..., None], jnp.square(values - mean[:, None]), 0.0).sum(axis=1) / count
    deviation = jnp.sqrt(variance)
    return mean, jnp.where(deviation > LEAST_DEVIATION, deviation, 1.0)
