"""Chooses the physics backend by name: `c`, `jax`, `warp`, or `auto`, which looks at the platform."""

from __future__ import annotations

import importlib.util
import warnings

import jax
import mujoco

from envs.errors import ArgumentError
from envs.physics.protocol import Physics

BACKENDS = ("auto", "c", "jax", "warp")
_EXTRA = "pip install curious_jax[warp]"


def resolve(name: str) -> str:
    """Returns c, jax or warp; `auto` is c on a CPU, warp on an NVIDIA GPU that has warp-lang, elsewhere jax.

    Raises:
      ArgumentError: for an unknown name, and for warp where warp-lang is not installed.
    """
    if name not in BACKENDS:
        raise ArgumentError("physics", f"unknown, choose one of {', '.join(BACKENDS)}", name)
    if name == "auto":
        return _for_platform(jax.default_backend())
    if name == "warp" and not _has_warp():
        raise ArgumentError("physics", f"needs warp-lang: {_EXTRA}", name)
    return name


def build(name: str, model: mujoco.MjModel, num_worlds: int, sleep: bool = False) -> Physics:
    """Builds the physics c, jax or warp for `model` with buffers for `num_worlds` worlds, all vmapped axes together.

    Args:
      sleep: lets resting cubes sleep; c alone can.
    """
    if name == "c":
        from envs.physics.native import NativePhysics

        return NativePhysics(model, sleep=sleep)
    if name == "warp":
        from envs.physics.warp import WarpPhysics

        return WarpPhysics.create(model, num_worlds)
    from envs.physics.mjx import MjxPhysics

    return MjxPhysics.create(model)


def bytes_per_world(name: str, model: mujoco.MjModel) -> int:
    """Approximate memory that each world of this physics takes beside its PhysicsState; nothing is built for it."""
    if name == "c":
        from envs.physics.native import bytes_per_world
    elif name == "warp":
        from envs.physics.warp import bytes_per_world
    else:
        from envs.physics.mjx import bytes_per_world
    return bytes_per_world(model)


def _for_platform(platform: str) -> str:
    if platform == "cpu":
        return "c"
    if platform in ("gpu", "cuda"):
        if _has_warp():
            return "warp"
        warnings.warn(f"warp-lang is missing, so physics runs on MJX's slower jax backend: {_EXTRA}", stacklevel=3)
    return "jax"


def _has_warp() -> bool:
    return importlib.util.find_spec("warp") is not None
