"""Makes a video every few evaluations of a run under way, RUN/videos/EPISODES.mp4 (--record-every N)."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from curious_jax import evaluation
from curious_jax.config import TrainConfig
from curious_jax.errors import check_installed
from curious_jax.fit import Progress
from curious_jax.learner import perturbation
from curious_jax.learner.state import policy_params
from curious_jax.run.policies import Loaded
from curious_jax.show import playback, sinks, video
from curious_jax.types import Env, Status

VIDEOS = "videos"  # a folder inside the run's
SIZE = (320, 240)  # pixels of an episode's picture


def check(every: int) -> None:
    """Refuses --record-every where nothing can write a video. Raises ConfigError, saying what to install."""
    if every:
        check_installed("--record-every", "play", *video.PACKAGES)


class Videos:
    """Records an episode of each achievable module, one beside the other; a callback of `fit`.

    Starts and goals are the same in every video. Of several seeds the first is shown. When a video fails, the user is
    told once and the run continues without.

    Args:
      folder: the run's.
      renderer: makes what draws a state, in pictures of SIZE (envs.pictures.protocol.Renderer).
      goal: makes what the renderer takes from (goal, colour, solved).
      note: gets a line for the user.
      log: gets each video's path and episodes; None for nobody.
    """

    def __init__(
        self,
        config: TrainConfig,
        env: Env,
        folder: Path,
        renderer: Callable[[], Any],
        goal: Any,
        note: Callable[[str], None],
        log: Callable[[Path, int], None] | None = None,
    ):
        self._every = config.checkpoint.record_every * config.schedule.cycles_per_epoch
        self._seeds, self._config = config.num_seeds, dataclasses.replace(config, num_seeds=1, devices=1)
        self._env, self._folder = env, folder / VIDEOS
        self._make, self._goal, self._note, self._log = renderer, goal, note, log
        self._renderer: Any = None
        self._record: Callable[[Loaded, jax.Array], playback.Recording] | None = None

    def __call__(self, progress: Progress) -> None:
        """Makes a video when one is due."""
        if self._every and self.is_due(progress):
            try:
                path = self._write(progress)
                if self._log:
                    self._log(path, progress.episodes)
            except Exception as error:  # no OpenGL, a full disk: the run is worth more
                self._every = 0
                self._note(f"{self._folder}: {sinks.say_error(error)}; the run continues without videos")

    def is_due(self, progress: Progress) -> bool:
        """Tells whether this is every Nth evaluation; after a resume the same ones as without."""
        return bool(progress.metrics) and progress.status is not Status.DIVERGED and progress.cycles % self._every == 0

    def close(self) -> None:
        """Frees what drew."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _write(self, progress: Progress) -> Path:
        """Plays and draws one video."""
        params = jax.device_get(policy_params(progress.state))
        if self._seeds > 1:
            params = jax.tree.map(lambda leaf: leaf[0], params)
        offset = perturbation.offset(self._config.perturbation, self._env, progress.episodes)
        loaded = Loaded(self._config, self._env, jax.device_put(params), offset, progress.episodes)
        shown = evaluation.achievable(self._env)
        self._record = self._record or playback.recorder(loaded, shown)
        self._renderer = self._renderer or self._make()
        recording = self._record(loaded, jax.random.key(self._config.seed))
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{progress.episodes}.mp4"
        with video.Writer(path) as file:
            for page in video.frames(self._renderer, self._env.modules, recording, len(np.asarray(shown)), self._goal):
                file.append(page)
        return path
