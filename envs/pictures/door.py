"""Chooses what draws a world, and refuses early what cannot be drawn here."""

from typing import Any

from envs.errors import ArgumentError
from envs.pictures.protocol import Renderer


def check(world: str, looks: str, viewer: bool = False) -> None:
    """Refuses, before anything is built, pictures (or a viewer) that cannot be had here.

    Raises:
      ValueError: one line that says what to change or install.
    """
    if world == "fetch":
        from envs.pictures import gl
        from envs.pictures import looks as fetch_looks

        fetch_looks.check(looks)
        gl.check_screen() if viewer else gl.choose()
    elif viewer:
        raise ArgumentError("viewer", f"shows the arm's world, not {world}; make a video instead")
    elif looks != "auto":
        raise ArgumentError("looks", f"the world {world} has one look only; leave it out", looks)


def renderer(env: Any, width: int, height: int, looks: str = "auto") -> Renderer:
    """Returns what draws this environment's states in pictures of that size.

    Raises:
      ValueError: for an environment that is neither the arm nor the point.
    """
    from envs.fetch.env import FetchEnv
    from envs.point import PointEnv

    if isinstance(env, FetchEnv):
        from envs.pictures.fetch import FetchRenderer

        return FetchRenderer(env.layout.num_cubes, width, height, looks)
    if isinstance(env, PointEnv):
        from envs.pictures.point import PointRenderer

        return PointRenderer(width, height)
    raise ValueError(f"there are no pictures of {type(env).__name__}")
