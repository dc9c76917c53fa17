"""Draws the point world with Pillow: the square, the point, its objects, and goals as circles."""

from typing import Any

import numpy as np

from envs import point
from envs.pictures.protocol import Colour, Goal

_VIEW = 0.62  # half the side of what is seen; the square is 0.5
_FINE = 2  # drawn larger by this factor, then scaled down: smooth edges
_PAPER, _SQUARE, _EDGE = (238, 240, 243), (255, 255, 255), (150, 155, 165)
_POINT: Colour = (0.13, 0.14, 0.17)
_OBJECTS: tuple[Colour, ...] = ((0.85, 0.2, 0.15), (0.95, 0.75, 0.1), (0.2, 0.6, 0.25), (0.55, 0.3, 0.7))


class PointRenderer:
    """See envs.pictures.protocol.Renderer. Distractors lie outside the picture."""

    def __init__(self, width: int, height: int):
        self._size = width, height
        self._scale = _FINE * min(width, height) / (2 * _VIEW)  # pixels per unit of length

    def frame(self, state: Any, goals: list[Goal]) -> np.ndarray:
        """uint8 [height, width, 3]."""
        from PIL import Image, ImageDraw

        width, height = self._size
        image = Image.new("RGB", (_FINE * width, _FINE * height), _PAPER)
        draw = ImageDraw.Draw(image, "RGBA")
        draw.rectangle(self._box((0.0, 0.0), point.ARENA), fill=_SQUARE, outline=_EDGE, width=2 * _FINE)
        for mark in goals:
            if np.shape(mark.goal) == (2,):
                radius = point.TOLERANCE if mark.radius is None else mark.radius
                draw.ellipse(self._box(mark.goal, radius), fill=_rgba(mark.colour, 0.6 if mark.solved else 0.3))
                draw.ellipse(self._box(mark.goal, 0.012), fill=_rgba(mark.colour, 1.0))
        for number, position in enumerate(np.asarray(state.objects)):
            draw.rectangle(self._box(position, 0.03), fill=_rgba(_OBJECTS[number % len(_OBJECTS)], 1.0))
        draw.ellipse(self._box(state.position, 0.025), fill=_rgba(_POINT, 1.0))
        return np.asarray(image.resize((width, height), Image.Resampling.BOX))

    def _box(self, centre: Any, half: float) -> tuple[float, float, float, float]:
        """Left, top, right, bottom in fine pixels of a square around a place."""
        width, height = self._size
        x = _FINE * width / 2 + self._scale * float(centre[0])
        y = _FINE * height / 2 - self._scale * float(centre[1])
        return x - self._scale * half, y - self._scale * half, x + self._scale * half, y + self._scale * half

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


def _rgba(colour: Colour, alpha: float) -> tuple[int, int, int, int]:
    red, green, blue = (round(255 * part) for part in colour)
    return red, green, blue, round(255 * alpha)
