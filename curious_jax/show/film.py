"""Shows the learning itself: the same episodes by the policies of several stages, beside the growing curve of success.

A stage is a policy that the run kept on its way (run/milestones.py); the last is the one that it ended with. Each
stage has a column, each episode a row. The film has a part per stage: its column joins the others, all of them play
their episodes, and while the ends of those stand still the curve below grows to the next stage.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.run import milestones, policies
from curious_jax.run.policies import SavedPolicy
from curious_jax.show import curves, video
from curious_jax.show.playback import Recording
from curious_jax.show.stats import Row, module_names

MAX_STAGES = 8  # columns; of more stages, as many are taken at even distances
ADVISED = 6  # policies to keep
WIDTH = {".mp4": 1920, ".gif": 960}  # pixels of the whole picture, at most, unless --size says more
MAX_TILE = 320  # pixels, of a column's width then


@dataclass(frozen=True)
class Stage:
    """A policy of the run, and its place on the curve."""

    policy: SavedPolicy
    episodes: int
    success: float | None  # mean over modules, None where it was not evaluated

    @property
    def title(self) -> str:
        """Says, for example: 2,048 episodes: 0.43."""
        if self.episodes == 0:
            return "untrained"
        return f"{self.episodes:,} episodes" + ("" if self.success is None else f": {self.success:.2f}")


def stages(run: Path, seed_index: int = 0) -> list[Stage]:
    """Finds the stages of a run, from the first policy kept to the last one.

    Args:
      seed_index: whose success is told, of a run with several seeds.
    Raises:
      ConfigError: when the run kept no policies, or one of them cannot be read.
    """
    kept = milestones.find(run)
    if not kept and not (run / runfolder.CONFIG).is_file():
        raise ConfigError(f"--progress: {run} is a policy alone, without those of its way; give the folder of a run")
    if not kept:
        raise ConfigError(
            f"--progress: {run} keeps no policies of its way; train with --keep-policies {ADVISED}, as by "
            f"python -m curious_jax.train --config {run}/config.json --keep-policies {ADVISED}"
        )
    found = [policies.find(run, str(number)) for number in kept]
    last = policies.find(run)
    found += [last] if last.info["episodes"] > kept[-1] else []
    chosen = np.unique(np.linspace(0, len(found) - 1, min(len(found), MAX_STAGES)).round().astype(int))
    return [_stage(found[index], seed_index) for index in chosen]


def _stage(policy: SavedPolicy, seed_index: int) -> Stage:
    success = policy.info.get("mean_success")
    if isinstance(success, list):
        success = success[seed_index] if seed_index < len(success) else None
    return Stage(policy, policy.info["episodes"], success if isinstance(success, (int, float)) else None)


def rows(run: Path, seed: int) -> list[Row]:
    """Reads the metrics of a run, of one of its seeds.

    Raises:
      ConfigError: when there are none yet.
    """
    found = [row for row in runfolder.read_rows(run) if row.get("seed", seed) == seed]
    if not found:
        raise ConfigError(f"{run}: has no evaluation yet; wait for the first")
    return found


def tile_size(number: int, suffix: str) -> tuple[int, int]:
    """Returns width and height in pixels of an episode's picture, for so much room beside one another."""
    width = min(MAX_TILE, (WIDTH[suffix] - video.GAP * (number - 1)) // number)
    return width, width * 3 // 4


def count(recordings: Sequence[Recording]) -> int:
    """Counts the pictures that `frames` yields."""
    return len(recordings) * (recordings[0].length - 1 + video.HOLD)


def frames(
    renderer: Any,
    modules: Any,
    found: Sequence[Stage],
    recordings: Sequence[Recording],
    rows: Sequence[Row],
    goal: Any,
) -> Iterator[np.ndarray]:
    """Yields whole pictures [H, W, 3] uint8.

    Args:
      renderer: draws one state (envs.pictures.protocol.Renderer).
      modules: the environment's module table.
      recordings: of the same starts and goals, a stage each.
      rows: metrics of the run, of one seed.
      goal: makes what the renderer takes from (goal, colour, solved).
    """
    columns: list[list[_Packed]] = []
    growth: Growth | None = None
    for number, (stage, recording) in enumerate(zip(found, recordings, strict=True)):
        columns.append([])
        following = found[min(number + 1, len(found) - 1)].episodes
        for time in range(recording.length):
            drawn = _column(renderer, modules, stage, recording, time, goal)
            columns[-1].append(_Packed(drawn))
            top = video.lay_out([column[time].unpack() for column in columns], len(found))
            growth = growth or Growth(rows, [one.episodes for one in found], top.shape[1])
            still = video.HOLD if time == recording.length - 1 else 1
            for moment in range(still):
                share = moment / max(still - 1, 1)
                below = growth.picture(stage.episodes + share * (following - stage.episodes))
                yield video.make_even(np.vstack([top, below]))


class _Packed:
    """A picture in little memory: all those of a stage are shown again in each later part."""

    def __init__(self, picture: np.ndarray):
        self._shape, self._data = picture.shape, zlib.compress(picture.tobytes(), 1)

    def unpack(self) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._data), np.uint8).reshape(self._shape)


def _column(renderer: Any, modules: Any, stage: Stage, recording: Recording, time: int, goal: Any) -> np.ndarray:
    """Draws a stage's title and its episodes at one step, one below the other."""
    parts: list[np.ndarray] = []
    for episode in range(len(recording.module)):
        marks = [goal(*mark) for mark in video.goals(modules, recording, time, episode)]
        picture = renderer.frame(recording.state(time, episode), marks)
        picture = video.label_episode(picture, modules, recording, time, episode)
        parts += [picture, video.paper(video.GAP, picture.shape[1])]
    return np.vstack([_title(stage.title, parts[0].shape[1]), *parts])


def _title(text: str, width: int) -> np.ndarray:
    """Draws a line of text in the middle of a strip of paper."""
    from PIL import Image, ImageDraw, ImageFont

    size = max(width / 16, 9.0)
    image = Image.fromarray(video.paper(round(1.8 * size), width))
    ImageDraw.Draw(image).text(
        (width / 2, image.size[1] / 2), text, font=ImageFont.load_default(size), fill=video.INK, anchor="mm"
    )
    return np.asarray(image)


class Growth:
    """Draws the success of each module against training episodes, up to any of them.

    Args:
      marks: episodes of the stages, which have a line each.
      width: pixels.
    """

    def __init__(self, rows: Sequence[Row], marks: Sequence[int], width: int):
        self._empty, self._scale = self._draw([], rows, marks, width)
        self._full, _ = self._draw(module_names(rows), rows, marks, width)

    def picture(self, episodes: float) -> np.ndarray:
        """Returns the picture [H, W, 3] with the curve up to these episodes, where a line stands."""
        first, per_episode = self._scale
        at = round(first + per_episode * episodes)
        shown = self._empty.copy()
        shown[:, : at + 1] = self._full[:, : at + 1]
        shown[: round(0.78 * len(shown)), at : at + 2] = video.INK
        return shown

    @staticmethod
    def _draw(
        names: Sequence[str], rows: Sequence[Row], marks: Sequence[int], width: int
    ) -> tuple[np.ndarray, tuple[float, float]]:
        """Returns the picture, the pixel of episode 0, and pixels per episode."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        height, dpi = max(round(0.2 * width), 120), min(max(width / 10, 50), 100)  # small letters in a small picture
        with curves.own_style():
            figure = Figure(figsize=(width / dpi, height / dpi), dpi=dpi)
            canvas = FigureCanvasAgg(figure)
            left, beside = max(0.04, min(55 / width, 0.3)), max(0.05, min(70 / width, 0.4))  # shares of the width
            axes = figure.add_axes((left, 0.22, 1 - beside, 0.7))
            for index, name in enumerate(names):
                if found := curves.line(rows, "eval/success", name):
                    curves.draw(axes, found, name, index)
            axes.set_xlim(0, 1.01 * max(rows[-1]["episodes"], marks[-1]))
            axes.set_ylim(-0.03, 1.03)
            for mark in marks:
                axes.axvline(mark, color="#787c84", linewidth=0.8, linestyle=":")
            axes.set_ylabel("success rate")
            axes.set_xlabel("training episodes")
            curves.frame(axes)
            canvas.draw()
            picture = np.asarray(canvas.buffer_rgba())[..., :3].copy()
            first, last = (float(axes.transData.transform((x, 0.0))[0]) for x in (0.0, 1.0))
        return picture, (first, last - first)
