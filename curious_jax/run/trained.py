"""Trained policies as programs are given them (RUN, --checkpoint, --seed-index, --physics), and with their world."""

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from curious_jax.cli import parser as options
from curious_jax.cli import program, start
from curious_jax.config import PHYSICS, TrainConfig
from curious_jax.errors import ConfigError

if TYPE_CHECKING:
    import jax

    from curious_jax.learner import trainer
    from curious_jax.run import policies
    from curious_jax.types import Env

CHECKPOINTS = ("last", "best")


def add_options(parser: options.Parser, *, physics: bool = True) -> None:
    """RUN and what says which of its policies is meant."""
    parser.add_argument("run", type=options.path, metavar="RUN", help="the folder of a run, or pretrained/NAME")
    parser.add_argument(
        "--checkpoint", default="last", metavar="|".join(CHECKPOINTS), help="which policy [default: last]"
    )
    parser.add_argument(
        "--seed-index", default="0", metavar="I", help="which seed of a run with --num-seeds, from 0 [default: 0]"
    )
    if physics:
        parser.add_argument("--physics", metavar="|".join(PHYSICS), help="another physics backend than the run's")


def find(given: dict[str, Any]) -> "tuple[policies.Export, int]":
    """(export, index of the seed) that the options of `add_options` name.

    Raises:
      ConfigError: naming the option, or saying what is wrong with the folder.
    """
    if given["checkpoint"] not in CHECKPOINTS:
        raise ConfigError(f"--checkpoint {given['checkpoint']}: must be one of {', '.join(CHECKPOINTS)}")
    from curious_jax.run import policies

    start.start_jax(given["cache"])
    export = policies.find(given["run"], given["checkpoint"])
    return export, options.number(given, "seed_index", 0, export.config.num_seeds - 1)


class Loaded(NamedTuple):
    """A trained policy and the world it was trained in."""

    config: TrainConfig  # of this one seed
    env: "Env"
    policy: "trainer.Policy"
    offset: "jax.Array | None"  # [O], what the sensors are off by (perturbation.py)


def load(export: "policies.Export", index: int = 0, physics: str | None = None) -> Loaded:
    """The policy of an export, with its environment.

    Args:
      index: which of the run's seeds.
      physics: a backend other than the run's, or None.
    Raises:
      ConfigError: when the policy cannot be read or the physics is not here.
    """
    import jax

    from curious_jax.learner import perturbation, trainer
    from curious_jax.run import policies

    config = export.config if physics is None else dataclasses.replace(export.config, physics=physics)
    env = program.make_env(config)
    like = jax.eval_shape(lambda: trainer.policy(trainer.init(config, env)))
    policy = policies.restore(export, like)
    if config.num_seeds > 1:
        policy = jax.tree.map(lambda leaf: leaf[index], policy)
        config = dataclasses.replace(config, num_seeds=1, seed=config.seed + index)
    return Loaded(config, env, policy, perturbation.offset(config.perturbation, env, export.info["episodes"]))
