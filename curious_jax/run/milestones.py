"""Keeps policies on a run's way, at milestones of its mean success, as RUN/policies/EPISODES (--keep-policies N).

With N policies there are the marks 0, 1/N, ..., (N - 1)/N. The untrained policy stands for mark 0; for each of the
others the first evaluation whose mean success reaches it. So there are at most N, each is better than the one before,
none is ever replaced, and which they are does not depend on how long the run is to last: evaluations at even distances
would show the long end of a run, where nothing changes any more. An evaluation that passes several marks is kept once.
"""

import math
from pathlib import Path

from curious_jax.run import files
from curious_jax.run import folder as runfolder

_SLACK = 1e-9  # 0.29 x 100 is a little less than 29 in floating point


def mark(mean: float, number: int) -> int:
    """Returns the highest of the marks 0 ... number - 1 that a mean success reaches; -1 below 0, for none yet."""
    return min(math.floor(mean * number + _SLACK), number - 1)


def is_due(mean: float, best: float, number: int) -> bool:
    """Tells whether an evaluation passes a mark that none before it passed.

    Args:
      mean: its mean success, over modules and seeds.
      best: the highest one before it; -1 for none.
      number: --keep-policies.
    """
    return number > 0 and mark(mean, number) > max(mark(best, number), 0)


def find(run: Path) -> list[int]:
    """Lists the training episodes after which policies of a run were kept, in order."""
    names = (path.name for path in (run / runfolder.POLICIES).glob("*"))
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def remove_later(run: Path, episodes: int) -> None:
    """Removes policies kept after a checkpoint's episodes: a run that continues from there keeps them again."""
    for number in find(run):
        if number > episodes:
            files.remove(run / runfolder.POLICIES / str(number))
