"""The tidy table of an experiment: one row per condition, seed and evaluation, from the cells' folders."""

import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.engine.cells import CellState, Row
from experiments.engine.plan import Planned

KEPT = ("eval/", "competence/", "learning_progress/", "p_module/", "nan_episodes")  # of a run's metrics
COUNTERS = ("episodes", "env_steps", "updates")
STATUS = "status"  # done, diverged, damaged, failed, unfinished or missing: the state of the row's cell
REASON = "reason"  # why a cell failed; a column only where one did
TIME = "wall_s"  # the one column that differs between two runs of the same thing
DONE = "done"


def status(planned: Planned) -> str:
    """One word for a cell's state."""
    unfinished = planned.state in (CellState.MISSING, CellState.STARTED)
    return "failed" if unfinished and planned.found.reason else planned.state.value


def build(planned: Sequence[Planned], seeds: Iterable[int]) -> list[Row]:
    """The table. A seed without any evaluation has one row, of labels, seed and status alone."""
    wanted, table = set(seeds), []
    for one in planned:
        for seed in sorted(wanted.intersection(one.cell.seeds)):
            head = {**one.cell.condition.labels, "seed": seed, STATUS: status(one)}
            if one.found.reason:
                head[REASON] = one.found.reason
            own = [row for row in one.found.rows if row.get("seed", one.cell.first) == seed]
            table += [{**head, **_kept(row)} for row in own] or [head]
    return table


def _kept(row: Row) -> Row:
    kept = {key: row[key] for key in COUNTERS}
    kept |= {key: value for key, value in row.items() if key.startswith(KEPT)}
    return {**kept, TIME: row[TIME]}


def columns(table: Sequence[Row]) -> list[str]:
    """Every column, in the order of first appearance, the time last."""
    names = list(dict.fromkeys(key for row in table for key in row if key != TIME))
    return [*names, TIME]


def write(table: Sequence[Row], path: Path) -> None:
    """Writes the table as CSV, whole or not at all; what a row has not is empty."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with open(scratch, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = columns(table)
        writer.writerow(names)
        writer.writerows([[_cell(row.get(name)) for name in names] for row in table])
    os.replace(scratch, path)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def read(path: Path) -> list[Row]:
    """A table that `write` wrote: numbers as numbers, empty cells left out."""
    with open(path, newline="") as file:
        return [{key: _value(text) for key, text in row.items() if text != ""} for row in csv.DictReader(file)]


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def select(table: Iterable[Row], **labels: Any) -> list[Row]:
    """The rows with these labels that hold an evaluation."""
    return [row for row in table if "episodes" in row and all(row.get(k) == v for k, v in labels.items())]


def finished(table: Iterable[Row]) -> list[Row]:
    """The rows of seeds that were trained to the end: what tests may look at."""
    return [row for row in table if row[STATUS] == DONE]
