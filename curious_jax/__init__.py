"""CURIOUS (Colas et al., ICML 2019) in JAX: modular goals, learning progress, one compiled step.

    import curious_jax

    config = curious_jax.make_config(modules=("reach", "push"), target_success=0.9)
    progress = curious_jax.fit(config, curious_jax.make(config))
    curious_jax.save_policy("my-policy", progress)
    policy = curious_jax.load_policy("my-policy")
    action = policy.act(obs, "push", goal)

Names are imported when they are first used, so that importing curious_jax does not import JAX.
"""

import contextlib
import importlib
import os
import signal
import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "make_config": "curious_jax.config",
    "TrainConfig": "curious_jax.config",
    "ConfigError": "curious_jax.errors",
    "make": "curious_jax.cli.environment:make_env",
    "fit": "curious_jax.fit",
    "evaluate": "curious_jax.evaluate",
    "load_policy": "curious_jax.run.acting",
    "save_policy": "curious_jax.run.acting",
    "show_policy": "curious_jax.play",
    "register": "envs.modules",
    "register_estimator": "curious_jax.learner.estimators:register",
    "register_goals": "curious_jax.learner.goals:register",
    "register_sink": "curious_jax.show.sinks:register",
}
_PROGRAMS = ("fit", "evaluate")  # modules of this package that are functions, too

_DOORS = ("gymnasium_env", "brax_env")

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _DOORS:  # as envs.NAME, with a clear error where another package named envs hides ours
        importlib.import_module("curious_jax.cli.environment").check_envs_package()
        return importlib.import_module(f"envs.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'curious_jax' has no attribute {name!r}")
    place, _, other = _HOMES[name].partition(":")
    home = importlib.import_module(place)
    return home if name in _PROGRAMS else getattr(home, other or name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Callable(ModuleType):
    """A module that is called as its function of the same name.

    `fit` and `evaluate` are names of the interface and of modules. Python puts a module into its package under its name
    once it is imported, whoever imports it; so the module itself must be what a user can call:

        progress = curious_jax.fit(config, env)
        from curious_jax.fit import Progress
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """This package: its modules `fit` and `evaluate` can be called, whoever imported them first."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PROGRAMS and isinstance(value, ModuleType):
            value.__class__ = _Callable
        super().__setattr__(name, value)


def _is_program() -> bool:
    """Is Python starting one of the programs, as `python -m curious_jax.train` or `curious-train`?"""
    called, words = getattr(sys, "argv", [""])[0], sys.orig_argv
    if called == "-m":  # what runpy puts there while it looks for the module
        called = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
        return called.partition(".")[0] in (__name__, "experiments")
    return os.path.basename(called).partition("-")[0] == "curious"


def _end_on_ctrl_c() -> None:
    """Makes Ctrl-C end the process without a traceback while it imports (who holds it when: cli/program.py)."""
    with contextlib.suppress(ValueError):  # in a thread
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


sys.modules[__name__].__class__ = _Package
if _is_program():
    _end_on_ctrl_c()
    importlib.import_module("curious_jax.cli.launch").check()
