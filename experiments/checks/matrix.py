"""Runs the tests on several Pythons, with the pinned versions and with the newest that pip finds.

    python -m experiments.checks.matrix
    python -m experiments.checks.matrix --pythons 3.12,3.13 --versions pinned -- tests/learner tests/test_golden.py

Each pair of a Python and a set of versions has an environment of its own below `--environments`, which is kept for the
next time (the newest versions are looked for again). What follows -- goes to pytest; without it, it runs the fast
tests. A Python that this machine does not have is skipped and named. The answer is a table in Markdown.
"""

import functools
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from curious_jax.cli import markdown, program
from curious_jax.cli.parser import OneLineParser
from experiments.checks import pythons

ROOT = Path(__file__).parents[2]
VERSIONS = ("pinned", "newest")
EXTRAS = ("dev", "docs", "notebooks", "warp")  # as `make test` installs them
SHOWN = ("jax", "jaxlib", "numpy", "flax", "mujoco")  # packages whose versions the table has
_SAY_VERSIONS = f"import importlib.metadata as m; print(*[m.version(name) for name in {SHOWN!r}])"


@dataclass(frozen=True)
class Outcome:
    """The tests on one Python with one set of versions."""

    python: str
    versions: str
    packages: tuple[str, ...]  # as SHOWN
    passed: int
    failed: int
    skipped: int


def requirements() -> list[str]:
    """Returns what the package and its tests need, as pyproject.toml says it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *(r for name in EXTRAS for r in project["optional-dependencies"][name])]


def prepare(python: str, versions: str, folder: Path) -> str:
    """Makes or refreshes the environment in a folder; returns the path of its Python."""
    inside = folder / "bin" / "python"
    if not inside.exists():
        pythons.make_environment(python, folder)
    how = ["-c", str(ROOT / "constraints.txt")] if versions == "pinned" else ["--upgrade"]
    command = [str(inside), "-m", "pip", "install", "--quiet", "--no-compile", *how, *requirements()]
    subprocess.run(command, check=True, env=pythons.plain_surroundings(), stdout=sys.stderr)
    return str(inside)


def run_tests(inside: str, arguments: Sequence[str], report: Path) -> tuple[int, int, int]:
    """Runs pytest in an environment, from the repository's root; returns how many passed, failed and were skipped."""
    command = [inside, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments]
    subprocess.run(command, cwd=ROOT, env=pythons.plain_surroundings(), stdout=sys.stderr)
    return count(report)


def count(report: Path) -> tuple[int, int, int]:
    """Reads (passed, failed, skipped) from pytest's report; no report is one failure."""
    if not report.is_file():
        return 0, 1, 0
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    counts = [[int(suite.get(key, 0)) for key in ("tests", "failures", "errors", "skipped")] for suite in suites]
    tests, failures, errors, skipped = (sum(column) for column in zip(*counts))
    return tests - failures - errors - skipped, failures + errors, skipped


def table(outcomes: Sequence[Outcome]) -> str:
    """Shows the outcomes as a Markdown table."""
    heads = ["Python", "versions", *SHOWN, "passed", "failed", "skipped"]
    rows = ([o.python, o.versions, *o.packages, str(o.passed), str(o.failed), str(o.skipped)] for o in outcomes)
    return markdown.table(heads, rows)


def parser() -> OneLineParser:
    """The command line."""
    given = OneLineParser(
        prog="python -m experiments.checks.matrix",
        usage="python -m experiments.checks.matrix [OPTION VALUE ...] [-- PYTEST_ARGUMENT ...]",
        description=(__doc__ or "").split("\n\n")[0],
    )
    given.add_argument(
        "--pythons",
        type=pythons.split,
        default=pythons.VERSIONS,
        metavar="LIST",
        help=f"versions of Python [default: {','.join(pythons.VERSIONS)}]",
    )
    given.add_argument(
        "--versions", nargs="+", choices=VERSIONS, default=VERSIONS, help="of the packages [default: both]"
    )
    given.add_argument(
        "--environments",
        type=Path,
        default=Path(".venv-matrix"),
        metavar="DIR",
        help="folder for the environments [default: .venv-matrix]",
    )
    given.add_argument("arguments", nargs="*", metavar="PYTEST_ARGUMENT", help="for pytest, behind --")
    return given


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs every pair and shows the table."""
    given = parser().parse_args(argv)
    outcomes = []
    there, skipped = pythons.sort_out(given.pythons, functools.partial(print, file=sys.stderr, flush=True))
    for version, python in there.items():
        for versions in given.versions:
            print(f"Python {version}, {versions} versions", file=sys.stderr, flush=True)
            inside = prepare(python, versions, given.environments.resolve() / f"{version}-{versions}")
            said = subprocess.run([inside, "-c", _SAY_VERSIONS], capture_output=True, text=True, check=True)
            with tempfile.TemporaryDirectory() as folder:
                counts = run_tests(inside, given.arguments, Path(folder, "report.xml"))
            outcomes.append(Outcome(version, versions, tuple(said.stdout.split()), *counts))
    print(table(outcomes))
    if skipped:
        print(f"\nNot tried, no such Python here: {', '.join(skipped)}.")
    sound = all(outcome.failed == 0 and outcome.passed > 0 for outcome in outcomes)
    return program.DONE if outcomes and sound else program.FAILED


if __name__ == "__main__":
    sys.exit(main())
