"""Measures what other estimators and goal samplers cost: seconds of a training cycle over those of the paper's choice.

    python -m experiments.checks.overhead                      (on the probe, this machine's device)
    python -m experiments.checks.overhead --world fetch --modules reach,push,pnp,stack --rounds 9

Takes the options of `curious_jax.train`. All programs are compiled first; then they take turns, and the median over
rounds of each one's ratio to the paper's choice in the same round counts.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from curious_jax.cli import markdown, program
from curious_jax.cli import parser as options
from curious_jax.config.fields import ESTIMATORS, GOALS
from experiments import probe
from experiments.checks.seed_cost import make_turn, read

ROUNDS, SECONDS = 7, 1.0  # rounds, and how long a turn takes at least
FREE = 0.05  # what a choice may add to a cycle without being said
CHOICES = [("estimator", name) for name in ESTIMATORS] + [("goals", name) for name in GOALS[1:]]  # the paper's first


def measure(settings: dict[str, Any], rounds: int, choices: Sequence[tuple[str, str]] = CHOICES) -> dict[str, Any]:
    """Measure {choice: (seconds per cycle, ratio to the first)}, medians over the rounds."""
    import jax

    from curious_jax import config as configs

    base = probe.SETTINGS if settings.get("world", "point") == "point" else {}
    programs = []
    for name, choice in choices:
        given: dict[str, Any] = {**base, **settings, name: choice}
        sizes = configs.make_config(jax.default_backend(), **given).schedule
        given["capacity"] = settings.get("capacity", 16 * sizes.num_envs)  # a cycle's cost does not grow with it
        programs.append(make_turn(configs.make_config(jax.default_backend(), **given), SECONDS))
        print(f"compiled {name} {choice}", file=sys.stderr, flush=True)
    turns = np.array([[run() for run in programs] for _ in range(rounds)])
    medians, ratios = np.median(turns, axis=0), np.median(turns / turns[:, :1], axis=0)
    return {f"{n} {c}": (float(s), float(r)) for (n, c), s, r in zip(choices, medians, ratios, strict=True)}


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Measure and print; returns the exit status."""
    parser = options.OneLineParser(
        prog="python -m experiments.checks.overhead",
        usage="python -m experiments.checks.overhead [--rounds N] [any option of python -m curious_jax.train]",
        description=(__doc__ or "").split("\n")[0],
        allow_abbrev=False,
    )
    parser.add_argument("--rounds", default=str(ROUNDS), metavar="N", help=f"turns of each program [default: {ROUNDS}]")
    own, rest = parser.parse_known_args(argv)
    rounds = options.at_least("--rounds", own.rounds, 1)
    found = measure(read(rest), rounds)
    rows = ([name, f"{1e3 * seconds:.1f}", f"{100 * (ratio - 1):+.1f} %"] for name, (seconds, ratio) in found.items())
    print(markdown.table(("choice", "ms per cycle", "added"), rows))
    over = [name for name, (_, ratio) in found.items() if ratio > 1 + FREE]
    print(f"more than {100 * FREE:.0f} %: {', '.join(over) or 'none'}")
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
