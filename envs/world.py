"""One door to every world: names in, environment out."""

from collections.abc import Sequence
from typing import Any


def make(
    world: str = "fetch",
    modules: Sequence[str] = ("reach", "push", "pnp", "stack"),
    distractors: int = 0,
    physics: str = "auto",
    num_worlds: int = 1,
    start: str = "default",
) -> Any:
    """An environment with its module table (see curious_jax.types.Env).

    Args:
      world: fetch, or point (the probe).
      modules: names, such as reach, push2, stack1on2, or registered ones (envs.modules.register).
      distractors: number of out-of-reach cubes, a module each.
      physics: auto, c, jax or warp (fetch only).
      num_worlds: worlds simulated side by side, which sizes the physics buffers.
      start: default, or as FetchReach-v4 or FetchPush-v4 starts: fetch-reach, fetch-push (fetch only).
    Raises:
      ValueError: one line that names the option and the right values.
    """
    if world == "point":
        if start != "default":
            raise ValueError(f"--start {start}: --world point has no other start than default")
        from envs import point

        return point.create(modules, distractors)
    if world != "fetch":
        raise ValueError(f"--world {world}: must be one of fetch, point")
    from envs.fetch import modular

    return modular.create(modules, distractors, physics, num_worlds, start)
