"""The folder of a run: config.json, metrics.jsonl, summary.json, curves.png, policies/, checkpoints/.

A folder belongs to one run: whoever creates metrics.jsonl has it, so two runs that start in the same second, or with
the same --out, never share one. Every file but metrics.jsonl is written whole or not at all.
"""

import contextlib
import difflib
import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax import config as configs
from curious_jax.cli.streams import note
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run.rows import CHECKPOINTS as CHECKPOINTS
from curious_jax.run.rows import METRICS as METRICS
from curious_jax.run.rows import parse
from curious_jax.run.rows import read_rows as read_rows

CONFIG, SUMMARY, CURVES, POLICIES = "config.json", "summary.json", "curves.png", "policies"
HELD = (CONFIG, METRICS, SUMMARY, CHECKPOINTS, POLICIES)  # what makes a folder a run's
POLICY_ALONE = "a policy alone, such as four-modules, is for evaluate and play"
SCRATCH = ".*.new*"  # names of unfinished files


def plain(value: Any) -> Any:
    """Converts numbers, arrays and containers to plain JSON data; what is not finite becomes None (NaN is not JSON)."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # NumPy and JAX scalars and arrays
        return plain(np.asarray(value).tolist())
    raise TypeError(f"{type(value).__name__} is no plain data")


def write_json(path: Path, data: Any) -> None:
    """Writes a whole JSON file or nothing."""
    text = json.dumps(plain(data), indent=2, allow_nan=False) + "\n"
    with files.atomic_write(path) as scratch:
        scratch.write_text(text)


def check_name(out: str | None) -> None:
    """Refuses an empty name, and one that the libraries cannot write to. Raises ConfigError, naming --out."""
    if out is None:
        return
    if not out.strip():
        raise ConfigError("--out: must name a folder, as in --out runs/NAME; or leave it out")
    try:
        os.path.abspath(out).encode()
    except UnicodeEncodeError:
        raise ConfigError(f"--out {os.fsencode(out)!r}: the folder's whole path must be UTF-8; name another") from None
    except FileNotFoundError:
        raise ConfigError(f"--out {out}: the current folder was removed; start in another") from None


def check(out: str | None) -> None:
    """Refuses, before anything is written, a folder that cannot become the run's. Raises ConfigError, naming --out."""
    check_name(out)
    if out is None:
        return
    path = Path(out)
    try:
        os.lstat(path)
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"--out {out}: is a link that leads nowhere; name another folder") from None
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a zero byte
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--out {out[:100]}: cannot be a folder ({why}); name another") from None
    held = [name for name in HELD if os.path.lexists(path / name)]
    if held:
        raise ConfigError(f"--out {out}: holds another run ({held[0]}); name a new folder")
    for place in (path, *path.parents):
        if place.exists():
            if not place.is_dir():
                raise ConfigError(f"--out {out}: {place} is a file; name a folder")
            if not os.access(place, os.W_OK | os.X_OK):
                raise ConfigError(f"--out {out}: {place} cannot be written to; name another folder")
            return


def default_name(config: TrainConfig, now: float) -> str:
    """Names a run: 20261127-235301-curious-reach+push-seed0."""
    modules = "+".join(config.modules)
    if config.distractors:
        modules += f"+{config.distractors}distractors"
    if len(modules) > 60:
        modules = f"{len(config.modules) + config.distractors}modules"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return f"{stamp}-{config.algorithm}-{modules}-seed{config.seed}"


class RunFolder:
    """The files of one run, held by one process. Made by `claim` or `reopen`.

    Attributes:
      path: the folder.
      locked: False where the file system has no locks: nothing then keeps a second program out.
    """

    def __init__(self, path: Path, flags: int = 0):
        """Opens and locks metrics.jsonl.

        Args:
          flags: more of os.open's flags.
        Raises:
          BlockingIOError: when another process holds it.
          OSError: when it is no regular file, or cannot be written to.
        """
        self.path, self.locked = path, True
        descriptor = os.open(path / METRICS, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o666)
        self._metrics = open(descriptor, "r+b", buffering=0)
        self._digest, self._size = hashlib.sha256(), 0
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", str(path / METRICS))
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                self.locked = False
                note(f"{path}: the file system has no locks; see to it that no second program works there")
                return
            self._metrics.close()
            raise

    def rows(self, episodes: int, mark: Mapping[str, Any] | None) -> tuple[list[dict[str, Any]], int]:
        """The rows of metrics.jsonl up to a checkpoint, and their bytes.

        Args:
          episodes: done when the checkpoint was made.
          mark: what `mark` said then; None for a checkpoint of an earlier version, which kept none.
        Raises:
          ConfigError: when these rows are not those that were written.
        """
        self._metrics.seek(0)
        data = self._metrics.read()
        rows, size = [], 0
        for row, line in parse(self.path / METRICS, data[: mark["bytes"]] if mark else data, mark):
            if row["episodes"] > episodes or not line.endswith(b"\n"):
                break
            rows.append(row)
            size += len(line)
        return rows, size

    def go_on(self, config: TrainConfig, size: int) -> None:
        """Makes the folder what it was when metrics.jsonl had this many bytes; config.json takes the config."""
        clean(self.path)
        (self.path / SUMMARY).unlink(missing_ok=True)  # first: a longer config beside it would be a run that lost rows
        write_json(self.path / CONFIG, configs.to_dict(config))
        self._metrics.truncate(size)
        self._metrics.seek(0)
        self._digest, self._size = hashlib.sha256(self._metrics.read()), size

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Appends one line per row to metrics.jsonl and hands them to the system at once."""
        self.check_there()
        data = b"".join(json.dumps(plain(row), allow_nan=False).encode() + b"\n" for row in rows)
        written = self._metrics.write(data)
        if written != len(data):  # the disk is full
            self._metrics.truncate(self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path / METRICS))
        self._digest.update(data)
        self._size += len(data)

    def mark(self) -> dict[str, Any]:
        """Bytes and SHA-256 of metrics.jsonl so far, which is on the disk then."""
        os.fsync(self._metrics.fileno())
        return {"bytes": self._size, "sha256": self._digest.hexdigest()}

    def check_there(self) -> None:
        """Notices that the folder was removed or renamed. Raises OSError when it was."""
        try:
            there = os.path.samestat(os.stat(self.path / METRICS), os.fstat(self._metrics.fileno()))
        except FileNotFoundError:
            there = False
        if not there:
            raise OSError(errno.ENOENT, f"{METRICS} was removed, renamed or replaced during the run", str(self.path))

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Writes summary.json, whole or not at all."""
        self.check_there()
        write_json(self.path / SUMMARY, summary)

    def close(self) -> None:
        """Closes metrics.jsonl."""
        self._metrics.close()


def claim(config: TrainConfig, out: str | None = None, root: str | Path = "runs") -> RunFolder:
    """Makes the run's folder and writes config.json into it.

    Args:
      out: the folder's path; None makes a new one under root, named after time, algorithm, modules and seed.
    Raises:
      ConfigError: when out holds another run or cannot be written.
    """
    check(out)
    if out is None:
        check_name(str(root))
    try:
        path = Path(out) if out is not None else _new_folder(config, Path(root))
        path.mkdir(parents=True, exist_ok=True)
        files.sync(path.parent)
        folder = RunFolder(path, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise ConfigError(f"--out {out}: holds another run ({METRICS}); name a new folder") from None
    except OSError as error:
        where = out if out is not None else root
        raise ConfigError(f"--out {where}: cannot be written ({error.strerror}); name another folder") from None
    try:
        write_json(path / CONFIG, configs.to_dict(config))
    except OSError as error:
        folder.close()
        (path / METRICS).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            path.rmdir()
        raise ConfigError(f"--out {path}: cannot be written ({error.strerror}); name another folder") from None
    return folder


def reopen(path: str | Path) -> RunFolder:
    """Opens the folder of a run that is to be resumed; nothing in it changes yet.

    Raises:
      ConfigError: when another process is at work in it, it cannot be written to, or it holds what is no regular file.
    """
    path = Path(path)
    check_regular(path)
    try:
        return RunFolder(path, os.O_CREAT)
    except BlockingIOError:
        raise ConfigError(f"--resume {path}: a program is at work in it; wait for its end, or stop it") from None
    except OSError as error:
        raise ConfigError(f"--resume {path}: cannot be written to ({error.strerror}); copy it elsewhere") from None


def has_results(run: Path) -> bool:
    """Tells whether a run's folder holds figures that a new start would cost."""
    metrics = run / METRICS
    return (run / SUMMARY).exists() or (metrics.is_file() and metrics.stat().st_size > 0)


def nearest(run: Path, others: Iterable[str] = ()) -> str:
    """Says which run beside a missing one, or which of the other names, may be meant: `did you mean NAME? `, or ''."""
    try:
        beside = [path.name for path in run.parent.iterdir() if (path / CONFIG).is_file()]
    except OSError:
        beside = []
    near = difflib.get_close_matches(run.name, [*beside, *others], n=1)
    return f"did you mean {run.parent / near[0] if near[0] in beside else near[0]}? " if near else ""


def check_regular(path: Path) -> None:
    """Refuses a run's folder in which a link, a pipe or a device stands in place of a file or folder.

    Raises:
      ConfigError: naming it.
    """
    for name in (CONFIG, METRICS, SUMMARY, CURVES, CHECKPOINTS, POLICIES):
        for found in [path / name, *(path / name).rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                mode = found.lstat().st_mode
                if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    raise ConfigError(f"{found}: is not a regular file; replace it, or remove it")


def clean(folder: Path) -> None:
    """Removes what a killed program left unfinished in a run's folder."""
    for old in (folder / POLICIES).glob(".*.old"):
        files.recover(old)
    for path in [*folder.glob(SCRATCH), *folder.glob(f"*/{SCRATCH}")]:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _new_folder(config: TrainConfig, root: Path) -> Path:
    """Makes a folder that did not exist a moment ago, whoever else is making one."""
    root.mkdir(parents=True, exist_ok=True)
    name = default_name(config, time.time())
    number = 1
    while True:
        path = root / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1
