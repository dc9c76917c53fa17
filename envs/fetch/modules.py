"""The Fetch arm's modules and their names: reach, pushK, pnpK, stackKonJ, distractors (SPEC 1)."""

import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from envs.modules import Module, ModuleTable, distance_solved, registered

GOAL_RANGE = 0.15  # m, goals lie within ± this of the start gripper's x and y
START_GRIPPER = (1.3419, 0.7491, 0.5347)  # m, gripper at the start of an episode (start `default`)
REST_HEIGHT = 0.425  # m, z of a goal on the table (a cube's centre)
MAX_LIFT = 0.45  # m, goals in the air lie up to this above REST_HEIGHT
TOLERANCE = 0.05  # m, closer than this is solved
STACK_HEIGHT = 0.475  # m, centre of a cube on another
STACK_CLEARANCE = 0.06  # m, 1.2 x TOLERANCE between gripper and goal for a stack to count

_NAME = re.compile(r"(reach)|(push|pnp)([1-9]\d?)?|(stack)(?:([1-9]\d?)on([1-9]\d?))?")
_FORMS = "reach, push, pnp, stack, pushK, pnpK, stackKonJ (such as push2, stack2on3)"


def parse(name: str) -> tuple[str, int, int]:
    """A module's name -> (kind, cube, base cube); 0 where a kind has none. push1 is push, stack1on2 stack.

    Raises:
      ValueError: on a name outside the grammar, naming the right forms.
    """
    match = _NAME.fullmatch(name)
    if not match:
        own = "".join(f", {n}" for n in registered())
        raise ValueError(f"--modules: unknown module {name!r}; use {_FORMS}{own}")
    reach, moved, cube, stack, top, base = match.groups()
    if reach:
        return "reach", 0, 0
    if moved:
        return moved, int(cube or 1), 0
    if top == base and top is not None:
        raise ValueError(f"--modules: {name} puts a cube on itself; name two cubes, such as stack1on2")
    return stack, int(top or 1), int(base or 2)


def canonical(name: str) -> str:
    """push1 -> push, pnp1 -> pnp, stack1on2 -> stack; other names unchanged."""
    return {"push1": "push", "pnp1": "pnp", "stack1on2": "stack"}.get(name, name)


def cubes_needed(names: Sequence[str]) -> int:
    """How many cubes the scene needs: as many as the modules name, two at least (SPEC 1)."""
    own = registered()
    numbers = [2]
    for name in names:
        numbers.append(own[name].cubes if name in own else max(parse(name)[1:]))
    return max(numbers)


def table(names: Sequence[str], layout: Any, centre: Sequence[float] = START_GRIPPER[:2]) -> ModuleTable:
    """The module table for these names, the layout's distractors last.

    Args:
      centre: x, y (m) of the start gripper, around which goals lie.
    Raises:
      ValueError: on an unknown module, a stack of a cube on itself, or a module named twice.
    """
    own = registered()
    modules = [own[name].build(layout) if name in own else _build(name, layout, centre) for name in names]
    modules += [_distractor(k, layout, centre) for k in range(1, layout.num_distractors + 1)]
    return ModuleTable(tuple(modules))


def _build(name: str, layout: Any, centre: Sequence[float]) -> Module:
    kind, cube, base = parse(name)
    name = canonical(name)
    if kind == "reach":
        return _anywhere(name, layout.gripper_position, centre)
    if kind == "push":
        return _on_table(name, layout.cube_position(cube), centre)
    if kind == "pnp":
        return _anywhere(name, layout.cube_position(cube), centre)
    return _stack(name, layout.cube_position(cube), layout.cube_position(base), layout.gripper_position, centre)


def _sample_xy(key: jax.Array, centre: Sequence[float]) -> jax.Array:
    return jnp.array(centre) + jax.random.uniform(key, (2,), minval=-GOAL_RANGE, maxval=GOAL_RANGE)


def _sample_xyz(key: jax.Array, centre: Sequence[float]) -> jax.Array:
    key_xy, key_z = jax.random.split(key)
    z = REST_HEIGHT + jax.random.uniform(key_z, (1,), maxval=MAX_LIFT)
    return jnp.concatenate([_sample_xy(key_xy, centre), z])


def _anywhere(name: str, position: slice, centre: Sequence[float]) -> Module:
    """reach and pnp: a 3-D point for the gripper or a cube."""
    return Module(
        name=name,
        goal_size=3,
        outcome=lambda obs: obs[position],
        sample_goal=lambda key: _sample_xyz(key, centre),
        solved=lambda obs, goal: distance_solved(obs[position], goal, TOLERANCE),
    )


def _on_table(name: str, position: slice, centre: Sequence[float], achievable: bool = True) -> Module:
    """push: a point on the table; the distance is 3-D, so a lifted cube does not count."""

    def solved(obs: jax.Array, goal: jax.Array) -> jax.Array:
        target = jnp.concatenate([goal, jnp.array([REST_HEIGHT])])
        return distance_solved(obs[position], target, TOLERANCE)

    return Module(
        name=name,
        goal_size=2,
        outcome=lambda obs: obs[position][:2],
        sample_goal=lambda key: _sample_xy(key, centre),
        solved=solved,
        achievable=achievable,
    )


def _distractor(number: int, layout: Any, centre: Sequence[float]) -> Module:
    """An out-of-reach cube with goals inside the reachable box: never solved."""
    return _on_table(f"distractor{number}", layout.distractor_position(number), centre, achievable=False)


def _stack(name: str, top: slice, base: slice, gripper: slice, centre: Sequence[float]) -> Module:
    """stack: the point above the base cube, with the gripper away (SPEC 1).

    Its goal follows the base cube's x and y; relevance and hindsight see the top cube's position alone.
    """

    def solved(obs: jax.Array, goal: jax.Array) -> jax.Array:
        away = jnp.linalg.norm(obs[gripper] - goal) >= STACK_CLEARANCE
        return distance_solved(obs[top], goal, TOLERANCE) & away

    def goal_at(goal: jax.Array, obs: jax.Array) -> jax.Array:
        return jnp.concatenate([obs[base][:2], jnp.array([STACK_HEIGHT])])

    return Module(
        name=name,
        goal_size=3,
        outcome=lambda obs: obs[top],
        sample_goal=lambda key: jnp.array([*centre, STACK_HEIGHT]),
        solved=solved,
        goal_at=goal_at,
    )
