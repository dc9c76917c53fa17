"""Chooses the physics backend by name: `c`, `jax`, `warp`, or `auto`, which looks at the platform."""

from __future__ import annotations

import importlib.util
import warnings

import jax
import mujoco

from envs.physics.protocol import Physics

BACKENDS = ("auto", "c", "jax", "warp")
_EXTRA = "pip install curious_jax[warp]"


def select(name: str, model: mujoco.MjModel, num_worlds: int) -> Physics:
    """Physics for `model` with buffers for `num_worlds` worlds, all vmapped axes together.

    `auto` is c on a CPU; on an NVIDIA GPU warp, or jax with a warning where warp-lang is missing; elsewhere jax.

    Raises:
      ValueError: for an unknown name, and for warp where warp-lang is not installed.
    """
    if name not in BACKENDS:
        raise ValueError(f"--physics {name}: unknown, choose one of {', '.join(BACKENDS)}")
    if name == "auto":
        name = _for_platform(jax.default_backend())
    if name == "warp" and not _has_warp():
        raise ValueError(f"--physics warp needs warp-lang: {_EXTRA}")
    if name == "c":
        from envs.physics.native import NativePhysics

        return NativePhysics(model)
    if name == "warp":
        from envs.physics.warp import WarpPhysics

        return WarpPhysics.create(model, num_worlds)
    from envs.physics.mjx import MjxPhysics

    return MjxPhysics.create(model)


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
