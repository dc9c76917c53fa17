"""A function that is slow to trace, traced once and kept as StableHLO beside JAX's compiled programs.

JAX's persistent cache keeps what XLA made of a program, but the program must be traced before it can be looked up
there, and tracing mjx takes seconds. Kept only while that cache is on (`jax_compilation_cache_dir`, `--cache`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jax import export

Array = jax.Array
Function = Callable[..., tuple[Array, ...]]

PREFIX = "traced-"  # of the files' names


def over_worlds(one: Function, content: bytes) -> Function:
    """`one` as a function that may be vmapped over any number of axes and is traced once in a process, or never.

    Args:
      one: float32 arrays of one world -> arrays, pure.
      content: all that its traced form depends on beside shapes, JAX and the platform.
    """
    traced = jax.jit(one)
    whole = functools.cache(lambda *shapes: _load_or_trace(_many(traced, shapes), content, shapes))

    @jax.custom_batching.custom_vmap
    def worlds(*arrays: Array) -> tuple[Array, ...]:
        return tuple(whole(*(x.shape for x in arrays))(*arrays))

    @worlds.def_vmap  # type: ignore[untyped-decorator]
    def more(size: int, batched: Sequence[bool], *arrays: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        full = [x if has else jnp.broadcast_to(x, (size, *x.shape)) for x, has in zip(arrays, batched, strict=True)]
        results = worlds(*(x.reshape(-1, *x.shape[2:]) for x in full))
        split = tuple(x.reshape(size, -1, *x.shape[1:]) for x in results)
        return split, (True,) * len(split)

    def function(*arrays: Array) -> tuple[Array, ...]:
        return tuple(x[0] for x in worlds(*(x[None] for x in arrays)))

    return function


def _many(one: Function, shapes: Sequence[tuple[int, ...]]) -> Function:
    """`one` over the first axis. A single world is not vmapped: that costs as much as tracing does."""
    if shapes[0][0] > 1:
        return jax.vmap(one)
    return lambda *arrays: tuple(x[None] for x in one(*(x[0] for x in arrays)))


def _load_or_trace(function: Function, content: bytes, shapes: Sequence[tuple[int, ...]]) -> Function:
    """What to call within a program: from the cache's folder, or traced and put there.

    The kept form has fixed shapes: one for any number of worlds costs a second of every start to make fixed.
    """
    folder = _folder()
    if folder is None:
        return function
    path = folder / (PREFIX + _key(content, shapes))
    with contextlib.suppress(Exception):  # a damaged file is as good as none
        return export.deserialize(bytearray(path.read_bytes())).call
    try:
        traced = export.export(jax.jit(function))(*(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes))
    except (ValueError, NotImplementedError):  # on some platforms it uses what JAX does not keep
        return function
    with contextlib.suppress(OSError, ImportError):  # a full disk costs the next start its seconds, nothing else
        folder.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(f".{path.name}.{os.getpid()}")
        scratch.write_bytes(traced.serialize())
        os.replace(scratch, path)
    return traced.call


def _folder() -> Path | None:
    """Where JAX keeps compiled programs on this machine, if it does."""
    folder = jax.config.jax_compilation_cache_dir
    if not folder or not jax.config.jax_enable_compilation_cache or "://" in folder:
        return None
    return Path(folder)


def _key(content: bytes, shapes: Sequence[tuple[int, ...]]) -> str:
    """Names a traced function by all that it depends on."""
    settings = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    parts = jax.__version__, jax.default_backend(), *settings, *shapes
    return hashlib.sha256(repr(parts).encode() + content).hexdigest()[:32]
