"""Measures what seeds side by side cost: seconds of a training cycle with S seeds over those with one.

    python -m experiments.checks.seed_cost                     (ten seeds on the probe, this machine's device)
    python -m experiments.checks.seed_cost --num-seeds 5 --hidden-size 256

Takes the options of `curious_jax.train`. The two programs take turns, compilation aside, and the median of their turns
counts.
"""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curious_jax import train
from curious_jax.cli import environment, program
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from curious_jax.learner.state import no_metrics, setup
from experiments import probe

TURNS, SECONDS = 7, 1.0  # turns of each program, and how long each takes at least
SEEDS = 10


def measure(settings: dict[str, Any]) -> dict[str, float]:
    """Measure seconds per cycle with one seed and with all, and their ratio."""
    import jax

    from curious_jax import config as configs

    many = settings.get("num_seeds", SEEDS)
    programs = []
    for seeds in (1, many):
        config = configs.make_config(jax.default_backend(), **{**probe.SETTINGS, **settings, "num_seeds": seeds})
        programs.append(make_turn(config, SECONDS))
    turns = np.array([[run() for run in programs] for _ in range(TURNS)])
    one, all_seeds = np.median(turns, axis=0)
    return {
        "seeds": many,
        "one_s": float(one),
        "many_s": float(all_seeds),
        "ratio": float(all_seeds / one),
    }


def make_turn(config: Any, seconds: float) -> Callable[[], float]:
    """Compile a run; returns what runs some cycles and gives the seconds of each."""
    import jax
    import jax.numpy as jnp

    from curious_jax.learner import trainer

    env = environment.make_env(config).with_worlds(config.num_seeds * config.schedule.num_envs)
    state, total = trainer.init(config, env), no_metrics(config)
    epoch = trainer.compile_epoch(setup(config, env), state)
    held = [state, total]

    def turn(cycles: int) -> float:
        began = time.perf_counter()
        held[:] = jax.block_until_ready(epoch(*held, jnp.int32(cycles)))
        return time.perf_counter() - began

    turn(2)
    cycles = max(1, int(seconds / (turn(2) / 2)))
    return lambda: turn(cycles) / cycles


def read(rest: Sequence[str]) -> dict[str, Any]:
    """Reads the settings of what is measured from options of train's. Raises ConfigError, naming the option."""
    typed = train.parser().read(rest)
    for name in ("out", "resume", "wandb", "cache"):
        if typed.get(name) is not None:
            raise ConfigError(f"--{name}: leave it out; nothing is kept of what is measured here")
    return options.settings(typed, apart=("num_seeds",))


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Measure and print; returns the exit status."""
    parser = options.OneLineParser(
        prog="python -m experiments.checks.seed_cost",
        usage="python -m experiments.checks.seed_cost [any option of python -m curious_jax.train]",
        description=(__doc__ or "").split("\n")[0],
        allow_abbrev=False,
    )
    _, rest = parser.parse_known_args(argv)
    settings = read(rest)
    if settings.get("num_seeds", SEEDS) < 2:
        raise ConfigError(f"--num-seeds {settings['num_seeds']}: must be 2 or more, to be compared with one")
    found = measure(settings)
    print(
        f"{found['seeds']} seeds: {1e3 * found['many_s']:.1f} ms per cycle, one: {1e3 * found['one_s']:.1f} ms, "
        f"ratio {found['ratio']:.2f}"
    )
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
