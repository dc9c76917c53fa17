"""The way from a config to its environment."""

import dataclasses
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import curious_jax
from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError

if TYPE_CHECKING:
    from curious_jax.types import Env


def make_env(config: TrainConfig, to_act: bool = False) -> "Env":
    """The environment that a config names.

    Args:
      to_act: a trained policy is to act in it, which does not need what --import brought for training alone, such as
        a metrics sink: one that cannot be imported then is missed only where a name is unknown without it.
    Raises:
      ConfigError: naming the setting at fault, or the foreign package that hides our `envs`.
    """
    check_envs_package()
    missing = _try_imports(config.imports)
    if missing and not to_act:
        raise missing
    import envs
    from curious_jax.learner import devices, estimators, goals, mirror, perturbation

    devices.check(config)
    try:
        env = envs.make(config.world, config.modules, config.distractors, config.physics, config.start, config.sleep)
    except ValueError as error:
        raise missing or ConfigError(with_import_hint(name_option(error))) from None
    if not any(env.modules.achievable):
        raise ConfigError(f"--modules {','.join(config.modules)}: must have a module that can be achieved")
    if env.physics_name == "warp" and devices.count(config.devices) > 1:
        raise ConfigError(
            f"--devices {config.devices}: warp physics runs on one GPU; leave it out, or choose --physics jax"
        )
    perturbation.check(config.perturbation, env)
    mirror.check(config.hindsight.mirror, env)
    try:
        estimators.make(config, env.modules)
        goals.make(config, env.modules, 1, 1)
    except ConfigError as error:
        raise missing or error from None
    return env


def _try_imports(names: Iterable[str]) -> ConfigError | None:
    """Imports what can be imported of the names; returns what was wrong with the first of the others."""
    problems = []
    for name in names:
        try:
            import_modules([name])
        except ConfigError as error:
            problems.append(error)
    return problems[0] if problems else None


def import_modules(names: Iterable[str]) -> None:
    """Imports Python modules by name, which register modules of the user's own; the current folder is searched, too.

    Raises:
      ConfigError: naming the one that cannot be imported.
    """
    for name in names:
        try:
            if "" not in sys.path and os.getcwd() not in sys.path:  # a console script's path lacks it
                sys.path.append(os.getcwd())
            importlib.import_module(name)
        except Exception as error:  # whatever the user's file raises
            missing = isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]
            why = "there is no such module; start in its folder, or put that on PYTHONPATH" if missing else (
                f"{type(error).__name__}: {error}")  # fmt: skip
            raise ConfigError(f"--import {name}: {why}") from None


def name_option(error: ValueError) -> str:
    """Returns an error's message, with the option's name where `envs` names an argument (envs.errors)."""
    if not hasattr(error, "argument"):
        return str(error)
    value = "" if error.value is None else f" {error.value}"
    return f"--{error.argument.replace('_', '-')}{value}: {error.message}"


def with_import_hint(message: str) -> str:
    """A world's message; of an unknown module it says how one's own are made known."""
    return f"{message}, or --import the Python module that registers it" if "unknown module" in message else message


def check_envs_package() -> None:
    """Refuses another package named `envs` that stands before ours on Python's path."""
    import envs

    ours = Path(curious_jax.__file__).parent.parent / "envs"
    found = Path(envs.__file__).parent if envs.__file__ else Path(next(iter(envs.__path__)))
    if found.resolve() != ours.resolve():
        raise ConfigError(
            f"envs: the package at {found} hides curious_jax's own; start from another folder or take it off PYTHONPATH"
        )


def with_modules_evaluated(env: Any, names: Iterable[str]) -> Any:
    """The environment with these modules for evaluation, and no others.

    Raises:
      ConfigError: on a module that it does not have.
    """
    modules, names = env.modules.modules, tuple(map(configs.canonical, names))
    if not names:
        raise ConfigError(f"--modules: name at least one of {', '.join(env.modules.names)}")
    for name in names:
        if name not in env.modules.names:
            raise ConfigError(
                f"--modules {name}: the run has no such module; choose from {', '.join(env.modules.names)}"
            )
    chosen = tuple(dataclasses.replace(m, achievable=m.name in names) for m in modules)
    return dataclasses.replace(env, modules=dataclasses.replace(env.modules, modules=chosen))
