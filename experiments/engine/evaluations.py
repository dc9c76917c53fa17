"""The evaluations of a cell's run: which there ought to be, whether all are there, and which a measure may use."""

import sys
from pathlib import Path
from typing import Any

from curious_jax.config import TrainConfig
from curious_jax.run import folder as runfolder
from curious_jax.run.rows import FRESH, parse_row
from experiments.engine.grid import Cell

Row = dict[str, Any]
ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)  # no file of this name, or no longer
NUMBERS = ("episodes", "env_steps", "updates", "wall_s")  # what every row holds


def read_rows(path: Path) -> tuple[list[Row], str]:
    """Read metrics.jsonl up to the first line that is no evaluation.

    Returns:
      (rows, what is wrong: empty when every line is an evaluation).
    """
    try:
        return parse_rows(path.read_bytes())
    except ABSENT:
        return [], f"{path.name} is missing"


def parse_rows(data: bytes) -> tuple[list[Row], str]:
    """As read_rows, for what a metrics.jsonl holds."""
    rows: list[Row] = []
    for number, line in enumerate(data.splitlines(), 1):
        row = parse_row(line)
        if row is None or not all(isinstance(row.get(key), (int, float)) for key in NUMBERS):
            return rows, f"line {number} of {runfolder.METRICS} cannot be read"
        rows.append({sys.intern(key): value for key, value in row.items()})  # else each row holds keys of its own
    return rows, ""


def lacks(cell: Cell, config: TrainConfig, rows: list[Row], diverged: bool = False) -> str:
    """Say what the rows of an ended run lack; empty when nothing.

    A run that reached its target or diverged has ended early. One that was lengthened has an evaluation more where it
    ended before.
    """
    early, expected = config.target_success is not None or diverged, list_due(config)
    due = set(expected)
    for seed in cell.seeds:
        every = [row["episodes"] for row in rows if row.get("seed", cell.first) == seed]
        last = every[-1:] if diverged else []  # which may lie between two evaluations
        found = [*(at for at in every[: len(every) - len(last)] if at in due or at > expected[-1]), *last]
        number = sum(at < last[0] for at in expected) if last else len(found)  # that ought to be there before the last
        if not found or found[: len(found) - len(last)] != expected[:number]:
            return f"{runfolder.METRICS} lacks evaluations of seed {seed}"
        if not early and len(found) < len(expected):
            return f"{runfolder.METRICS} ends at {found[-1]:,} of {expected[-1]:,} episodes"
    return ""


def has_ended(cell: Cell, config: TrainConfig, rows: list[Row]) -> bool:
    """Say whether rows that lack nothing are those of a whole run: to its last evaluation, or to its target."""
    last = list_due(config)[-1]
    own = _by_seed(cell, rows)
    return has_met_target(cell, config, rows) or all(found and found[-1]["episodes"] == last for found in own)


def has_met_target(cell: Cell, config: TrainConfig, rows: list[Row]) -> bool:
    """Say whether every seed's success on fresh episodes was the target that its run was to end at."""
    own = _by_seed(cell, rows)
    return config.target_success is not None and all(any(meets_target(config, row) for row in found) for found in own)


def meets_target(config: TrainConfig, row: Row) -> bool:
    """Say whether an evaluation was confirmed on fresh episodes at the target that its run was to end at."""
    target, fresh = config.target_success, row.get(FRESH)
    return target is not None and fresh is not None and bool(fresh >= target)


def take(cell: Cell, config: TrainConfig | None, rows: list[Row], seed: int, diverged: bool = False) -> list[Row]:
    """Return the evaluations of one seed that a measure may use, alike however the seed was run.

    They end at the one that met the run's target: a group trains until all of its seeds have met it. Those off the
    run's own grid are left out, as a run that was lengthened has one where it had ended before; the last one of a run
    that diverged is kept. Where the config cannot be read (None), all are returned.
    """
    own = [row for row in rows if row.get("seed", cell.first) == seed]
    if config is None:
        return own
    due = list_due(config)
    grid, last = set(due), due[-1]
    end = next((i for i, row in enumerate(own) if meets_target(config, row)), len(own) - 1)
    is_last_kept = diverged or (end >= 0 and meets_target(config, own[end]))
    return [
        row
        for i, row in enumerate(own[: end + 1])
        if row["episodes"] in grid or row["episodes"] > last or (is_last_kept and i == end)
    ]


def _by_seed(cell: Cell, rows: list[Row]) -> list[list[Row]]:
    """The evaluations of each of a cell's seeds."""
    return [[row for row in rows if row.get("seed", cell.first) == seed] for seed in cell.seeds]


def is_shorter(cell: Cell, config: TrainConfig) -> bool:
    """Say whether a run is to be trained for fewer episodes than its cell asks for."""
    return config.schedule.episodes < length(cell)


def length(cell: Cell) -> int:
    """The training episodes that a cell asks for."""
    return cell.condition.config(num_seeds=cell.count).schedule.episodes


def list_due(config: TrainConfig) -> list[int]:
    """The numbers of episodes at which a whole run is evaluated."""
    schedule = config.schedule
    cycles = [*range(schedule.cycles_per_epoch, schedule.cycles, schedule.cycles_per_epoch), schedule.cycles]
    return [schedule.num_envs * count for count in cycles]
