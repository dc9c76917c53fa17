"""Refuses, in one line, `python -m` with a name that is no program, or in a Python that has no JAX."""

import difflib
import importlib.util
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def module(words: list[str]) -> str:
    """Returns the module that a command line of Python starts with -m; nothing when it starts none."""
    return words[words.index("-m") + 1] if "-m" in words[:-1] else ""


def problem(name: str) -> str:
    """Says why `python -m NAME` cannot be started, in one line with the next move; nothing when it can.

    Args:
      name: of a module of this project, such as curious_jax.train or experiments.checks.peers.
    """
    package, _, last = name.rpartition(".")
    folder = _ROOT.joinpath(*package.split("."))
    if not package or not folder.is_dir():  # the package itself, which lists its programs
        return ""
    if not (folder / f"{last}.py").is_file() and not (folder / last).is_dir():
        known = [path.stem for path in folder.glob("[a-z]*.py") if "__main__" in path.read_text(encoding="utf-8")]
        near = difflib.get_close_matches(last, known, n=1)
        instead = f"did you mean {package}.{near[0]}?" if near else f"python -m {package.split('.')[0]} lists them"
        return f"{name}: no such program; {instead}"
    if importlib.util.find_spec("jax") is None:
        return (
            f"{name}: this Python ({sys.executable or 'python'}) has no JAX; activate the environment that curious_jax "
            "is installed in, as by source .venv/bin/activate"
        )
    return ""


def check() -> None:
    """Ends the process with one line and exit status 2 when what `python -m` asks for cannot be started."""
    name = module(sys.orig_argv)
    home = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
    if sys.argv[:1] != ["-m"] or home is None or Path(home).resolve().parents[1] != _ROOT.resolve():
        return  # another package of that name
    if line := problem(name):
        print(f"error: {line}", file=sys.stderr)
        raise SystemExit(2)
