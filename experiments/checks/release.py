"""Builds wheel and sdist, checks their metadata and what is in them, and trains with each in an empty environment.

    python -m experiments.checks.release
    python -m experiments.checks.release --pythons 3.12 --kinds wheel --out dist

Both are built from the files that git knows, so that nothing lying about gets in; the wheel is built from the sdist.
The browser's page joins them when `make web` has built it.
Each is then installed, with the versions of constraints.txt, in an empty environment of every Python that this machine
has of `--pythons`; there, in a folder of its own, it loads the arm's model and trains its four modules for two cycles
on C MuJoCo. A Python that is not there is skipped and named.
Needs `pip install ".[release]"`, git, and a package index.
"""

import functools
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser
from curious_jax.errors import ConfigError
from experiments.checks import pythons

ROOT = Path(__file__).parents[2]
PACKAGES = ("curious_jax", "envs", "experiments")
PAGE = "curious_jax/show/browser_page"  # made by `make web`
KINDS = ("wheel", "sdist")
# A training of two cycles, of all modules of the arm.
TRAIN = (
    "--preset point --num-envs 8 --episodes 16 --updates-per-cycle 2 --batch-size 16 --capacity 16 "
    "--evaluation-interval 8 --evaluation-episodes 8 --hidden-size 8 --hidden-layers 1 --out run"
).split()
LOOK = """
import sys, pathlib, curious_jax, envs
home = pathlib.Path(curious_jax.__file__).resolve()
assert home.is_relative_to(pathlib.Path(sys.prefix).resolve()), home
print(envs.make(modules=("reach", "stack"), physics="c").action_size)
"""


def tracked_files(*folders: str) -> list[str]:
    """Returns the paths that git knows, of the whole repository or of some folders.

    A link to another folder of the repository stands for that folder's files, as in a release.

    Raises:
      ConfigError: when this is no clone.
    """
    done = subprocess.run(["git", "ls-files", "-z", *folders], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ConfigError("a release is built from a clone: git does not know this folder")
    found = []
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if path.is_symlink() and path.is_dir():
            target = path.resolve().relative_to(ROOT.resolve()).as_posix()
            found += [f"{name}/{inner.removeprefix(target + '/')}" for inner in tracked_files(target)]
        elif path.is_file():
            found.append(name)
    return found


def page_files() -> list[str]:
    """Returns the paths of the browser's page, none while it is not built."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PAGE).rglob("*") if path.is_file())


def build(out: Path) -> dict[str, Path]:
    """Builds sdist and wheel into a folder, which loses former ones of this project; returns their paths by kind."""
    out.mkdir(parents=True, exist_ok=True)
    for old in (*out.glob("curious_jax-*.whl"), *out.glob("curious_jax-*.tar.gz")):
        old.unlink()
    with tempfile.TemporaryDirectory() as copy:
        for name in (*tracked_files(), *page_files()):
            target = Path(copy, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        _run([sys.executable, "-m", "build", "--outdir", str(out.resolve()), copy], "the build")
    (wheel,), (sdist,) = out.glob("curious_jax-*.whl"), out.glob("curious_jax-*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


def contents(path: Path) -> set[str]:
    """Returns the names of the files in a wheel or an sdist, without the folder that an sdist puts around them."""
    if path.suffix == ".whl":
        return set(zipfile.ZipFile(path).namelist())
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def missing(path: Path) -> list[str]:
    """Returns the files of the packages, code and data but no pages, that a wheel or an sdist lacks."""
    wanted = {name for name in (*tracked_files(*PACKAGES), *page_files()) if not name.endswith(".md")}
    return sorted(wanted - contents(path))


def check_metadata(paths: Sequence[Path]) -> None:
    """Lets twine read the metadata; a warning is an error."""
    _run([sys.executable, "-m", "twine", "check", "--strict", *map(str, paths)], "twine check")


def try_installed(python: str, path: Path, folder: Path) -> str:
    """Installs a wheel or an sdist in an empty environment and trains from another folder; returns what was read.

    Raises:
      ConfigError: when a step fails; the end of what it printed is shown.
    """
    inside = pythons.make_environment(python, folder / "venv")
    pins = ["-c", str(ROOT / "constraints.txt")]
    _run([inside, "-m", "pip", "install", "--quiet", "--no-compile", *pins, str(path)], f"installing {path.name}")
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    _run([inside, "-c", LOOK], "loading the arm's model", elsewhere)
    _run([str(folder / "venv" / "bin" / "curious"), "--version"], "curious --version", elsewhere)
    _run([inside, "-m", "curious_jax.train", *TRAIN], "training", elsewhere)
    summary = json.loads((elsewhere / "run" / "summary.json").read_text())
    if summary["status"] != "completed":
        raise ConfigError(f"the training's status is {summary['status']}")
    return f"trained {summary['episodes']} episodes"


def _run(command: Sequence[str], what: str, folder: Path | None = None) -> None:
    """Run a command out of sight; its last lines are shown when it fails."""
    surroundings = pythons.plain_surroundings()
    done = subprocess.run(
        command, cwd=folder, env=surroundings, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        print((done.stdout + done.stderr)[-3000:], file=sys.stderr)
        raise ConfigError(f"{what} failed with exit status {done.returncode}; its last lines stand above")


def parser() -> OneLineParser:
    """The command line."""
    given = OneLineParser(prog="python -m experiments.checks.release", description=(__doc__ or "").split("\n\n")[0])
    given.add_argument("--out", type=Path, default=Path("dist"), metavar="DIR", help="folder for both [default: dist]")
    given.add_argument(
        "--pythons",
        type=pythons.split,
        default=pythons.VERSIONS,
        metavar="LIST",
        help=f"versions to install on [default: {','.join(pythons.VERSIONS)}]",
    )
    given.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="what to install [default: both]")
    return given


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Builds, checks and tries; the last line says what was tried and what was not."""
    given = parser().parse_args(argv)
    built = build(given.out)
    for path in built.values():
        if lost := missing(path):
            raise ConfigError(f"{path.name} lacks {', '.join(lost)}")
    check_metadata(list(built.values()))
    print("built, whole, metadata right: " + ", ".join(path.name for path in built.values()), flush=True)
    print(f"the browser's page: {'in both' if page_files() else 'in neither, make web builds it'}", flush=True)
    tried, failed = [], []
    there, skipped = pythons.sort_out(given.pythons, functools.partial(print, flush=True))
    for version, python in there.items():
        for kind in given.kinds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    read = try_installed(python, built[kind], Path(folder))
                    tried.append(f"{kind} on {version}")
                except ConfigError as error:
                    read = f"FAILED: {error}"
                    failed.append(f"{kind} on {version}")
                print(f"Python {version}, {kind}: {read}", flush=True)
    print(closing_line(tried, failed, skipped))
    return program.FAILED if failed or not tried else program.DONE


def closing_line(tried: Sequence[str], failed: Sequence[str], skipped: Sequence[str]) -> str:
    """Says what was tried, what failed, and what could not be tried."""
    parts = [f"installed and trained: {', '.join(tried) or 'nothing'}"]
    parts += [f"failed: {', '.join(failed)}"] if failed else []
    parts += [f"not tried, no such Python here: {', '.join(skipped)}"] if skipped else []
    return "; ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
