"""Splits keys where they are used, or ahead for a whole cycle: then an update's program draws without splitting."""

from typing import Any, NamedTuple

import jax


class SplitKey(NamedTuple):
    """A key with the keys that it splits into; the same numbers come of it as of the key alone."""

    key: jax.Array
    parts: tuple[Any, ...]  # keys


Key = jax.Array | SplitKey


def split(key: Key, number: int = 2) -> tuple[Any, ...]:
    """Splits a key into that many, or gives those that it was split into ahead."""
    return key.parts if isinstance(key, SplitKey) else tuple(jax.random.split(key, number))


def ahead(key: jax.Array, *numbers: int) -> SplitKey:
    """Splits a key into as many as there are numbers, and each of those into its number."""
    first = split(key, len(numbers))
    return SplitKey(key, tuple(SplitKey(one, split(one, number)) for one, number in zip(first, numbers)))


def whole(key: Key) -> jax.Array:
    """Gives the key itself."""
    return key.key if isinstance(key, SplitKey) else key
