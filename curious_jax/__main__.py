"""python -m curious_jax PROGRAM ...: runs one of the programs, or lists them. The command `curious` does the same."""

import difflib
import importlib
import sys
from collections.abc import Sequence

import curious_jax
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import zoo

PROGRAMS = {
    "train": "train CURIOUS or a baseline; leaves a run folder",
    "evaluate": "success per module of a policy, with intervals",
    "play": "watch a policy: a video, or MuJoCo's viewer",
    "report": "curves and a page of a run, or of several side by side",
    "export": "copy a run's policy into a small folder of its own",
    "benchmark": "speed of physics, rollouts, updates and training on this machine",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program that the first argument names; returns its exit status."""
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return program.DONE
    if name == "--version":
        print(f"curious_jax {curious_jax.__version__}")
        return program.DONE
    return program.run(lambda: _run(name, rest))


def _run(name: str, arguments: Sequence[str]) -> int:
    if name not in PROGRAMS:
        near = difflib.get_close_matches(name, PROGRAMS, n=1)
        instead = f"did you mean {near[0]}?" if near else f"there are {', '.join(PROGRAMS)}"
        raise ConfigError(f"{name}: no such program; {instead}")
    return importlib.import_module(f"curious_jax.{name}").main(arguments)


def usage() -> str:
    """The programs, a line each."""
    width = max(map(len, PROGRAMS))
    return "\n".join([
        "usage: python -m curious_jax PROGRAM [OPTION VALUE ...]",
        "installed: curious PROGRAM ..., or curious-PROGRAM ...",
        "",
        *(f"  {name:{width}}  {what}" for name, what in PROGRAMS.items()),
        "",
        "PROGRAM --help shows a program's options; python -m experiments lists the paper's experiments.",
        f"Trained policies, which evaluate, play and export take by name: {', '.join(zoo.names()) or 'none'}.",
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
