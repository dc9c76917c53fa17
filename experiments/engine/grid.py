"""Grids: conditions (algorithm x setting) times groups of seeds, each pair a cell, which is one run's folder.

A condition is labels, which become columns of the table, and settings of `curious_jax.train`; its seeds are cut into
groups, and a group is one process that trains them side by side (--num-seeds).
"""

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError

LONGEST_NAME = 255  # bytes, of a file or folder
CELLS = "cells"  # folder of the cells inside an experiment's


@dataclasses.dataclass(frozen=True)
class Condition:
    """One of the things that are compared: a line of a figure."""

    labels: Mapping[str, Any]  # such as {"algorithm": "curious", "distractors": 4}
    settings: Mapping[str, Any]  # flat settings for config.make_config, without seeds

    @functools.cached_property
    def name(self) -> str:
        """Its folder: algorithm=curious,distractors=4."""
        return ",".join(f"{key}={_text(value)}" for key, value in self.labels.items())

    def config(self, seed: int = 0, num_seeds: int = 1) -> TrainConfig:
        """The run that it asks for. Raises ConfigError, naming the option."""
        if num_seeds not in self._made:  # thousands of cells ask for it
            self._made[num_seeds] = configs.make_config(**{**self.settings, "seed": 0, "num_seeds": num_seeds})
        return dataclasses.replace(self._made[num_seeds], seed=seed) if seed else self._made[num_seeds]

    def of_preset(self, name: str) -> "Condition":
        """The same condition as a machine took it that made preset `auto` this one."""
        if self.settings.get("preset", "auto") != "auto":
            return self
        if name not in self._as_preset:
            self._as_preset[name] = Condition(self.labels, {**self.settings, "preset": name})
        return self._as_preset[name]

    @functools.cached_property
    def _made(self) -> dict[int, TrainConfig]:
        """Its runs from seed 0 on, by their number of seeds."""
        return {}

    @functools.cached_property
    def _as_preset(self) -> dict[str, "Condition"]:
        """The conditions that `of_preset` has made."""
        return {}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One process's work: a condition's seeds first ... first + count - 1."""

    condition: Condition
    first: int
    count: int

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds it trains."""
        return tuple(range(self.first, self.first + self.count))

    @property
    def name(self) -> str:
        """Its folder inside the condition's: seeds-0-9, or seed-3."""
        return f"seeds-{self.first}-{self.first + self.count - 1}" if self.count > 1 else f"seed-{self.first}"

    def folder(self, out: Path) -> Path:
        """The folder of its run."""
        return out / CELLS / self.condition.name / self.name

    def arguments(self) -> list[str]:
        """The command line of curious_jax.train, without --out."""
        settings = {**self.condition.settings, "seed": self.first, "num_seeds": self.count}
        return [text for name, value in settings.items() for text in as_option(name, value)]

    def __str__(self) -> str:
        return f"{self.condition.name}/{self.name}"


def _text(value: Any) -> str:
    """A label as part of a folder's name."""
    text = "+".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)
    return re.sub(r"[^\w.+-]", "_", text)


def as_option(name: str, value: Any) -> list[str]:
    """A flat setting as it is typed: ("num_envs", 4) -> ["--num-envs", "4"]."""
    if isinstance(value, (tuple, list)) and not value:
        return []
    return [configs.option_name(name), options.show(value)]


def parse_seeds(text: str) -> tuple[int, ...]:
    """ "0-3,7" -> (0, 1, 2, 3, 7).

    Raises:
      ConfigError: on anything else.
    """
    seeds: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part.strip())
        last = int(match[2] or match[1]) if match else -1
        if not match or last < int(match[1]):
            raise ConfigError(f"--seeds {text}: must be seeds such as 0-9, or 0,3,5-7")
        if last - int(match[1]) >= 100_000:
            raise ConfigError(f"--seeds {text}: must be at most 100000 seeds")
        seeds.update(range(int(match[1]), last + 1))
    return tuple(sorted(seeds))


def groups(seeds: Iterable[int], size: int) -> list[tuple[int, int]]:
    """Seeds -> (first, count) of runs of consecutive ones, at most `size` long."""
    found: list[tuple[int, int]] = []
    for seed in sorted(seeds):
        if found and seed == sum(found[-1]) and found[-1][1] < size:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seed, 1))
    return found


def shard(cells: Sequence[Cell], index: int, number: int) -> list[Cell]:
    """Every `number`-th cell, from the `index`-th on (counted from 0)."""
    return list(cells[index::number])


def parse_shard(text: str) -> tuple[int, int]:
    """ "0/4" -> (0, 4).

    Raises:
      ConfigError: on anything else.
    """
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match or int(match[1]) >= int(match[2]):
        raise ConfigError(f"--shard {text}: must be i/n with i from 0 to n-1, such as 0/4")
    return int(match[1]), int(match[2])


def check(conditions: Sequence[Condition], seeds: Sequence[int], group: int) -> None:
    """Refuses conditions that no run could have, before anything is written. Raises ConfigError, naming the option."""
    names = [condition.name for condition in conditions]
    if not names:
        raise ConfigError("there is nothing to compare: ask for one condition or more; see --help")
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{name}: is asked for twice; name each value once")
        if len(name.encode()) > LONGEST_NAME:
            raise ConfigError(f"{name[:60]}...: is too long for a folder's name; vary fewer settings at once")
    for condition in conditions:
        _check_modules(condition.config(max(seeds, default=0), group))


def _check_modules(config: TrainConfig) -> None:
    """Module names and the perturbed cube, without physics or an accelerator: those are the cells' own."""
    import envs
    from curious_jax.cli import environment
    from curious_jax.learner import perturbation

    environment.import_modules(config.imports)
    try:
        env = envs.make(config.world, config.modules, config.distractors, physics="c", start=config.start)
    except ValueError as error:
        raise ConfigError(environment.with_import_hint(environment.name_option(error))) from None
    perturbation.check(config.perturbation, env)
