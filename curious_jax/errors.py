"""Errors that end a program with one line instead of a traceback (cli/program.py)."""

import re
from typing import Any


class ConfigError(ValueError):
    """Bad input; the message is one line that names what is wrong and the right values."""

    @property
    def on_command_line(self) -> str:
        """The message in the words of the command line."""
        return str(self)


class SettingError(ConfigError):
    """A setting that cannot be used. The message speaks of arguments (`num_envs=0`), on a command line of options.

    Args:
      name: the setting's field, such as num_envs.
      wanted: the right values; other settings stand in it as `name=value`.
    """

    def __init__(self, name: str, value: Any, wanted: str):
        super().__init__(f"{name}={value!r}"[:200] + f": must be {wanted}")
        self.name, self.value, self.wanted = name, value, wanted

    def __reduce__(self) -> tuple[Any, ...]:  # or a process of a pool could not hand it on
        return SettingError, (self.name, self.value, self.wanted)

    @property
    def on_command_line(self) -> str:
        """The message in the words of the command line."""
        value = ",".join(map(str, self.value)) if isinstance(self.value, (list, tuple)) else str(self.value)
        return f"{option_name(self.name)} {value[:200] or repr('')}: must be {as_options(self.wanted)}"


class OverflowedBuffers(RuntimeError):
    """A physics buffer ran out: contacts were dropped, so the run's results cannot be trusted."""


def option_name(field_name: str) -> str:
    """num_envs -> --num-envs."""
    return "--import" if field_name == "imports" else "--" + field_name.replace("_", "-")


def as_options(text: str) -> str:
    """Arguments in a message as options: `num_envs=128` becomes `--num-envs 128`."""
    return re.sub(r"(?<![\w/,.-])([a-z]\w*)=", lambda match: f"{option_name(match[1])} ", text)
