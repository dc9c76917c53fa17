"""The worlds: the Fetch arm, its physics backends, and a point-mass probe. Nothing here knows of the learner.

`make` builds a world and `register` adds a module of your own; `envs.gymnasium_env` and `envs.brax_env` are the same
worlds for other people's trainers.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from envs.fetch.env import FetchEnv
    from envs.modules import Module
    from envs.point import PointEnv

WORLDS = ("fetch", "point")


def make(
    world: str = "fetch",
    modules: Sequence[str] = ("reach", "push", "pnp", "stack"),
    distractors: int = 0,
    physics: str = "auto",
    start: str = "default",
    sleep: bool = False,
) -> FetchEnv | PointEnv:
    """Builds an environment with its module table (see curious_jax.types.Env).

    Before it steps, `with_worlds(n)` builds the physics for n worlds side by side.

    Args:
      world: fetch, or point (the probe).
      modules: names, such as reach, push2, stack1on2, or registered ones.
      distractors: number of out-of-reach cubes, a module each.
      physics: auto, c, jax or warp (fetch only).
      start: default, or as FetchReach-v4 or FetchPush-v4 starts: fetch-reach, fetch-push; mixed: each episode draws one
        of them (fetch only).
      sleep: C physics leaves out cubes that rest where nothing can touch them (envs/physics/sleep.py; fetch only).
    Raises:
      ArgumentError: a ValueError that names the argument and the right values.
    """
    from envs.errors import ArgumentError

    if not isinstance(distractors, numbers.Integral) or distractors < 0:
        raise ArgumentError("distractors", "must be a whole number of 0 or more", distractors)
    if world == "fetch":
        from envs.fetch import env

        return env.create(modules, distractors, physics, start, sleep)
    if world != "point":
        raise ArgumentError("world", f"must be one of {', '.join(WORLDS)}", world)
    if start != "default":
        raise ArgumentError("start", "the point world has no other start than default", start)
    from envs import point

    return point.create(modules, distractors)


def register(name: str, build: Callable[[Any], Module], cubes: int = 1) -> None:
    """Makes a module of your own available under a name: see `envs.modules.register`."""
    from envs import modules

    modules.register(name, build, cubes)
