"""One door to what draws a world's states."""

from typing import Any, NamedTuple, Protocol

import numpy as np

Colour = tuple[float, float, float]  # red, green, blue in [0, 1]


class Goal(NamedTuple):
    """A module's goal, to be marked in a picture."""

    goal: np.ndarray  # [d], as the module has it at this moment
    colour: Colour
    solved: bool


class Renderer(Protocol):
    """Draws states of one world; `close` it when done."""

    def frame(self, state: Any, goals: list[Goal]) -> np.ndarray:
        """uint8 [height, width, 3]: one environment's state, with these goals marked."""
        ...

    def close(self) -> None:
        """Gives back what drawing took."""
        ...


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
        raise ValueError(f"--viewer: shows the arm's world, not {world}; use --video FILE")
    elif looks != "auto":
        raise ValueError(f"--looks {looks}: the world {world} has one look only; leave it out")


def renderer(env: Any, width: int, height: int, looks: str = "auto") -> Renderer:
    """What draws this environment's states in pictures of that size."""
    if hasattr(env, "fetch"):
        from envs.pictures.fetch import FetchRenderer

        return FetchRenderer(env.layout.num_cubes, width, height, looks)
    from envs.pictures.point import PointRenderer

    return PointRenderer(width, height)
