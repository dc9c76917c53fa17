"""python -m curious_jax.report RUN: draws curves.png and report.html of a run.

    python -m curious_jax.report runs/some-run
    python -m curious_jax.report docs/results/fetch-four-modules-cpu --out /tmp/four
    python -m curious_jax.report runs/one runs/another

Several runs are compared: comparison.png and comparison.html, with their success and the settings that differ.
report.html is one page that needs nothing else, with curves to explore, settings, success and the run's video; it needs
plotly. Training writes both by itself.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.show import compare, curves, page

NEEDS = 'needs plotly: pip install "curious_jax[report]"'


def parser() -> options.Parser:
    """Makes the command line."""
    result = options.Parser(
        "report", "Draws the curves of a run and a page with all of it.", usage="RUN ... [--out DIR]"
    )
    result.add_argument(
        "runs", type=options.path, nargs="+", metavar="RUN", help="the folder of a run; several are compared"
    )
    result.add_argument(
        "--out",
        type=options.path,
        metavar="DIR",
        help="folder for curves.png and report.html [default: RUN; the current folder, with RUN's name before theirs, "
        "where RUN cannot be written to or is a copy without checkpoints, such as docs/results/NAME; of several runs "
        "the current folder]",
    )
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    runs = [Path(run) for run in given["runs"]]
    rows = [read(run) for run in runs]
    return _show(runs[0], rows[0], given["out"]) if len(runs) == 1 else _compare(runs, rows, given["out"])


def _show(run: Path, rows: list[dict[str, Any]], out: str | None) -> int:
    """Draws the curves of one run and its page."""
    picture = curves.png(rows, run.resolve().name)
    curves_path, page_path = (_place(run, name, out) for name in (runfolder.CURVES, page.REPORT))
    files.write(curves_path, picture)
    print(f"{curves.small_plot(rows)}\ncurves: {curves_path}")
    if page.available():
        files.write(page_path, page.build(run, rows, page_path.parent).encode(errors="replace"))
        print(f"report: {page_path}")
    else:
        print(f"{page.REPORT} {NEEDS}")
    return program.DONE


def _compare(runs: list[Path], rows: list[list[dict[str, Any]]], out: str | None) -> int:
    """Draws the curves of several runs side by side and a page that compares them."""
    found = compare.load(runs, rows)
    picture, place = (_place(Path(), name, out or ".") for name in (compare.PICTURE, compare.PAGE))
    files.write(picture, compare.png(found))
    print(f"curves: {picture}")
    if page.available():
        files.write(place, compare.build(found).encode(errors="replace"))
        print(f"report: {place}")
    else:
        print(f"{compare.PAGE} {NEEDS}")
    return program.DONE


def read(run: Path) -> list[dict[str, Any]]:
    """Returns the metrics rows of a run folder, one at least.

    Raises:
      ConfigError: when it is no run's, or has no evaluation yet.
    """
    if not os.path.isdir(run):
        near = runfolder.nearest(run)
        raise ConfigError(f"{run}: no such folder; {near}give the folder of a run; {runfolder.POLICY_ALONE}")
    if not os.path.lexists(run / runfolder.METRICS):
        raise ConfigError(f"{run}: is not the folder of a run (no {runfolder.METRICS} in it); {runfolder.POLICY_ALONE}")
    rows = runfolder.read_rows(run)
    if not rows:
        raise ConfigError(f"{run}: has no evaluation yet; wait for the first")
    return rows


def _place(run: Path, name: str, out: str | None) -> Path:
    """Returns where a file goes: into --out, or where `files.place` says."""
    if out is None:
        return files.place(run, name)
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"--out {out[:200]}: cannot be written ({why}); name another folder") from None
    return Path(out) / name


if __name__ == "__main__":
    sys.exit(main())
