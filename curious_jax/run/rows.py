"""Reads metrics.jsonl: its rows by today's keys, and whether they are those that a checkpoint speaks of."""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from curious_jax.errors import ConfigError
from curious_jax.run import files

METRICS, CHECKPOINTS = "metrics.jsonl", "checkpoints"  # in a run's folder
FRESH = "eval/fresh"  # where --target-success was met: success on fresh episodes, which confirms that evaluation
RENAMED = {"nan_episodes": "invalid_episodes"}  # keys of earlier versions


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics.jsonl; a last line cut short by a crash is left out.

    Raises:
      ConfigError: naming the file and the line that is damaged, or saying why it cannot be read.
    """
    mark, path = _last_mark(Path(path)), Path(path) / METRICS  # in this order: a living run adds rows
    try:
        with files.open_regular(path) as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    return [row for row, _ in parse(path, data, mark)]


def parse(path: Path, data: bytes, mark: Mapping[str, Any] | None) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Yields the rows in what metrics.jsonl holds, each with its line; a last line cut short by a crash is left out.

    Args:
      mark: bytes and SHA-256 of the rows that a checkpoint speaks of (RunFolder.mark); None for no such check.
    Raises:
      ConfigError: when those rows, or a line other than the last, are not what was written.
    """
    lines = data.splitlines(keepends=True)
    advice = "put the file back as it was, or remove it to continue without the rows so far"
    if mark and data and not _fits(data, mark):
        raise ConfigError(f"{path}: rows before the checkpoint are damaged or missing; {advice}")
    for number, line in enumerate(lines, 1):
        row = parse_row(line)
        if number < len(lines) and (row is None or not line.endswith(b"\n")):
            raise ConfigError(f"{path}: line {number} is damaged; {advice}")
        if row is not None:
            yield row, line


def _last_mark(run: Path) -> dict[str, Any] | None:
    """Reads what a run's last checkpoint says of metrics.jsonl (`mark`); None where none can be read."""
    try:
        steps = [int(path.name) for path in (run / CHECKPOINTS).glob("*") if path.name.isdecimal()]
        mark = json.loads(files.read_text(run / CHECKPOINTS / str(max(steps)) / "info" / "metadata"))["metrics"]
        return {"bytes": int(mark["bytes"]), "sha256": str(mark["sha256"])}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _fits(data: bytes, mark: Mapping[str, Any]) -> bool:
    """Tells whether metrics.jsonl begins with the bytes that a mark speaks of."""
    size = mark["bytes"]
    return len(data) >= size and hashlib.sha256(data[:size]).hexdigest() == mark["sha256"]


def parse_row(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl by today's keys: a flat object of numbers; None for anything else."""
    try:
        row = json.loads(line)
        known = type(row["episodes"]) is int and 0 <= row["episodes"] < 2**63
        numbers = all(v is None or (type(v) in (int, float) and math.isfinite(v)) for v in row.values())
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    return {RENAMED.get(key, key): value for key, value in row.items()} if known and numbers else None
