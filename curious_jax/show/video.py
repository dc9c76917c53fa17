"""Turns recorded episodes into moving pictures: tiles with labels, side by side, written as .mp4 or .gif."""

import errno
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError, check_installed
from curious_jax.run import files
from curious_jax.show import curves
from curious_jax.show.playback import Recording
from curious_jax.types import FLAT

FORMATS = (".mp4", ".gif")
PACKAGES = ("PIL", "imageio_ffmpeg")  # what draws and writes them
FPS = 25  # the arm's control frequency: episodes pass as they would
HOLD = 20  # frames for which the end of an episode stays
GAP = 4  # pixels between tiles
INK, _WHITE = (33, 37, 43), (255, 255, 255)
_GREEN, _GREY = (22, 150, 82), (120, 124, 132)
_GIF_COLOURS = 224  # of the first picture; the labels' own, which come later, join them


def check(path: str) -> Path:
    """Returns the path of a video to be written, checked before anything is done.

    Raises:
      ConfigError: when its ending, name or folder is wrong, or what writes it is not installed.
    """
    video, shown = Path(path), f"--video {path[:200]}"
    if video.suffix.lower() not in FORMATS:
        raise ConfigError(f"{shown}: must end in .mp4 or .gif")
    try:
        os.lstat(video)
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise ConfigError(f"{shown}: {getattr(error, 'strerror', None) or error}; name another file") from None
    if video.is_dir():
        raise ConfigError(f"{shown}: is a folder; name a file in it")
    if not video.parent.is_dir():
        raise ConfigError(f"{shown}: there is no folder {video.parent}; make it, or name another")
    if not os.access(video.parent, os.W_OK | os.X_OK):
        raise ConfigError(f"{shown}: {video.parent} cannot be written to; name another folder")
    check_installed(shown, "play", *PACKAGES)
    return video


def share(index: int) -> tuple[float, float, float]:
    """Returns a module's colour as red, green, blue in [0, 1], as the renderers take it."""
    red, green, blue = curves.rgb(index)
    return red / 255, green / 255, blue / 255


def goals(modules: Any, recording: Recording, time: int, episode: int) -> list[tuple[Any, Any, bool, float | None]]:
    """Returns (place, colour, solved, radius) of the goals of the modules asked for: one, or all for the flat goal."""
    module = int(recording.module[episode])
    chosen = range(modules.num_modules) if module == FLAT else [module]
    solved = bool(recording.solved[time, episode])
    goal, obs = recording.goal[time, episode], recording.states.obs[time, episode]
    places = [modules.place(i, goal[modules.slots[i]], obs) for i in chosen]
    return [(place, share(i), solved, modules.radii[i]) for i, place in zip(chosen, places, strict=True)]


def frames(renderer: Any, modules: Any, recording: Recording, tiles: int, goal: Any) -> Iterator[np.ndarray]:
    """Yields whole pictures [H, W, 3] uint8, `tiles` episodes at a time, one such round after the other.

    Args:
      renderer: draws one state (envs.pictures.protocol.Renderer).
      modules: the environment's module table.
      goal: makes what the renderer takes from (goal, colour, solved, radius).
    """
    for first in range(0, len(recording.module), tiles):
        for time in range(recording.length):
            shown = []
            for episode in range(first, first + tiles):
                marks = [goal(*mark) for mark in goals(modules, recording, time, episode)]
                picture = renderer.frame(recording.state(time, episode), marks)
                shown.append(label_episode(picture, modules, recording, time, episode))
            whole = tile(shown)
            yield from [whole] * (HOLD if time == recording.length - 1 else 1)


def count(recording: Recording, tiles: int) -> int:
    """Counts the pictures that `frames` yields."""
    return len(recording.module) // tiles * (recording.length - 1 + HOLD)


def tile(pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Lays pictures of one size out in a nearly square grid of even width and height."""
    return make_even(lay_out(pictures, math.ceil(math.sqrt(len(pictures)))))


def lay_out(pictures: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Lays pictures of one size out row by row, with room for as many beside one another as there are columns."""
    rows = math.ceil(len(pictures) / columns)
    height, width = pictures[0].shape[:2]
    whole = paper(rows * (height + GAP) - GAP, columns * (width + GAP) - GAP)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        top, left = row * (height + GAP), column * (width + GAP)
        whole[top : top + height, left : left + width] = picture
    return whole


def paper(height: int, width: int) -> np.ndarray:
    """Makes an empty picture."""
    return np.full((height, width, 3), _WHITE, np.uint8)


def make_even(picture: np.ndarray) -> np.ndarray:
    """Makes width and height even, as video wants them."""
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")


def label_episode(picture: np.ndarray, modules: Any, recording: Recording, time: int, episode: int) -> np.ndarray:
    """Labels a tile: the module's name, whether its goal is reached, how far the episode is."""
    module = int(recording.module[episode])
    name = "all modules at once" if module == FLAT else modules.names[module]
    paint = INK if module == FLAT else curves.rgb(module)
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

    def wide(text: str) -> float:
        box = draw.textbbox((0, 0), text, font=font)
        return box[2] - box[0] + 2 * unit

    def shortened(text: str, room: float) -> str:
        shorter = [text, *(text[:end] + "…" for end in range(len(text) - 1, 0, -1))]
        return next((one for one in shorter if wide(one) <= room), "")

    def chip(text: str, fill: Any, left: bool) -> None:
        box = draw.textbbox((0, 0), text, font=font)
        top = unit
        x = unit if left else width - unit - wide(text)
        draw.rounded_rectangle((x, top, x + wide(text), top + 3.6 * unit), radius=0.8 * unit, fill=fill)
        draw.text((x + unit - box[0], top + 1.8 * unit), text, font=font, fill=_WHITE, anchor="lm")

    status = ("solved" if solved else "not solved") if solved or ended else ""
    beside = shortened(name, width - 3 * unit - wide(status)) if status else ""
    if beside:  # else there is room for the name alone; the border and the bar say the rest
        chip(status, _GREEN if solved else _GREY, left=False)
    if shown := beside or shortened(name, width - 2 * unit):
        chip(shown, paint, left=True)
    bar = max(round(unit / 2), 2)
    draw.rectangle((0, height - bar, round(progress * width), height), fill=paint)
    if solved:
        draw.rectangle((0, 0, width - 1, height - 1), outline=_GREEN, width=bar)
    return np.asarray(image)


class Writer:
    """Makes a video of pictures: `with Writer(path) as video: video.append(picture)`.

    ffmpeg, which imageio-ffmpeg brings, takes the pictures one by one and writes into a file without a name. The video
    takes its name when it is whole; whatever ends it earlier, even a kill, leaves nothing behind.
    """

    def __init__(self, path: Path):
        """Opens the file without a name. Raises OSError when the folder cannot be written to."""
        self._path = path
        self._file = tempfile.TemporaryFile(dir=path.parent)
        self._ffmpeg: subprocess.Popen | None = None

    def __enter__(self) -> "Writer":
        return self

    def append(self, picture: np.ndarray) -> None:
        """Adds a picture [H, W, 3] uint8, all of one size.

        Raises:
          OSError: when ffmpeg cannot write, with what it says.
        """
        if self._ffmpeg is None:
            self._ffmpeg = self._start(picture)
        assert self._ffmpeg.stdin
        try:
            self._ffmpeg.stdin.write(np.ascontiguousarray(picture).data)
        except BrokenPipeError:
            self._finish(self._ffmpeg)

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        with self._file:
            if self._ffmpeg and kind is None:
                self._finish(self._ffmpeg)
                with files.atomic_write(self._path) as scratch, open(scratch, "wb") as whole:
                    self._file.seek(0)
                    shutil.copyfileobj(self._file, whole)
            elif self._ffmpeg:
                self._ffmpeg.kill()
                self._ffmpeg.communicate()

    def _start(self, picture: np.ndarray) -> subprocess.Popen:
        import imageio_ffmpeg

        height, width = picture.shape[:2]
        taken, pixels = self._file.fileno(), ["-f", "rawvideo", "-pix_fmt", "rgb24"]
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y"]
        command += [*pixels, "-s", f"{width}x{height}", "-r", str(FPS), "-i", "pipe:0"]
        palette = None
        if self._path.suffix.lower() == ".gif":  # one palette for all pictures: what stands still costs nothing
            palette, filled = os.pipe()
            os.write(filled, _palette(picture).tobytes())  # 768 bytes, which a pipe holds
            os.close(filled)
            use = "[0:v][1:v]paletteuse=dither=none:diff_mode=rectangle"
            command += [*pixels, "-s", "16x16", "-i", f"pipe:{palette}", "-lavfi", use, "-loop", "0", "-f", "gif"]
        else:
            command += ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-f", "mp4"]
            command += ["-movflags", "+faststart"] if os.path.isdir("/proc/self/fd") else []  # needs to open it twice
        output = f"/proc/self/fd/{taken}" if os.path.isdir("/proc/self/fd") else f"/dev/fd/{taken}"
        try:
            return subprocess.Popen(
                [*command, output],
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[taken] if palette is None else [taken, palette],
                process_group=0,  # Ctrl-C is for this program, which then ends ffmpeg
            )
        finally:
            if palette is not None:
                os.close(palette)

    def _finish(self, ffmpeg: subprocess.Popen) -> None:
        """Waits for ffmpeg's end. Raises OSError when it failed, with its last line."""
        _, said = ffmpeg.communicate()
        if ffmpeg.returncode:
            self._ffmpeg = None
            lines = said.decode(errors="replace").strip().splitlines() or [f"ffmpeg ended with {ffmpeg.returncode}"]
            full = os.strerror(errno.ENOSPC)
            if any(full in line for line in lines):
                raise OSError(errno.ENOSPC, full, str(self._path))
            raise OSError(errno.EIO, re.sub(r"^\[.*?\] ", "", lines[-1]), str(self._path))


def _palette(picture: np.ndarray) -> np.ndarray:
    """Returns 256 colours [16, 16, 3] for a GIF: those of a picture, the frequent and the rare, and of every label."""
    from PIL import Image

    image = Image.fromarray(picture)
    each = np.unique(picture.reshape(-1, 3), axis=0)[None]  # a goal's ball is small, yet what one looks at
    halves = [
        part.quantize(_GIF_COLOURS // 2, method=Image.Quantize.MEDIANCUT) for part in (image, Image.fromarray(each))
    ]
    found = [value for half in halves for value in (half.getpalette() or [])[: 3 * (_GIF_COLOURS // 2)]]
    modules = [part for index in range(len(curves.COLOURS)) for part in curves.rgb(index)]
    colours = np.array([*found, *_GREEN, *_GREY, *INK, *_WHITE, *modules], np.uint8).reshape(-1, 3)
    return np.pad(colours, ((0, 256 - len(colours)), (0, 0)), mode="edge").reshape(16, 16, 3)
