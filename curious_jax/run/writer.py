"""Writes whole states with orbax, one at a time, beside the training; and reads them.

orbax's CheckpointManager writes in a folder with another name. Orbax itself does not ask the disk for anything, so the
files are made to last and the manifest is added before it gives the folder its name.

Orbax counts its writes in one place for the whole process, and two writers at once can wait for each other for ever.
Nothing else in the program writes with it, and every write here waits for the one before.
"""

import contextlib
import errno
import logging
import os
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax

from curious_jax.run import files, manifest
from curious_jax.run import folder as runfolder

STATE, INFO = "state", "info"
PARTS = (STATE, INFO)
UNFINISHED = "*.orbax-checkpoint-tmp*"
OVERHEAD = 2**20  # bytes of orbax's own files, generously


def orbax() -> Any:
    """Imports orbax, and keeps it from logging the tracebacks of errors that it raises as well."""
    import orbax.checkpoint as ocp

    logging.getLogger("absl").addFilter(_from_elsewhere)
    return ocp


def _from_elsewhere(record: logging.LogRecord) -> bool:
    return "orbax" not in record.pathname


def clean(folder: Path) -> None:
    """Removes what a killed program left half-written or half-removed in a checkpoints folder."""
    for scratch in [*folder.glob(UNFINISHED), *folder.glob(".*")]:
        shutil.rmtree(scratch, ignore_errors=True)


def read(path: Path, like: Any) -> Any:
    """Reads a tree that orbax wrote, with the structure, types and shardings of `like`.

    Raises:
      Exception: of many kinds, when its files are damaged.
    """
    with orbax().StandardCheckpointer() as checkpointer:
        return checkpointer.restore(path.absolute(), like)


def check_room(folder: Path, tree: Any) -> None:
    """Refuses early what may not fit: orbax leaves a full disk with many words, and everybody without room.

    Raises:
      OSError: with the MiB wanted, before compression, and those free.
    """
    needed, free = OVERHEAD + sum(x.nbytes for x in jax.tree.leaves(tree)), shutil.disk_usage(folder).free
    if needed > free:
        sizes = f"{needed / 2**20:,.1f} MiB wanted, {free / 2**20:,.1f} MiB free"
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {sizes}")


class Writer:
    """Writes whole checkpoints into a folder, one at a time, beside the training."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._manager: Any = None
        self._step: int | None = None  # of the checkpoint under way

    _last: "Writer | None" = None  # the writer in this process that wrote last
    _starting = threading.Lock()

    @property
    def busy(self) -> bool:
        """Tells whether a checkpoint is being written."""
        return self._step is not None and self._manager.is_saving_in_progress()

    def start(self, step: int, tree: Any, info: Mapping[str, Any]) -> None:
        """Starts a checkpoint; returns once the host holds the arrays, or shares those that stay in its memory."""
        ocp = orbax()
        self.wait()
        self._folder.mkdir(parents=True, exist_ok=True)
        files.sync(self._folder.parent)
        check_room(self._folder, tree)
        if self._manager is None:
            options = ocp.CheckpointManagerOptions(
                save_root_metadata=False,
                cleanup_tmp_directories=True,
                lightweight_initialize=True,
                async_options=ocp.options.AsyncOptions(post_finalization_callback=self._seal),
            )
            self._manager = ocp.CheckpointManager(self._folder.absolute(), options=options)
        self._step = step
        items = {STATE: ocp.args.StandardSave(tree), INFO: ocp.args.JsonSave(runfolder.plain(info))}
        try:
            with Writer._starting:
                if Writer._last is not None and Writer._last is not self:
                    Writer._last._let_finish()
                Writer._last = self
                self._manager.save(step, args=ocp.args.Composite(**items), force=True)
        except BaseException:
            self._forget()
            raise

    def wait(self) -> bool:
        """Waits for the checkpoint under way; False when there is none. Raises what kept it from being written."""
        if self._step is None:
            return False
        try:
            self._manager.wait_until_finished()
            files.sync(self._folder)
            self._step = None
            return True
        except BaseException:
            self._forget()
            raise

    def close(self) -> None:
        """Waits, and ends orbax's threads."""
        self.wait()
        if self._manager:
            self._manager.close()
            self._manager = None

    def _let_finish(self) -> None:
        """Waits for the checkpoint under way; its owner learns how it ended."""
        with contextlib.suppress(Exception):
            if self._manager:
                self._manager.wait_until_finished()

    def _seal(self) -> None:
        """Runs in orbax's thread when all is written, before the folder gets its name."""
        (unfinished,) = self._folder.glob(f"{self._step}{UNFINISHED.removeprefix('*')}")
        manifest.seal(unfinished, PARTS)

    def _forget(self) -> None:
        """Drops a manager whose write failed, and what is left of it."""
        self._manager, self._step = None, None
        clean(self._folder)
