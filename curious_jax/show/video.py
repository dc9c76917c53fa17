"""Recorded episodes as moving pictures: tiles with labels, side by side, written as .mp4 or .gif."""

import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError
from curious_jax.show import curves
from curious_jax.show.playback import Recording
from curious_jax.types import FLAT

FORMATS = (".mp4", ".gif")
FPS = 25  # the arm's control frequency: episodes pass as they would
HOLD = 20  # frames for which the end of an episode stays
_GAP = 4  # pixels between tiles
_PAPER, _INK, _WHITE = (255, 255, 255), (33, 37, 43), (255, 255, 255)
_GREEN, _GREY = (22, 150, 82), (120, 124, 132)
_GIF_COLOURS = 224  # of the first picture; the labels' own, which come later, join them


def check(path: str) -> Path:
    """The path of a video to be written, looked at before anything is done.

    Raises:
      ConfigError: when its ending or folder is wrong, or what writes it is not installed.
    """
    video = Path(path)
    if video.suffix.lower() not in FORMATS:
        raise ConfigError(f"--video {path}: must end in .mp4 or .gif")
    if video.is_dir():
        raise ConfigError(f"--video {path}: is a folder; name a file in it")
    if not video.parent.is_dir():
        raise ConfigError(f"--video {path}: there is no folder {video.parent}; make it, or name another")
    if not os.access(video.parent, os.W_OK):
        raise ConfigError(f"--video {path}: {video.parent} cannot be written to; name another folder")
    needed = ("PIL", "imageio_ffmpeg") if video.suffix.lower() == ".mp4" else ("PIL",)
    if not all(importlib.util.find_spec(name) for name in needed):
        raise ConfigError(f'--video {path}: needs more packages: pip install "curious_jax[play]"')
    return video


def colour(index: int) -> tuple[float, float, float]:
    """A module's colour, as in the curves; red, green, blue in [0, 1]."""
    text = curves.COLOURS[index % len(curves.COLOURS)]
    red, green, blue = (int(text[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def goals(modules: Any, recording: Recording, time: int, episode: int) -> list[tuple[Any, Any, bool]]:
    """(goal [d], colour, solved) of the modules asked for: one, or all of them for the flat goal."""
    module = int(recording.module[episode])
    chosen = range(modules.num_modules) if module == FLAT else [module]
    solved = bool(recording.solved[time, episode])
    return [(recording.goal[time, episode, modules.slots[i]], colour(i), solved) for i in chosen]


def frames(renderer: Any, modules: Any, recording: Recording, tiles: int, goal: Any) -> Iterator[np.ndarray]:
    """Whole pictures [H, W, 3] uint8, `tiles` episodes at a time, one such round after the other.

    Args:
      renderer: draws one state (envs.pictures.door.Renderer).
      modules: the environment's module table.
      goal: makes what the renderer takes from (goal, colour, solved).
    """
    for first in range(0, len(recording.module), tiles):
        for time in range(recording.length):
            shown = []
            for episode in range(first, first + tiles):
                marks = [goal(*mark) for mark in goals(modules, recording, time, episode)]
                picture = renderer.frame(recording.state(time, episode), marks)
                shown.append(_labelled(picture, modules, recording, time, episode))
            whole = tiled(shown)
            yield from [whole] * (HOLD if time == recording.length - 1 else 1)


def count(recording: Recording, tiles: int) -> int:
    """How many pictures `frames` makes."""
    return len(recording.module) // tiles * (recording.length - 1 + HOLD)


def tiled(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Pictures of one size in a grid that is as square as can be; even width and height, as video wants them."""
    columns = math.ceil(math.sqrt(len(pictures)))
    rows = math.ceil(len(pictures) / columns)
    height, width = pictures[0].shape[:2]
    size = [rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP]
    whole = np.full((size[0] + size[0] % 2, size[1] + size[1] % 2, 3), _PAPER, np.uint8)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        top, left = row * (height + _GAP), column * (width + _GAP)
        whole[top : top + height, left : left + width] = picture
    return whole


def _labelled(picture: np.ndarray, modules: Any, recording: Recording, time: int, episode: int) -> np.ndarray:
    """A tile: the module's name, whether its goal is reached, how far the episode is; a green border on success."""
    module = int(recording.module[episode])
    name = "all modules at once" if module == FLAT else modules.names[module]
    paint = _INK if module == FLAT else tuple(round(255 * part) for part in colour(module))
    ended = time == recording.length - 1
    return label(picture, name, paint, bool(recording.solved[time, episode]), time / (recording.length - 1), ended)


def label(picture: np.ndarray, name: str, paint: Any, solved: bool, progress: float, ended: bool = False) -> np.ndarray:
    """Writes onto a picture [H, W, 3] what it shows.

    Args:
      paint: the module's colour, three numbers up to 255.
      progress: the share of the episode that has passed.
      ended: at the last step, which decides.
    """
    from PIL import Image, ImageDraw, ImageFont

    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    width, height = image.size
    unit = max(height / 48, 4.0)  # everything scales with the tile
    font = ImageFont.load_default(2.2 * unit)

    def chip(text: str, fill: Any, left: bool) -> None:
        box = draw.textbbox((0, 0), text, font=font)
        wide, top = box[2] - box[0] + 2 * unit, unit
        x = unit if left else width - unit - wide
        draw.rounded_rectangle((x, top, x + wide, top + 3.6 * unit), radius=0.8 * unit, fill=fill)
        draw.text((x + unit - box[0], top + 1.8 * unit), text, font=font, fill=_WHITE, anchor="lm")

    chip(name, paint, left=True)
    if solved or ended:
        chip("solved" if solved else "not solved", _GREEN if solved else _GREY, left=False)
    bar = max(round(unit / 2), 2)
    draw.rectangle((0, height - bar, round(progress * width), height), fill=paint)
    if solved:
        draw.rectangle((0, 0, width - 1, height - 1), outline=_GREEN, width=bar)
    return np.asarray(image)


class Writer:
    """Takes pictures and makes a video of them: `with writer(path) as video: video.append(picture)`.

    The file gets its name when it is whole; whatever ends it earlier leaves nothing behind.
    """

    def __init__(self, path: Path):
        self.path = path
        self._scratch = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")

    def append(self, picture: np.ndarray) -> None:
        """Adds a picture [H, W, 3] uint8, all of one size."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Ends the file."""
        raise NotImplementedError

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        try:
            self._finish()
            if kind is None:
                os.replace(self._scratch, self.path)
        finally:
            self._scratch.unlink(missing_ok=True)


class Mp4(Writer):
    """H.264 by ffmpeg, which imageio-ffmpeg brings."""

    _sink: Any = None

    def append(self, picture: np.ndarray) -> None:
        """Hands a picture to ffmpeg."""
        import imageio_ffmpeg

        if self._sink is None:
            # Without this imageio-ffmpeg asks for a fork, which can hang a process in which JAX runs threads.
            os.environ.setdefault("IMAGEIO_FFMPEG_NO_PREVENT_SIGINT", "1")
            size = picture.shape[1], picture.shape[0]
            options = ["-crf", "20", "-preset", "medium", "-movflags", "+faststart"]
            self._sink = imageio_ffmpeg.write_frames(
                str(self._scratch), size, fps=FPS, codec="libx264", quality=None, macro_block_size=2,
                output_params=options, ffmpeg_log_level="error",
            )  # fmt: skip
            self._sink.send(None)
        self._sink.send(np.ascontiguousarray(picture))

    def _finish(self) -> None:
        if self._sink is not None:
            self._sink.close()


class Gif(Writer):
    """A GIF that repeats for ever, with one palette for all its pictures, so that what stands still costs nothing."""

    def __init__(self, path: Path):
        super().__init__(path)
        self._pictures: list[Any] = []  # paletted
        self._palette: Any = None

    def append(self, picture: np.ndarray) -> None:
        """Keeps a picture, in a byte per pixel."""
        from PIL import Image

        image = Image.fromarray(picture)
        if self._palette is None:
            self._palette = _palette(image)
        self._pictures.append(image.quantize(palette=self._palette, dither=Image.Dither.NONE))

    def _finish(self) -> None:
        if self._pictures:
            first, *rest = self._pictures
            pause = 1000 // FPS
            first.save(self._scratch, format="GIF", save_all=True, append_images=rest, duration=pause, loop=0)


def _palette(image: Any) -> Any:
    """A paletted image that holds the colours of a picture, the frequent ones and the rare, and of every label."""
    from PIL import Image

    each = np.unique(np.asarray(image).reshape(-1, 3), axis=0)[None]  # a goal's ball is small, yet what one looks at
    halves = [
        part.quantize(_GIF_COLOURS // 2, method=Image.Quantize.MEDIANCUT) for part in (image, Image.fromarray(each))
    ]
    found = [value for half in halves for value in (half.getpalette() or [])[: 3 * (_GIF_COLOURS // 2)]]
    modules = [round(255 * part) for index in range(len(curves.COLOURS)) for part in colour(index)]
    result = Image.new("P", (1, 1))
    result.putpalette([*found, *_GREEN, *_GREY, *_INK, *_WHITE, *modules])
    return result


def writer(path: Path) -> Writer:
    """What writes this kind of file."""
    return Gif(path) if path.suffix.lower() == ".gif" else Mp4(path)
