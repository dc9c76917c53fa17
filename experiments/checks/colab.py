"""Runs the notebooks where Colab would: on its Python, with its versions of packages, before ours are installed.

    python -m experiments.checks.colab
    python -m experiments.checks.colab --notebooks quickstart

`notebooks/colab.txt` has the versions of Colab's CPU image and its Python. They are installed in an empty environment;
a copy of the files that git knows stands for the clone; and each notebook's first cell installs curious_jax, as on
Colab. The notebooks run at small size. It fails when one does, or when numpy, which a running notebook has loaded, was
replaced. Colab's drivers, its GPUs and TPUs, and the badges are not a part of it.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser
from curious_jax.errors import ConfigError
from experiments.checks import pythons, release

ROOT = Path(__file__).parents[2]
PINS = "notebooks/colab.txt"
NAMES = ("quickstart", "environment", "curriculum", "experiments")
SHOWN = ("numpy", "jax", "jaxlib", "flax", "scipy", "pandas")
_SAY = f"import importlib.metadata as m, json; print(json.dumps({{n: m.version(n) for n in {SHOWN!r}}}))"


def python_version(text: str) -> str:
    """Reads the image's Python from the head of the list of its versions."""
    found = re.search(r"^# Python (\d+\.\d+)$", text, re.MULTILINE)
    if not found:
        raise ConfigError(f"{PINS}: has no line like # Python 3.13")
    return found[1]


def versions(inside: str) -> dict[str, str]:
    """Returns the versions of some packages in an environment."""
    done = subprocess.run([inside, "-c", _SAY], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def clone(folder: Path) -> None:
    """Copies the files that git knows into a folder."""
    for name in release.tracked_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)


def run_notebook(inside: str, name: str, folder: Path) -> bool:
    """Runs one notebook of a clone at small size, and reports whether it ended; its error is shown."""
    command = [inside, "notebooks/prepare.py", "--execute", name, "--size", "small"]
    done = subprocess.run(command, cwd=folder, env=pythons.plain_surroundings(), capture_output=True, text=True)
    if done.returncode:
        print((done.stdout + done.stderr)[-3000:], file=sys.stderr)
    return done.returncode == 0


def verdict(before: dict[str, str], after: dict[str, str], ended: dict[str, bool]) -> list[str]:
    """Returns what is wrong: notebooks that did not end, and a numpy that was replaced."""
    wrong = [f"{name} did not end" for name, well in ended.items() if not well]
    if before["numpy"] != after["numpy"]:
        wrong.append(f"numpy {before['numpy']} was replaced by {after['numpy']}")
    return wrong


def parser() -> OneLineParser:
    """The command line."""
    given = OneLineParser(prog="python -m experiments.checks.colab", description=(__doc__ or "").split("\n\n")[0])
    given.add_argument("--notebooks", nargs="+", choices=NAMES, default=NAMES, help="those to run [default: all]")
    return given


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Makes the environment, runs the notebooks, and says what was installed and what ended."""
    given = parser().parse_args(argv)
    version = python_version((ROOT / PINS).read_text())
    python = pythons.find(version)
    if python is None:
        print(f"Python {version}, Colab's, is not on this machine: nothing was tried")
        return program.DONE
    with tempfile.TemporaryDirectory() as place:
        inside = pythons.make_environment(python, Path(place, "venv"))
        command = [inside, "-m", "pip", "install", "--quiet", "--no-compile", "-r", str(ROOT / PINS)]
        subprocess.run(command, check=True, env=pythons.plain_surroundings())
        folder = Path(place, "curious_jax")
        clone(folder)
        before, ended = versions(inside), {}
        for name in given.notebooks:
            ended[name] = run_notebook(inside, name, folder)
            print(f"{name}: {'ended' if ended[name] else 'FAILED'}", flush=True)
        after = versions(inside)
    for name in SHOWN:
        print(f"{name}: {before[name]}" + (f" -> {after[name]}" if after[name] != before[name] else ""))
    wrong = verdict(before, after, ended)
    print(f"Python {version}: {'; '.join(wrong) or 'every notebook ended, and numpy stayed'}")
    return program.FAILED if wrong else program.DONE


if __name__ == "__main__":
    sys.exit(main())
