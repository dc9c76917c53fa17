"""Checksums over the files of a checkpoint or a policy, and their way onto the disk."""

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from curious_jax.run import files
from curious_jax.run import folder as runfolder

MANIFEST = "manifest.json"


class Damaged(ValueError):
    """Files are not those that were written; the message names one of them."""


def seal(folder: Path, parts: Sequence[str]) -> None:
    """Writes the SHA-256 of every file in a folder's parts; after it, files and folders have reached the disk.

    Args:
      folder: a checkpoint or a policy that does not have its final name yet.
      parts: names of the files and folders in it that count.
    """
    digests: dict[str, str] = {}
    folders: set[Path] = set()
    for name, path in _files(folder, parts):
        with open(path, "rb") as file:
            digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        folders.update(p for p in path.parents if p.is_relative_to(folder))
    for path in sorted(folders, reverse=True):
        files.sync(path)
    runfolder.write_json(folder / MANIFEST, {"sha256": digests})


def verify(folder: Path, parts: Sequence[str]) -> None:
    """Compares the files of a folder's parts with its manifest.

    Raises:
      Damaged: naming the first file that is missing, too many, or not what was written.
    """
    try:
        wanted = dict(json.loads(files.read_text(folder / MANIFEST))["sha256"])
        found = dict(_files(folder, parts))
        for name in sorted({*wanted, *found}):
            if name not in found:
                raise Damaged(f"{name} is missing")
            with files.open_regular(found[name]) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != wanted.get(name):
                    raise Damaged(f"{name} is not what was written")
    except OSError as error:
        raise Damaged(f"{os.path.basename(error.filename or folder)}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise error if isinstance(error, Damaged) else Damaged(f"{MANIFEST} is damaged") from None


def _files(folder: Path, parts: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """(name relative to the folder, path) of every file in the parts.

    Raises:
      Damaged: for a link, a pipe or a device among them.
    """
    for part in parts:
        for path in [folder / part, *(folder / part).rglob("*")]:
            name = path.relative_to(folder).as_posix()
            try:
                mode = path.lstat().st_mode
            except OSError as error:
                raise Damaged(f"{name}: {error.strerror}") from None
            if stat.S_ISREG(mode):
                yield name, path
            elif not stat.S_ISDIR(mode):
                raise Damaged(f"{name} is not a regular file")
