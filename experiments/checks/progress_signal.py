"""Compares the learning progress that runs measured with what chance alone shows.

    python -m experiments.checks.progress_signal docs/results/fetch-distractors

Reads the metrics that an experiment keeps (metrics.csv.gz or table.csv) and prints a row per condition with CURIOUS: l,
the results of a window; the mean of |LP| over achievable modules and evaluations; what it would be if success stood
still at the evaluated rate; the correlation of LP with the change of evaluated success; and that of |LP| with
√(p(1 - p)), the spread of a single result. Where the mean is that of chance and the second correlation is the larger
one, |LP| says of a module that it is solved sometimes, not that it is being learned.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from curious_jax.cli import markdown, program
from curious_jax.cli.parser import OneLineParser
from curious_jax.errors import ConfigError
from experiments.analysis import table
from experiments.analysis.table import SUCCESS, Table

MOST = 400  # results of a window that is looked for
HEADS = ("condition", "l", r"mean of \|LP\|", "by chance", "LP with change of success", r"\|LP\| with √(p(1 - p))")
DIGITS = {"mean": 3, "chance": 3, "change": 2, "spread": 2}


def find_window(competence: np.ndarray) -> int:
    """Finds l, the smallest number of which every competence is a whole share: [N] -> l.

    Raises:
      ConfigError: when there is none up to MOST.
    """
    for size in range(1, MOST + 1):
        if np.allclose(competence * size, np.round(competence * size), atol=2e-6 * size, rtol=0):
            return size
    raise ConfigError(f"no window of up to {MOST} results gives these competences; keep whole metrics")


def by_chance(p: np.ndarray, size: int) -> np.ndarray:
    """Computes E|LP| of windows of `size` results whose success stands still at p: [N] -> [N]."""
    rates, number = np.unique(p, return_inverse=True)
    outcomes = np.arange(size + 1)
    gaps = np.abs(outcomes[:, None] - outcomes) / size
    chances = stats.binom.pmf(outcomes, size, rates[:, None])  # [K, l + 1]
    return np.einsum("ki,ij,kj->k", chances, gaps, chances)[number]


def measure(rows: Table, names: Sequence[str]) -> dict[str, float]:
    """Measures a condition's learning progress.

    Args:
      rows: of one condition, all of its seeds.
      names: its achievable modules.
    Returns:
      {l, mean, chance, change, spread}, the last two correlations.
    """
    found = []
    for _, own in rows.sort_values("episodes").groupby("seed"):
        for name in names:
            p = own[f"{SUCCESS}/{name}"].to_numpy(float)
            progress, competence = (own[f"{key}/{name}"].to_numpy(float) for key in ("learning_progress", "competence"))
            full = np.arange(len(own)) >= len(own) // 5  # windows are smaller at first
            found.append(np.stack([progress, np.diff(p, prepend=p[:1]), p, competence])[:, full])
    progress, change, p, competence = np.concatenate(found, axis=1)
    size = find_window(competence)
    spread = np.sqrt(p * (1 - p))
    return {
        "l": size,
        "mean": float(np.abs(progress).mean()),
        "chance": float(by_chance(p, size).mean()),
        "change": float(np.corrcoef(progress, change)[0, 1]),
        "spread": float(np.corrcoef(np.abs(progress), spread)[0, 1]),
    }


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    parser = OneLineParser(
        prog="python -m experiments.checks.progress_signal", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder of an experiment")
    folder = parser.parse_args(argv).folder
    kept = next((folder / name for name in (table.PACKED, "table.csv") if (folder / name).is_file()), None)
    if kept is None:
        raise ConfigError(f"{folder}: has neither {table.PACKED} nor table.csv; give the folder of an experiment")
    rows = table.read(kept)
    if "algorithm" not in rows or not any(name.startswith("learning_progress/") for name in rows):
        raise ConfigError(f"{kept}: compares no algorithms by their learning progress; give another experiment")
    rows = rows[(rows["algorithm"] == "curious") & rows[SUCCESS].notna()]
    if rows.empty:
        raise ConfigError(f"{kept}: has no evaluations of curious; give another experiment")
    names = table.modules(rows, achievable=True)
    lines = []
    for number, own in rows.groupby("distractors") if "distractors" in rows else [("", rows)]:
        one = measure(own, names)
        figures = [f"{one[key]:.{digits}f}" for key, digits in DIGITS.items()]
        lines.append((f"CURIOUS, distractors {number}".removesuffix(", distractors "), str(one["l"]), *figures))
    print(markdown.table(HEADS, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
