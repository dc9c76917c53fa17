"""What the programs share: exit statuses, one line for bad input, and the way to an environment."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import curious_jax
from curious_jax.config import ConfigError, TrainConfig

DONE, BAD_INPUT, DIVERGED = 0, 2, 3  # exit statuses; 128 + signal number when interrupted


def run(body: Callable[[], int]) -> int:
    """The exit status of a program: its own, or 2 after one line on standard error for bad input."""
    try:
        return body()
    except ConfigError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return BAD_INPUT


def make_env(config: TrainConfig) -> Any:
    """The environment a config names.

    Raises:
      ConfigError: naming the option at fault, or the foreign package that hides our `envs`.
    """
    check_envs_package()
    from envs import world

    try:
        return world.make(
            world=config.world,
            modules=config.modules,
            distractors=config.distractors,
            physics=config.physics,
            num_worlds=config.schedule.num_envs * config.num_seeds,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check_envs_package() -> None:
    """Refuses another package named `envs` that stands before ours on Python's path."""
    import envs

    ours = Path(curious_jax.__file__).parent.parent / "envs"
    found = Path(envs.__file__).parent if envs.__file__ else Path(next(iter(envs.__path__)))
    if found.resolve() != ours.resolve():
        raise ConfigError(
            f"envs: the package at {found} hides curious_jax's own; start from another folder or take it off PYTHONPATH"
        )
