"""Errors that end a program with one line instead of a traceback (cli/program.py)."""

import importlib.util
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
    """The physics lost contacts in too many episodes for a run's results to be trusted."""


def check_installed(what: str, extra: str, *modules: str, otherwise: str = "") -> None:
    """Refuses what needs packages that are not there.

    Args:
      what: needs them, such as an option.
      extra: of curious_jax, which brings them.
      modules: by the names that are imported.
      otherwise: what else a user can do, as the end of the line.
    Raises:
      ConfigError: naming the packages and the command that installs them.
    """
    if missing := [name for name in modules if importlib.util.find_spec(name) is None]:
        lacks = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        raise ConfigError(f'{what}: {lacks}; pip install "curious_jax[{extra}]"{otherwise}')


def first_line(error: Exception, empty: str = "") -> str:
    """Says an error by the first line of its message, up to 200 characters; one without words by `empty` or its kind.

    Libraries explain themselves in many lines, and a program in one.
    """
    lines = (line.strip() for line in str(error).splitlines())
    return next(filter(None, lines), empty or type(error).__name__)[:200]


def option_name(field_name: str) -> str:
    """num_envs -> --num-envs."""
    return "--import" if field_name == "imports" else "--" + field_name.replace("_", "-")


def as_options(text: str) -> str:
    """Arguments in a message as options: `num_envs=128` becomes `--num-envs 128`."""
    return re.sub(r"(?<![\w/,.-])([a-z]\w*)=", lambda match: f"{option_name(match[1])} ", text)
