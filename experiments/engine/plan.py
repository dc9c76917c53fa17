"""Which cells an experiment consists of, given what lies in its folder already."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.engine import cells
from experiments.engine.cells import Stage
from experiments.engine.grid import CELLS, Cell, Condition, groups


@dataclass(frozen=True)
class Planned:
    """A cell and how far it is."""

    cell: Cell
    stage: Stage


def plan(conditions: Sequence[Condition], seeds: Iterable[int], group: int, out: Path) -> list[Planned]:
    """Cells that cover every (condition, seed) once.

    Seeds that some cell in the folder has done, or ended with, are that cell's, whatever its size; a cell that was
    begun goes on as it is when all its seeds are asked for; the rest is cut into groups of at most `group` seeds.
    """
    found: list[Planned] = []
    for condition in conditions:
        left, planned = set(seeds), []
        for old in sorted(existing(condition, out), key=_usefulness):
            here = left.intersection(old.cell.seeds)
            if old.stage is Stage.MISSING or not here:
                continue
            if old.stage is Stage.STARTED and len(here) < old.cell.count:
                continue
            planned.append(old)
            left -= here
        planned += [Planned(Cell(condition, *g), Stage.MISSING) for g in groups(left, group)]
        found += sorted(planned, key=lambda p: p.cell.first)
    return found


def retry_diverged(planned: Sequence[Planned], out: Path) -> bool:
    """Puts diverged runs aside (as diverged-NAME), so that a new plan has their seeds; did it find any?"""
    found = [one.cell.folder(out) for one in planned if one.stage is Stage.DIVERGED]
    for folder in found:
        folder.rename(folder.with_name(f"diverged-{folder.name}"))
    return bool(found)


def _usefulness(planned: Planned) -> tuple[int, int]:
    order = [Stage.DONE, Stage.DIVERGED, Stage.STARTED, Stage.MISSING]
    return order.index(planned.stage), planned.cell.first


def existing(condition: Condition, out: Path) -> list[Planned]:
    """The cells of a condition that have a folder."""
    found = []
    for folder in sorted((out / CELLS / condition.name).glob("seed*")):
        match = re.fullmatch(r"seeds?-(\d+)(?:-(\d+))?", folder.name)
        if match and folder.is_dir():
            first, last = int(match[1]), int(match[2] or match[1])
            found.append(Planned(Cell(condition, first, last - first + 1), cells.stage(folder)))
    return found
