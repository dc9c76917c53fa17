"""The folder of a run: config.json, metrics.jsonl, summary.json, curves.png, checkpoints/.

A folder belongs to one run: it is claimed by creating config.json exclusively, so two runs started in the same
second, or with the same --out, never share one.
"""

import fcntl
import json
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError

CONFIG, METRICS, SUMMARY, CURVES, CHECKPOINTS = (
    "config.json",
    "metrics.jsonl",
    "summary.json",
    "curves.png",
    "checkpoints",
)


def plain(value: Any) -> Any:
    """Plain JSON data from numbers, arrays and containers; what is not finite becomes None (NaN is not JSON)."""
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
    """Writes a whole JSON file or nothing: to a neighbour first, which then takes the name."""
    text = json.dumps(plain(data), indent=2, allow_nan=False) + "\n"
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(scratch, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def check_name(out: str | None) -> None:
    """Refuses an empty name.

    Raises:
      ConfigError: naming --out.
    """
    if out is not None and not out.strip():
        raise ConfigError("--out: must name a folder, as in --out runs/NAME; or leave it out")


def check(out: str | None) -> None:
    """Refuses, before anything is written, a folder that cannot become the run's.

    Raises:
      ConfigError: naming --out.
    """
    if out is None:
        return
    check_name(out)
    path = Path(out)
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # too long a name, a loop of links, a zero byte
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--out {out[:100]}: cannot be a folder ({why}); name another") from None
    held = [name for name in (CONFIG, METRICS, SUMMARY, CHECKPOINTS) if os.path.lexists(path / name)]
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
    """20261127-235301-curious-reach+push-seed0."""
    modules = "+".join(config.modules)
    if config.distractors:
        modules += f"+{config.distractors}distractors"
    if len(modules) > 60:
        modules = f"{len(config.modules) + config.distractors}modules"
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return f"{stamp}-{config.algorithm}-{modules}-seed{config.seed}"


class RunFolder:
    """The files of one run, held by one process. Made by `claim` or `reopen`; `path` is the folder."""

    def __init__(self, path: Path):
        """Opens it.

        Raises:
          BlockingIOError: when another process holds it.
        """
        self.path = path
        self._metrics = open(path / METRICS, "a")
        try:
            fcntl.flock(self._metrics, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except OSError:
            self._metrics.close()
            raise

    def go_on(self, config: TrainConfig, episodes: int) -> list[dict[str, Any]]:
        """Makes the folder what it was after so many episodes; the rows of metrics.jsonl that stay.

        Rows beyond them go, as does a summary; config.json takes the config.
        """
        rows, size = [], 0
        for line in (self.path / METRICS).read_bytes().splitlines(keepends=True):
            try:
                row = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n") or row["episodes"] > episodes:
                break
            rows.append(row)
            size += len(line)
        for scratch in self.path.glob(".*.json.*"):  # of a program that was killed
            scratch.unlink(missing_ok=True)
        write_json(self.path / CONFIG, configs.to_dict(config))
        self._metrics.truncate(size)
        (self.path / SUMMARY).unlink(missing_ok=True)
        return rows

    def write_rows(self, rows: list[dict[str, Any]]) -> None:
        """Appends one line per row to metrics.jsonl and hands them to the system at once."""
        for row in rows:
            self._metrics.write(json.dumps(plain(row), allow_nan=False) + "\n")
        self._metrics.flush()

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Writes summary.json, whole or not at all."""
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
    try:
        path = Path(out) if out is not None else _new_folder(config, Path(root))
        path.mkdir(parents=True, exist_ok=True)
        with open(path / CONFIG, "x") as file:
            json.dump(configs.to_dict(config), file, indent=2)
            file.write("\n")
    except FileExistsError:
        raise ConfigError(f"--out {out}: holds another run ({CONFIG}); name a new folder") from None
    except OSError as error:
        where = out if out is not None else root
        raise ConfigError(f"--out {where}: cannot be written ({error.strerror}); name another folder") from None
    return RunFolder(path)


def reopen(path: str | Path) -> RunFolder:
    """The folder of a run that is to go on; nothing in it changes yet.

    Raises:
      ConfigError: when another process is at work in it, or it cannot be written to.
    """
    try:
        return RunFolder(Path(path))
    except BlockingIOError:
        raise ConfigError(f"--resume {path}: a program is at work in it; wait for its end, or stop it") from None
    except OSError as error:
        raise ConfigError(f"--resume {path}: cannot be written to ({error.strerror}); copy it elsewhere") from None


def _new_folder(config: TrainConfig, root: Path) -> Path:
    """A folder that did not exist a moment ago, whoever else is making one."""
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


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics.jsonl; a last line cut short by a crash is left out."""
    rows = []
    for line in (Path(path) / METRICS).read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return rows
