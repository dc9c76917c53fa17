"""Defines what a picture is made of: goals to be marked, and something that draws states."""

from typing import Any, NamedTuple, Protocol

import numpy as np

Colour = tuple[float, float, float]  # red, green, blue in [0, 1]


class Goal(NamedTuple):
    """A module's goal, to be marked in a picture."""

    goal: np.ndarray  # [d], as the module has it at this moment
    colour: Colour
    solved: bool
    radius: float | None = None  # of the ball around it; None for the world's own tolerance


class Renderer(Protocol):
    """Draws states of one world; `close` it when done."""

    def frame(self, state: Any, goals: list[Goal]) -> np.ndarray:
        """uint8 [height, width, 3]: one environment's state, with these goals marked."""
        ...

    def close(self) -> None:
        """Frees what drawing took."""
        ...
