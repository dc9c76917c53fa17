"""Defines what a setting is: its default, help, source, range and choices, and the one check that reads them."""

import dataclasses
import math
import typing
from dataclasses import dataclass, field
from typing import Any

from curious_jax.errors import SettingError

ALGORITHMS = ("curious", "muvfa", "her", "mgme")
LEARNERS = ("ddpg", "td3")
PRESETS = ("auto", "cpu", "fast", "wide", "gpu", "paper", "point")
PHYSICS = ("auto", "c", "jax", "warp")
WORLDS = ("fetch", "point")
STARTS = ("default", "fetch-reach", "fetch-push", "mixed")
SUBSTITUTIONS = ("own", "drawn")
SELECTIONS = ("lp", "uniform")
ESTIMATORS = ("competence", "ema", "learnability", "bayes", "plr", "model", "uniform", "order")
GOALS = ("uniform", "alp-gmm", "riac", "mega", "vds", "learnability")
REPLAYS = ("lp", "uniform", "own")
GOAL_REPLAYS = ("her", "none")
MAX_COUNT = 10**9  # of anything: int32 counters hold it
ALL = "all"  # devices
# Values that config.json of earlier versions holds, and what they are called now.
OLD_VALUES: dict[str, dict[str, Any]] = {
    "substitution": {"default": "own", "paper": "drawn"},
    "interest_replay": {"on": True, "off": False},
}
SOURCES = {"P": "paper", "C": "authors' program"}


def option(
    default: Any,
    help: str,
    source: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    open: bool = False,
) -> Any:
    """A dataclass field with what `--help` shows of it and what a value is checked against.

    Args:
      source: of the default: P the paper, C the authors' program, empty for ours.
      low, high: the range of a number, both included; a whole number without them is from 1 to MAX_COUNT.
      choices: the words that it may be.
      open: any other name may be registered, too; whoever looks it up refuses one that is not.
    """
    held = {"help": help, "source": source, "low": low, "high": high, "choices": choices, "open": open}
    return field(default=default, metadata=held)


def kind(f: dataclasses.Field) -> Any:
    """The type of a setting's value: bool, int, float, str or tuple; None and words beside a number are left out."""
    kinds = [k for k in typing.get_args(f.type) or (f.type,) if k is not type(None)]
    return tuple if typing.get_origin(f.type) is tuple else kinds[0]


def bounds(f: dataclasses.Field) -> str:
    """The range of a number in words, such as "between 0 and 1"; empty for other settings."""
    if kind(f) not in (int, float):
        return ""
    low, high = (str(x) if isinstance(x, int) else f"{x:g}" for x in _range(f))
    return f"{low} or more" if high == str(MAX_COUNT) else f"between {low} and {high}"


def allowed(f: dataclasses.Field) -> str:
    """Says in words what a setting may be."""
    words = {
        bool: "True or False",
        int: ("a whole number of " if bounds(f).endswith("more") else "a whole number ") + bounds(f),
        float: bounds(f),
        str: "one of " + ", ".join(f.metadata["choices"]),
        tuple: 'a tuple of names, such as ("reach",)',
    }
    others = f.metadata["choices"] if kind(f) is not str else ()
    return ", or ".join([words[kind(f)], *others, *(["none"] if _optional(f) else [])])


def fits(f: dataclasses.Field, value: Any) -> bool:
    """Is this value of the right type, and within the setting's range or choices?"""
    if value is None:
        return _optional(f)
    if isinstance(value, str):
        return value in f.metadata["choices"] or (f.metadata["open"] and value.replace("-", "_").isidentifier())
    if kind(f) is tuple:
        return isinstance(value, tuple) and all(isinstance(name, str) and name for name in value)
    if kind(f) is bool or isinstance(value, bool):
        return kind(f) is bool and isinstance(value, bool)
    low, high = _range(f)
    number = isinstance(value, int) or (kind(f) is float and isinstance(value, float) and math.isfinite(value))
    return number and kind(f) in (int, float) and low <= value <= high


def _range(f: dataclasses.Field) -> tuple[float, float]:
    low, high = f.metadata["low"], f.metadata["high"]
    return 1 if low is None else low, MAX_COUNT if high is None else high


def _optional(f: dataclasses.Field) -> bool:
    return type(None) in typing.get_args(f.type)


def require(ok: bool, name: str, value: Any, wanted: str) -> None:
    """Raises SettingError unless ok, saying what the setting must be."""
    if not ok:
        raise SettingError(name, value, wanted)


def check(name: str, f: dataclasses.Field, value: Any) -> None:
    """Raises SettingError when a value is of the wrong type, out of range or none of the choices."""
    wanted, now = allowed(f), OLD_VALUES.get(name, {}).get(value) if isinstance(value, str) else None
    if isinstance(now, str):
        wanted += f" ({value} is now {now})"
    if kind(f) is int and isinstance(value, int) and value > MAX_COUNT and bounds(f).endswith("more"):
        wanted += f", at most {MAX_COUNT}"
    require(fits(f, value), name, value, wanted)


@dataclass(frozen=True)
class Settings:
    """A group of settings that checks each of its fields."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if "help" in f.metadata:
                check(f.name, f, getattr(self, f.name))
