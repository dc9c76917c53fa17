"""Checks a registered module before anything runs, so that a slip in it is one line that names the part.

Nothing is computed but `solved` of an observation of NaN; the other parts are traced for the shapes that they give.
"""

import math
import numbers
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from envs import module_names
from envs.errors import ArgumentError

if TYPE_CHECKING:
    from envs.modules import Module, ModuleTable

_LONGEST = 160  # characters of another's error message


def build(name: str, builder: Callable[[Any], Any], layout: Any) -> Any:
    """Builds a registered module for a layout.

    Raises:
      ArgumentError: naming the line of the user's file that failed.
    """
    return _attempt(name, "the function that builds it", builder, builder, layout)


def check(module: "Module", obs_size: int) -> None:
    """Refuses a module with a part that does not give what it should.

    Args:
      obs_size: O, of the world's observation.
    Raises:
      ArgumentError: naming the part at fault, what it gives and what it should.
    """
    name, size = module.name, module.goal_size
    if not isinstance(size, numbers.Integral) or isinstance(size, bool) or size < 0:
        raise _error(name, f"goal_size is {size!r}; it must be a whole number of 0 or more")
    obs, goal = _floats(obs_size), _floats(size)
    key = jax.eval_shape(lambda: jax.random.key(0))
    own = (module.goal_size,)
    _expect(name, "outcome", own, "goal_size says", module.outcome, obs)
    _expect(name, "sample_goal", own, "goal_size says", module.sample_goal, key)
    _expect(name, "goal_at", own, "goal_size says", module.goal_at, goal, obs)
    if module.mirror is not None:
        _expect(name, "mirror", own, "goal_size says", module.mirror, goal)
    _expect_flag(name, "solved", module.solved, obs, goal)
    for guide in module.guides:
        _shape(name, "a guide's goal", guide.goal, obs, goal)
        _expect_flag(name, "a guide's acts", guide.acts, obs, goal)
    if module.interest is not None and len(found := _shape(name, "interest", module.interest, obs)) != 1:
        raise _error(name, f"interest gives shape {found}; it must be [k], one axis")
    if module.place is not None and (found := _shape(name, "place", module.place, goal, obs)) not in ((2,), (3,)):
        raise _error(name, f"place gives shape {found}; it must be (2,) or (3,), a point in the world")
    if module.radius is not None and not (_is_number(module.radius) and 0 < module.radius < math.inf):
        raise _error(name, f"radius is {module.radius!r}; it must be a number above 0, or None")
    _check_nan(module, obs_size)


def _is_number(value: Any) -> bool:
    """Tells numbers, NumPy's among them, from all else."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_guides(own: "Sequence[Module]", table: "ModuleTable", obs_size: int) -> None:
    """Refuses guides of the user's own modules whose goal is not one of the module that acts, where that is in the run.

    Raises:
      ArgumentError: naming both modules, and both shapes.
    """
    sizes = {module.name: module.goal_size for module in table.modules}
    for module in own:
        for guide in module.guides:
            acting = module_names.canonical(guide.module)
            if acting in sizes:
                _expect(
                    module.name,
                    f"the goal for its guide {guide.module}",
                    (sizes[acting],),
                    f"a goal of {guide.module} has",
                    guide.goal,
                    _floats(obs_size),
                    _floats(module.goal_size),
                )


def _check_nan(module: "Module", obs_size: int) -> None:
    with jax.ensure_compile_time_eval():
        solved = bool(module.solved(jnp.full(obs_size, jnp.nan), jnp.zeros(module.goal_size)))
    if solved:
        raise _error(
            module.name, "solved is True where the observation is NaN; compare by <, as distance < tolerance does"
        )


def _floats(size: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((size,), jnp.float32)


def _expect(name: str, part: str, wanted: tuple[int, ...], by: str, function: Any, *arguments: Any) -> None:
    found = _shape(name, part, function, *arguments)
    if found != wanted:
        raise _error(name, f"{part} gives shape {found}; it must be {wanted}, as {by}")


def _expect_flag(name: str, part: str, function: Any, *arguments: Any) -> None:
    found = _trace(name, part, function, *arguments)
    if found.shape != () or found.dtype != bool:
        raise _error(name, f"{part} gives {found.dtype.name} of shape {found.shape}; it must be one bool")


def _shape(name: str, part: str, function: Any, *arguments: Any) -> tuple[int, ...]:
    return tuple(_trace(name, part, function, *arguments).shape)


def _trace(name: str, part: str, function: Any, *arguments: Any) -> Any:
    """Returns shape and type of what a function gives; a Python number counts as an array."""
    if not callable(function):
        raise _error(name, f"{part} is {function!r}; it must be a function")
    trace = lambda: jax.eval_shape(lambda *given: jnp.asarray(function(*given)), *arguments)  # noqa: E731
    return _attempt(name, part, function, trace)


def _attempt(name: str, part: str, function: Any, call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls it; an error of the user's code becomes one line that names its place in the file of `function`."""
    try:
        return call(*arguments)
    except ArgumentError:
        raise
    except Exception as error:  # whatever the user's code raises
        file = getattr(getattr(function, "__code__", None), "co_filename", None)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        place = f", {file}, line {lines[-1]}" if lines else ""
        message = " ".join(str(error).split())[:_LONGEST]
        raise _error(name, f"{part} fails{place}: {type(error).__name__}: {message}") from error


def _error(name: str, message: str) -> ArgumentError:
    return ArgumentError("modules", f"{name}: {message}")
