"""Checkpoints of a whole run: when and how they are written (resume.py reads them).

    checkpoints/state-<env steps>/
      run.json   format version, the program's version, the config, what the host knows (fit.Progress)
      state/     the whole TrainState and the epoch's metrics so far (orbax)

A thread writes a checkpoint from a copy on the host, under a hidden name; it takes its own name once it is whole, and
only then do older ones go. So whatever ends the program, the last whole one is there. Arrays are written from host
memory and read onto the default device: one made on a GPU opens on a machine with one CPU.
"""

import contextlib
import dataclasses
import errno
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import curious_jax
from curious_jax import config as configs
from curious_jax import fit
from curious_jax.config import TrainConfig
from curious_jax.learner import trainer
from curious_jax.run import folder as runfolder

FORMAT = 1
PREFIX, INFO, STATE = "state-", "run.json", "state"
DIVERGED = "diverged"
OVERHEAD = 2**20  # bytes of orbax's own files, generously


class SaveError(RuntimeError):
    """A checkpoint that could not be written; the message is one line."""


def is_key(x: Any) -> bool:
    """Is this leaf a typed random key?"""
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)


def to_host(tree: Any, copy: bool = True) -> Any:
    """The tree as NumPy arrays (keys as their bits).

    Args:
      copy: also where the host could look straight into a device's memory, as on a CPU: for a tree that is donated.
    """

    def leaf(x: jax.Array) -> np.ndarray:
        x = jax.random.key_data(x) if is_key(x) else x
        return np.array(x, copy=True) if copy and next(iter(x.devices())).platform == "cpu" else np.asarray(x)

    return jax.tree.map(leaf, tree)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keeps orbax from logging the tracebacks of errors that it raises as well."""

    def from_elsewhere(record: logging.LogRecord) -> bool:
        return "orbax" not in record.pathname

    logger = logging.getLogger("absl")
    logger.addFilter(from_elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(from_elsewhere)


def check_room(folder: Path, tree: Any) -> None:
    """Refuses early what may not fit: orbax leaves a full disk with many words, and everybody without room.

    Raises:
      OSError: with the MiB wanted, before compression, and those free.
    """
    needed, free = OVERHEAD + sum(x.nbytes for x in jax.tree.leaves(tree)), shutil.disk_usage(folder).free
    if needed > free:
        sizes = f"{needed / 2**20:,.1f} MiB wanted, {free / 2**20:,.1f} MiB free"
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {sizes}")


def write(path: Path, tree: Any, info: Mapping[str, Any]) -> None:
    """Writes a whole checkpoint, or nothing and raises.

    Args:
      path: its folder, which must not exist.
      tree: of NumPy arrays.
      info: for run.json.
    """
    import orbax.checkpoint as ocp

    new = path.with_name(f".{path.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(parents=True)
        check_room(new, tree)
        with quiet(), ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save((new / STATE).absolute(), tree)
            checkpointer.wait_until_finished()
        runfolder.write_json(new / INFO, info)
        os.rename(new, path)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _remove(path: Path) -> None:
    """Removes a folder; stopped half-way, nothing of it stays under its name."""
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    os.rename(path, old)
    shutil.rmtree(old, ignore_errors=True)


def clean(folder: Path) -> None:
    """Removes what a killed program left half-written or half-removed in a checkpoints folder."""
    for scratch in [*folder.glob(f".{PREFIX}*"), *folder.glob(f".{DIVERGED}*")]:
        shutil.rmtree(scratch, ignore_errors=True)


def states(folder: Path) -> list[Path]:
    """The whole checkpoints of a folder, oldest first."""
    found = [p for p in folder.glob(f"{PREFIX}*") if p.name.removeprefix(PREFIX).isdecimal() and p.is_dir()]
    return sorted(found, key=lambda p: int(p.name.removeprefix(PREFIX)))


class Saver:
    """Writes a run's checkpoints, one at a time, beside the training.

    Args:
      folder: the run's checkpoints/.
      physics: the backend's name.
      note: gets a line when a checkpoint on the way could not be written; the next one is tried as usual.
    """

    def __init__(self, folder: Path, config: TrainConfig, env: Any, note: Callable[[str], None]):
        self._folder, self._config, self._env, self._note = folder, config, env, note
        self._settings = config.checkpoint
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        self._time, self._episodes = -np.inf, -np.inf  # of the last checkpoint

    def due(self, moment: fit.Moment) -> bool:
        """Is it time? The first cycles of a program are; later ones by the settings, never two at once."""
        if self._thread and self._thread.is_alive():
            return False
        minutes, episodes = self._settings.checkpoint_minutes, self._settings.checkpoint_episodes
        if not np.isfinite(self._time):
            return True
        if minutes and time.monotonic() - self._time >= 60 * minutes:
            return True
        return episodes is not None and self._done(moment) - self._episodes >= episodes

    def _done(self, moment: fit.Moment) -> int:
        return moment.progress.cycles * self._config.schedule.num_envs

    def start(self, moment: fit.Moment, best: float) -> None:
        """Starts writing a checkpoint; returns once the moment's arrays are copied."""
        self._wait()
        self._report()
        self._write(moment, best, copy=True)

    def finish(self, moment: fit.Moment, best: float) -> None:
        """Writes a checkpoint and waits until it is whole.

        Raises:
          SaveError: naming the folder, the reason and the next move.
        """
        self._wait()
        self._error = None  # what an earlier one met is told by this one, if it still holds
        self._write(moment, best, copy=False)
        self._wait()
        if self._error:
            again = f"go on with --resume {self._folder.parent}" if states(self._folder) else "begin anew"
            raise SaveError(f"{self._problem()}; make room there, then {again}")

    def close(self) -> None:
        """Waits for a checkpoint under way."""
        self._wait()
        self._report()

    def dump(self, moment: fit.Moment) -> Path:
        """Keeps the state of a run whose numbers are no longer finite, for whoever looks for the reason."""
        self._wait()
        path = self._folder / DIVERGED
        if path.exists():
            _remove(path)
        kept = states(self._folder)
        run = self._folder.parent
        again = f"--resume {run}" if kept else f"--config {run / runfolder.CONFIG}"
        report = {
            "not_finite": not_finite(moment.state),
            "last_good": kept[-1].name if kept else None,
            "reproduce": f"python -m curious_jax.train {again}",
        }
        write(path, self._tree(moment, copy=False), self._info(moment, -1.0) | {"diverged": report})
        return path

    def _tree(self, moment: fit.Moment, copy: bool) -> Any:
        return to_host({"state": moment.state, "total": moment.total}, copy)

    def _info(self, moment: fit.Moment, best: float) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": curious_jax.__version__,
            "physics": self._env.physics_name,
            "key_impl": str(jax.random.key_impl(moment.state.key)),
            "best": best,
            "progress": dataclasses.asdict(moment.progress),
            "config": configs.to_dict(self._config),
        }

    def _write(self, moment: fit.Moment, best: float, copy: bool) -> None:
        done = self._done(moment)
        self._time, self._episodes = time.monotonic(), done
        path = self._folder / f"{PREFIX}{done * self._env.episode_length}"
        if path.exists():  # after a resume that had nothing to do
            return
        tree, info = self._tree(moment, copy), self._info(moment, best)
        self._thread = threading.Thread(target=self._run, args=(path, tree, info), name="checkpoint")
        self._thread.start()

    def _run(self, path: Path, tree: Any, info: dict[str, Any]) -> None:
        """In the thread."""
        try:
            write(path, tree, info)
            for old in states(self._folder)[: -self._settings.keep_checkpoints]:
                _remove(old)
        except Exception as error:  # told by whoever waits; orbax and tensorstore raise many kinds
            self._error = error

    def _wait(self) -> None:
        if self._thread:
            self._thread.join()
            self._thread = None

    def _report(self) -> None:
        if self._error:
            self._note(f"{self._problem()}; the run goes on and tries again later")
            self._error = None

    def _problem(self) -> str:
        assert self._error
        return f"{self._folder}: a checkpoint could not be written ({reason(self._error)})"


def reason(error: Exception) -> str:
    """An error in a few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if (full := os.strerror(errno.ENOSPC)) in str(error):  # within tensorstore's words
        return full
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def not_finite(state: trainer.TrainState) -> list[str]:
    """The learner's arrays that hold a number that is not finite, by their path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state.learner)
    return [jax.tree_util.keystr(path) for path, x in leaves if not np.all(np.isfinite(np.asarray(x)))]
