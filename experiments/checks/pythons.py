"""Finds Pythons of several versions on this machine, and makes empty environments of them."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13")
# Prints "3.12" where the standard library is whole enough for a virtual environment.
_PROBE = "import sys, ensurepip, venv; print(*sys.version_info[:2], sep='.')"


def find(version: str) -> str | None:
    """Returns the path of a Python of a version such as "3.12" that can make environments, or None.

    It is sought on PATH, in pyenv and in uv, in this order.
    """
    return next((python for python in _candidates(version) if _answers(python, version)), None)


def sort_out(versions: Sequence[str], say: Callable[[str], None]) -> tuple[dict[str, str], list[str]]:
    """Finds the Pythons of several versions: (path by version, the versions that are not here).

    Args:
      say: is told, in a line, of each version that is not here.
    """
    places = {version: find(version) for version in versions}
    lost = [version for version, python in places.items() if python is None]
    for version in lost:
        say(f"Python {version}: not on this machine, skipped")
    return {version: python for version, python in places.items() if python is not None}, lost


def _candidates(version: str) -> Iterator[str]:
    """Yield the places where a Python of a version may be."""
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if found := shutil.which(f"python{version}", path=folder):
            yield found
    root = _first_line(["pyenv", "root"])
    if root:
        folders = sorted(Path(root).glob(f"versions/{version}.*"), key=_micro, reverse=True)
        yield from (str(folder / "bin" / "python") for folder in folders)
    if found := _first_line(["uv", "python", "find", "--no-python-downloads", version]):
        yield found


def _micro(folder: Path) -> int:
    """Return the third part of a folder's version; -1 for what is no release, such as 3.13.0rc1."""
    last = folder.name.rpartition(".")[2]
    return int(last) if last.isdigit() else -1


def _answers(python: str, version: str) -> bool:
    """Report whether a Python starts, is of the version and can make environments."""
    return _first_line([python, "-c", _PROBE]) == version


def _first_line(command: Sequence[str]) -> str:
    """Return the first line that a command prints; nothing when it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.split("\n")[0].strip() if done.returncode == 0 else ""


def make_environment(python: str, folder: Path) -> str:
    """Makes an empty environment and returns the path of its Python.

    Raises:
      subprocess.CalledProcessError: when it cannot be made.
    """
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    return str(folder / "bin" / "python")


def plain_surroundings() -> dict[str, str]:
    """Returns the environment variables for a program that is to see its own installation alone, and the CPU."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYENV_VERSION")
    return {k: v for k, v in os.environ.items() if k not in hidden} | {"JAX_PLATFORMS": "cpu"}


def split(text: str) -> tuple[str, ...]:
    """Reads versions from text such as "3.11,3.12"; nothing is read twice."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
