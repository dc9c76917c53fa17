"""Options by which a program is told a trained policy (RUN, --checkpoint, --seed-index, --physics)."""

from typing import TYPE_CHECKING, Any

from curious_jax.cli import parser as options
from curious_jax.cli import start
from curious_jax.config import PHYSICS
from curious_jax.errors import ConfigError

if TYPE_CHECKING:
    from curious_jax.run import policies

CHECKPOINTS = ("last", "best")


def add_options(parser: options.Parser, *, physics: bool = True) -> None:
    """Adds RUN and the options that say which of its policies is meant."""
    parser.add_argument(
        "run",
        type=options.path,
        metavar="RUN",
        help="the folder of a run, or a policy that comes along, by its name, such as four-modules; or hub:OWNER/NAME, "
        'a policy on the Hugging Face hub (extra "hub")',
    )
    parser.add_argument(
        "--checkpoint",
        default="last",
        metavar="|".join([*CHECKPOINTS, "EPISODES"]),
        help="which policy; EPISODES: one that --keep-policies kept after so much training [default: last]",
    )
    parser.add_argument(
        "--seed-index", default="0", metavar="I", help="which seed of a run with --num-seeds, from 0 [default: 0]"
    )
    if physics:
        parser.add_argument("--physics", metavar="|".join(PHYSICS), help="another physics backend than the run's")


def find(given: dict[str, Any]) -> "tuple[policies.SavedPolicy, int]":
    """Finds the policy and the index of its seed that the options of `add_options` name.

    Raises:
      ConfigError: naming the option, or saying what is wrong with the folder.
    """
    name = given["checkpoint"]
    if name not in CHECKPOINTS and not (name.isascii() and name.isdecimal()):
        raise ConfigError(f"--checkpoint {name}: must be one of {', '.join(CHECKPOINTS)}, or a number of episodes")
    from curious_jax.run import policies

    start.start_jax(given["cache"])
    export = policies.find(given["run"], name)
    return export, options.number(given, "seed_index", 0, export.config.num_seeds - 1)
