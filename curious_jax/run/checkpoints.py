"""Checkpoints of a whole run: when they are written, and what they hold (resume.py reads them).

    checkpoints/<env steps>/
      state/          the whole TrainState and the epoch's metrics so far
      info/           format, the program's version, the config, what the host knows (fit.Progress), the rows so far
      manifest.json   a SHA-256 of each of these files

They are written beside the training (writer.py), and older ones go only once the new one is whole under its name. So
whatever ends the program, or the power, the last whole checkpoint is there. A checkpoint made on a GPU opens on a
machine with one CPU.
"""

import dataclasses
import errno
import os
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import curious_jax
from curious_jax import config as configs
from curious_jax import fit
from curious_jax.config import TrainConfig
from curious_jax.errors import first_line
from curious_jax.learner.state import TrainState
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.run.writer import Writer
from curious_jax.types import Env

FORMAT = 2
DIVERGED = "diverged"
OLD_FORMAT, OLD_PREFIX, OLD_INFO = 1, "state-", "run.json"  # of an earlier version: no manifest


class SaveError(RuntimeError):
    """A checkpoint that could not be written; the message is one line."""


def step(path: Path) -> int:
    """The environment steps after which a checkpoint was made."""
    return int(path.name.removeprefix(OLD_PREFIX))


def way_on(run: Path) -> str:
    """Names the next move after a run could not be written: to resume it, or without a checkpoint to start again."""
    if states(run / runfolder.CHECKPOINTS) or not runfolder.has_results(run):
        return f"continue with --resume {shlex.quote(str(run))}"
    return f"start again {from_config(run)}"


def from_config(run: Path) -> str:
    """Gives the words, and the option of train, that begin a run again from its config.json."""
    return f"with --config {shlex.quote(str(run / runfolder.CONFIG))}"


def states(folder: Path) -> list[Path]:
    """The finished checkpoints in a folder, oldest first."""
    names = [p for p in folder.glob("*") if p.name.removeprefix(OLD_PREFIX).isdecimal() and p.is_dir()]
    return sorted(names, key=step)


def is_old(path: Path) -> bool:
    """Tells whether an earlier version, which wrote no manifests, made the checkpoint."""
    return path.name.startswith(OLD_PREFIX)


class Saver:
    """Decides when a run's checkpoints are due, writes them and removes older ones.

    Args:
      folder: the run's.
      note: gets a line when a checkpoint on the way could not be written; the next one is tried as usual.
    """

    def __init__(self, folder: runfolder.RunFolder, config: TrainConfig, env: Env, note: Callable[[str], None]):
        self._run, self._config, self._env, self._note = folder, config, env, note
        self._folder, self._settings = folder.path / runfolder.CHECKPOINTS, config.checkpoint
        self._writer = Writer(self._folder)
        self._time, self._episodes = -np.inf, -np.inf  # of the last checkpoint

    def due(self, progress: fit.Progress) -> bool:
        """Tells whether a checkpoint is due: at the first call, then by the settings, never two at once."""
        if self._writer.busy:
            return False
        self._settle()
        minutes, episodes = self._settings.checkpoint_minutes, self._settings.checkpoint_episodes
        if not np.isfinite(self._time):
            return True
        if minutes and time.monotonic() - self._time >= 60 * minutes:
            return True
        return episodes is not None and progress.episodes - self._episodes >= episodes

    def start(self, progress: fit.Progress, best: float) -> None:
        """Starts writing a checkpoint; returns once the arrays are copied."""
        self._settle()
        try:
            self._write(progress, best, copy=True)
        except Exception as error:  # orbax and tensorstore raise many kinds
            self._failed(error)

    def finish(self, progress: fit.Progress, best: float) -> None:
        """Writes a checkpoint and waits until it is whole.

        Raises:
          SaveError: naming the folder, the reason and the next move.
        """
        self._settle()
        try:
            self._write(progress, best, copy=False)
            self._writer.wait()
        except Exception as error:
            raise SaveError(f"{self._problem(error)}; make room there, then {way_on(self._run.path)}") from None
        self._remove_older()

    def close(self) -> None:
        """Waits for a checkpoint under way."""
        self._settle()
        self._writer.close()

    def dump(self, progress: fit.Progress) -> Path:
        """Keeps the state of a run whose numbers are no longer finite, for whoever looks for the reason."""
        self._settle()
        folder = self._folder / DIVERGED
        if folder.exists():
            files.remove(folder)
        kept = states(self._folder)
        run = self._run.path
        option, path = ("--resume", run) if kept else ("--config", run / runfolder.CONFIG)
        report = {
            "not_finite": not_finite(progress.state),
            "seeds": list(progress.diverged_seeds),
            "last_good": kept[-1].name if kept else None,
            "reproduce": f"python -m curious_jax.train {option} {shlex.quote(str(path))}",
        }
        writer = Writer(folder)
        writer.start(
            progress.env_steps, tree(progress.state, progress.total), self._info(progress, -1.0) | {"diverged": report}
        )
        writer.close()
        return folder / str(progress.env_steps)

    def _info(self, progress: fit.Progress, best: float) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": curious_jax.__version__,
            "physics": self._env.physics_name,
            "key_impl": str(jax.random.key_impl(progress.state.key)),
            "best": best,
            "metrics": self._run.mark(),
            "progress": progress.saved,
            "config": configs.to_dict(self._config),
        }

    def _write(self, progress: fit.Progress, best: float, copy: bool) -> None:
        self._time, self._episodes = time.monotonic(), progress.episodes
        self._run.check_there()
        steps = progress.env_steps
        if any(step(path) == steps for path in states(self._folder)):  # after a resume that had nothing to do
            return
        held = tree(progress.state, progress.total)
        if copy and jax.default_backend() == "cpu":  # where orbax reads the arrays that the next cycle overwrites
            held = jax.device_put(held, may_alias=False)
        self._writer.start(steps, held, self._info(progress, best))

    def _settle(self) -> None:
        """Waits for a checkpoint under way and takes its end into account."""
        try:
            if self._writer.wait():
                self._remove_older()
        except Exception as error:
            self._failed(error)

    def _remove_older(self) -> None:
        for old in states(self._folder)[: -self._settings.keep_checkpoints]:
            files.remove(old)

    def _failed(self, error: Exception) -> None:
        self._note(f"{self._problem(error)}; the run continues and tries again later")

    def _problem(self, error: Exception) -> str:
        return f"{self._folder}: a checkpoint could not be written ({reason(error)})"


def tree(state: TrainState, total: Any) -> dict[str, Any]:
    """Lays out what a checkpoint holds, without parts that hold nothing: runs of earlier versions lack them, too."""
    parts = {f.name: getattr(state, f.name) for f in dataclasses.fields(state)}
    return {"state": {name: part for name, part in parts.items() if jax.tree.leaves(part)}, "total": total}


def reason(error: Exception) -> str:
    """Says an error in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if (full := os.strerror(errno.ENOSPC)) in str(error):  # within tensorstore's words
        return full
    return first_line(error)


def not_finite(state: TrainState) -> list[str]:
    """The learner's arrays that hold a number that is not finite, by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state.learner)
    numbers = [(path, x) for path, x in leaves if jnp.issubdtype(x.dtype, jnp.inexact)]  # no keys, no counts
    return [jax.tree_util.keystr(path) for path, x in numbers if not np.all(np.isfinite(np.asarray(x)))]
