"""The error for a bad argument, told by the argument's name so that a command line can name its option instead."""

from typing import Any


class ArgumentError(ValueError):
    """A value that an argument cannot have. Prints as `start='x': must be one of …`.

    Attributes:
      argument: the argument's name.
      value: what was given; None when the message speaks of it.
      message: what is wrong and the right values, or the next move, in one line.
    """

    def __init__(self, argument: str, message: str, value: Any = None):
        self.argument, self.message, self.value = argument, message, value
        super().__init__(f"{argument}: {message}" if value is None else f"{argument}={value!r}: {message}")

    def __reduce__(self) -> Any:
        return ArgumentError, (self.argument, self.message, self.value)


def check_index(what: str, k: int, count: int) -> None:
    """Refuses the k-th of things that are counted from 1 where there are fewer. Raises ValueError, saying how many."""
    if not 1 <= k <= count:
        raise ValueError(f"{what} {k} does not exist: the scene has {count}, counted from 1")
