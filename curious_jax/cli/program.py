"""What the programs share: exit statuses, one line for bad input, and the way to an environment."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import curious_jax
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError, OverflowedBuffers

DONE, FAILED, BAD_INPUT, DIVERGED, INTERRUPTED = 0, 1, 2, 3, 130  # exit statuses


def run(body: Callable[[], int]) -> int:
    """The exit status of a program: its own, 2 after one line on standard error for bad input, 130 after Ctrl-C."""
    try:
        return body()
    except ConfigError as error:
        return fail(str(error), BAD_INPUT)
    except OverflowedBuffers as error:
        return fail(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED


def fail(message: str, status: int) -> int:
    """Says what is wrong in one line on standard error; returns the status."""
    print("error: " + " ".join(message.split()), file=sys.stderr)
    return status


def python() -> str:
    """How to call this Python from the current folder: `python`, unless that is another or none."""
    named = shutil.which("python")
    if named and Path(named).parent == Path(sys.executable).parent:
        return "python"
    near = os.path.relpath(sys.executable)
    return min(sys.executable, near if os.sep in near else os.path.join(".", near), key=len)


def only_run(name: str, arguments: Sequence[str]) -> str:
    """The folder that is the only argument of the program `name`.

    Raises:
      ConfigError: for any other arguments, saying what is wanted.
    """
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise ConfigError(f"usage: python -m curious_jax.{name} RUN, where RUN is the folder of a run")
    return arguments[0]


def keep_compiled(folder: str | None) -> None:
    """Keeps compiled programs in a folder, where the next start of the same command finds them.

    Args:
      folder: "none" for no keeping; None for what JAX_COMPILATION_CACHE_DIR says, or else this user's cache folder.
    Raises:
      ConfigError: when the folder cannot be used.
    """
    import jax

    if folder == "none":
        jax.config.update("jax_enable_compilation_cache", False)
        return
    if folder is None:
        if jax.config.jax_compilation_cache_dir is not None:
            return
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "curious_jax"
    else:
        path = Path(folder).expanduser()
    there = next(p for p in (path, *path.parents) if p.exists())  # JAX makes the rest
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        if folder is None:
            return
        raise ConfigError(f"--cache {folder}: not a folder that can be written to; give another, or none")
    jax.config.update("jax_compilation_cache_dir", str(path))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:  # JAX keeps nothing below a second
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def make_env(config: TrainConfig) -> Any:
    """The environment a config names.

    Raises:
      ConfigError: naming the option at fault, or the foreign package that hides our `envs`.
    """
    check_envs_package()
    from curious_jax.learner import devices, perturbation
    from envs import world

    devices.check(config)

    try:
        env = world.make(
            world=config.world,
            modules=config.modules,
            distractors=config.distractors,
            physics=config.physics,
            num_worlds=1,  # `fit` makes buffers for all of them, once memory.check has let the run pass
            start=config.start,
        )
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if env.physics_name == "warp" and devices.count(config.devices) > 1:
        raise ConfigError(
            f"--devices {config.devices}: warp physics runs on one GPU; leave it out, or choose --physics jax"
        )
    perturbation.check(config.perturbation, env)
    return env


def check_envs_package() -> None:
    """Refuses another package named `envs` that stands before ours on Python's path."""
    import envs

    ours = Path(curious_jax.__file__).parent.parent / "envs"
    found = Path(envs.__file__).parent if envs.__file__ else Path(next(iter(envs.__path__)))
    if found.resolve() != ours.resolve():
        raise ConfigError(
            f"envs: the package at {found} hides curious_jax's own; start from another folder or take it off PYTHONPATH"
        )
