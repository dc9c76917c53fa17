"""Chooses the physics backend by name: `c`, `jax`, `warp`, or `auto`, which looks at the platform."""

from __future__ import annotations

import ctypes
import importlib.util
import warnings

import jax
import mujoco

from envs.errors import ArgumentError
from envs.physics.protocol import Physics

BACKENDS = ("auto", "c", "jax", "warp")
_EXTRA = "pip install curious_jax[warp]"
GPUS = ("gpu", "cuda")  # what JAX calls them; AMD's too, which have no driver of NVIDIA's
WARP_CUDA = (13, 0)  # what NVIDIA's driver must run for warp-lang 1.18; drivers from R580 on do


def resolve(name: str) -> str:
    """Returns c, jax or warp; `auto` is c on a CPU, warp on an NVIDIA GPU that can run it, elsewhere jax.

    Raises:
      ArgumentError: for an unknown name, and for warp where it cannot run.
    """
    if name not in BACKENDS:
        raise ArgumentError("physics", f"unknown, choose one of {', '.join(BACKENDS)}", name)
    if name == "auto":
        return _for_platform(jax.default_backend())
    if name == "warp" and not _has_warp():
        raise ArgumentError("physics", f"needs warp-lang: {_EXTRA}", name)
    if name == "warp" and jax.default_backend() in GPUS and (why := _why_not_warp()):
        raise ArgumentError("physics", f"{why}; choose jax", name)
    return name


def build(name: str, model: mujoco.MjModel, num_worlds: int, sleep: bool = False) -> Physics:
    """Builds the physics c, jax or warp for `model` with buffers for `num_worlds` worlds, all vmapped axes together.

    Args:
      sleep: lets resting cubes sleep; c alone can.
    Raises:
      ArgumentError: for c beside a GPU or TPU where JAX was told to leave its CPU out.
    """
    if name == "c":
        if jax.default_backend() != "cpu" and not _has_cpu():
            platforms = "cuda,cpu" if jax.default_backend() in GPUS else f"{jax.default_backend()},cpu"
            raise ArgumentError("physics", f"needs JAX's CPU beside the device; set JAX_PLATFORMS={platforms}", name)
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
    """Returns the backend for JAX's platform; one line says why an NVIDIA GPU gets the slower one."""
    if platform == "cpu":
        return "c"
    if platform in GPUS:
        why = _why_not_warp()
        if why is None:
            return "warp"
        warnings.warn(f"{why}, so physics runs on MJX's slower jax backend", stacklevel=3)
    return "jax"


def _why_not_warp() -> str | None:
    """Says why Warp cannot run on this machine's NVIDIA GPU; None when nothing speaks against it."""
    if not _has_warp():
        return f"warp-lang is missing ({_EXTRA})"
    there = _driver_cuda()
    if there is None:
        return "warp-lang needs an NVIDIA GPU, and its driver gives no answer here"
    if there < WARP_CUDA:
        wanted, found = (".".join(map(str, version)) for version in (WARP_CUDA, there))
        return f"warp-lang needs an NVIDIA driver for CUDA {wanted} (R580 or newer), and this one is for CUDA {found}"
    return None


def _driver_cuda() -> tuple[int, int] | None:
    """Asks NVIDIA's driver which version of CUDA it is for; None where it gives no answer."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return number.value // 1000, number.value % 1000 // 10


def _has_cpu() -> bool:
    """Says whether JAX has its CPU beside the default device."""
    try:
        return bool(jax.local_devices(backend="cpu"))
    except RuntimeError:  # JAX_PLATFORMS leaves it out
        return False


def _has_warp() -> bool:
    return importlib.util.find_spec("warp") is not None
