"""What ends a program with one line instead of a traceback (program.py)."""


class ConfigError(ValueError):
    """A setting that cannot be used; the message is one line naming the option and the right values."""


class OverflowedBuffers(RuntimeError):
    """A physics buffer ran out: contacts were dropped, so the run's results cannot be trusted."""
