"""The cells of an experiment, given what its folder holds already."""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from curious_jax.errors import ConfigError
from experiments.engine.cells import CellState, Inspection, Inspections
from experiments.engine.grid import CELLS, Cell, Condition, groups

ENDED = (CellState.DONE, CellState.DIVERGED)  # what keeps its seeds, whatever its size
USEFUL = (*ENDED, CellState.STARTED, CellState.DAMAGED)  # the first that has a seed takes it


@dataclass(frozen=True)
class Planned:
    """A cell, and what its files say."""

    cell: Cell
    found: Inspection
    taken: tuple[int, ...] | None = None  # those of its seeds that the plan has from it; None: all

    @property
    def state(self) -> CellState:
        """The state of its cell."""
        return self.found.state

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the plan has from this cell. Another that ended may hold the rest of them too."""
        return self.cell.seeds if self.taken is None else self.taken


def plan(
    conditions: Sequence[Condition],
    seeds: Iterable[int],
    group: int,
    out: Path,
    refuse: bool = True,
    seen: Inspections | None = None,
) -> list[Planned]:
    """Lay out cells that cover every (condition, seed) once.

    Finished or diverged seeds keep their cell, whatever its size; a cell that was begun or is damaged stays as it is
    when all its seeds are asked for; the remaining seeds are cut into groups of at most `group`, those of a diverged
    cell that was put aside into groups of one.

    Args:
      refuse: whether a folder that holds the run of another condition ends the program; else its cell is a damaged one.
      seen: what this process has found of the cells before.
    Raises:
      ConfigError: when a folder holds the run of another condition, or a group to be lengthened has other seeds too.
    """
    found: list[Planned] = []
    seen = Inspections() if seen is None else seen
    for condition in conditions:
        left, planned = set(seeds), []
        old = [one for one in existing(condition, out, refuse, seen) if one.state in USEFUL]
        for one in sorted(old, key=lambda o: (USEFUL.index(o.state), o.cell.first)):
            here = left.intersection(one.cell.seeds)
            if here and one.found.shorter and len(here) < one.cell.count and refuse:
                raise ConfigError(f"--seeds: {one.cell} is one run and is lengthened as a whole; name all of its seeds")
            if here and (one.state in ENDED or len(here) == one.cell.count):
                planned.append(dataclasses.replace(one, taken=tuple(sorted(here))))
                left -= here
        single = left & alone(condition, out)
        new = [Cell(condition, *group_of) for group_of in (*groups(left - single, group), *groups(single, 1))]
        planned += [Planned(cell, _inspect(cell, out, refuse, seen)) for cell in new]
        found += sorted(planned, key=lambda p: p.cell.first)
    return found


def alone(condition: Condition, out: Path) -> set[int]:
    """Return the seeds of a condition's diverged cells that were put aside, which are run one by one since."""
    found: set[int] = set()
    for folder in (out / CELLS / condition.name).glob(f"{CellState.DIVERGED.value}-*-seed*"):
        if match := re.fullmatch(r"[a-z]+-\d+-seeds?-(\d+)(?:-(\d+))?", folder.name):
            found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found


def _inspect(cell: Cell, out: Path, refuse: bool, seen: Inspections) -> Inspection:
    try:
        return seen.inspect(cell, out)
    except ConfigError as error:
        if refuse:
            raise
        return Inspection(CellState.DAMAGED, reason=str(error))


def existing(condition: Condition, out: Path, refuse: bool, seen: Inspections) -> list[Planned]:
    """The cells of a condition that have a folder."""
    found = []
    for folder in sorted((out / CELLS / condition.name).glob("seed*")):
        match = re.fullmatch(r"seeds?-(\d+)(?:-(\d+))?", folder.name)
        if match and folder.is_dir():
            first, last = int(match[1]), int(match[2] or match[1])
            cell = Cell(condition, first, last - first + 1)
            found.append(Planned(cell, _inspect(cell, out, refuse, seen)))
    return found
