"""Command lines of the experiments and checks: a parser whose errors take one line, and whole-number options."""

import argparse
from typing import NoReturn

from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are ConfigErrors, which programs answer with one line."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError."""
        raise ConfigError(message.removeprefix("argument ") + "; see --help")


def whole(name: str, text: str, least: int) -> int:
    """An option's whole number.

    Raises:
      ConfigError: when it is none, or less than `least`.
    """
    value = options.convert(name, text, int)
    if value < least:
        raise ConfigError(f"{name} {text}: must be a whole number of {least} or more")
    return value
