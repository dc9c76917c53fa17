"""Draws a Gymnasium environment's arm with its goal: as arrays, or in a window."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

from envs.errors import ArgumentError
from envs.gymnasium_env.goals import GoalSpace
from envs.pictures.protocol import Goal

_COLOUR = 0.85, 0.15, 0.15  # of the goal
_LARGEST = 4096  # pixels of a side


class Pictures:
    """Draws for `render`; all it needs is made at the first picture.

    Args:
      mode: None, or one of `modes`.
      size: width and height in pixels of an array.
    Raises:
      ArgumentError: for another mode, and for a side that is no whole number from 1 to 4096.
    """

    def __init__(self, goals: GoalSpace, mode: str | None, modes: list[str], size: tuple[int, int] = (640, 480)):
        if mode is not None and mode not in modes:
            raise ArgumentError("render_mode", f"must be None or one of {', '.join(modes)}", mode)
        for name, side in zip(("width", "height"), size, strict=True):
            whole = isinstance(side, int | np.integer) and not isinstance(side, bool)
            if not whole or not 1 <= side <= _LARGEST:
                raise ArgumentError(name, f"must be a whole number of pixels from 1 to {_LARGEST}", side)
        self._goals, self.mode, self._size = goals, mode, size
        self._drawer: Any = None

    def draw(self, qpos: np.ndarray, obs: np.ndarray, desired: np.ndarray, solved: bool) -> Any:
        """Draws an arm at qpos [nq], the distractors of obs [O] and a goal [G].

        Returns uint8 [height, width, 3], or None where it goes to a window.
        """
        if self.mode is None:
            self.warn()
            return None
        layout = self._goals.layout
        distractors = [obs[layout.distractor_position(k)] for k in range(1, layout.num_distractors + 1)]
        state = SimpleNamespace(physics=SimpleNamespace(qpos=qpos), distractors=np.array(distractors).reshape(-1, 3))
        place, radius = self._goals.mark(desired, obs)
        marks = [Goal(place, _COLOUR, solved, radius)]
        if self.mode == "human":
            self._window().show(state, marks)
            return None
        if self._drawer is None:
            from envs.pictures.fetch import FetchRenderer

            self._drawer = FetchRenderer(self._goals.layout.num_cubes, *self._size)
        return self._drawer.frame(state, marks)

    def warn(self) -> None:
        """Tells the user that there is no render_mode, as Gymnasium's own environments do."""
        gymnasium.logger.warn("render() without a render_mode draws nothing; give one when making the environment")

    def _window(self) -> Any:
        if self._drawer is None:
            from envs.pictures.viewer import Window

            try:
                self._drawer = Window(self._goals.layout.num_cubes)
            except ArgumentError as error:
                why = error.message.replace("make a video", "take rgb_array")
                raise ArgumentError("render_mode", why, "human") from None
        return self._drawer

    def close(self) -> None:
        """Frees what drawing took; the next picture makes it again."""
        if self._drawer is not None:
            self._drawer.close()
        self._drawer = None
