"""Gives the command that trains a run, from its settings alone."""

import shlex

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.config import TrainConfig, option_name

_ALWAYS = ("modules", "preset", "seed")  # said even where they are the defaults, which follow the machine


def training(config: TrainConfig) -> str:
    """Returns the `python -m curious_jax.train` command of a run, with what preset, world and algorithm bring left out.

    It names no folder, so that it can be handed on.
    """
    chosen = {name: configs.value(config, name) for name in ("preset", "world", "algorithm")}
    usual = configs.make_config(**chosen)
    words = ["python", "-m", "curious_jax.train"]
    default = configs.make_config(preset=config.preset)
    for name in configs.fields_by_name():
        held, start = configs.value(config, name), default if name in chosen else usual
        if held != configs.value(start, name) or name in _ALWAYS:
            words += [option_name(name), options.show(held)]
    return shlex.join(words)
