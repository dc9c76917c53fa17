"""The Fetch arm's modules and their names: reach, pushK, pnpK, stackKonJ, distractors."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from envs import module_names
from envs.errors import ArgumentError
from envs.modules import Guide, Module, ModuleTable, build_table, distance_solved, norm, registered

GOAL_RANGE = 0.15  # m, goals lie within ± this of the start gripper's x and y
START_GRIPPER = (1.3419, 0.7491, 0.5347)  # m, gripper at the start of an episode (start `default`)
REST_HEIGHT = 0.425  # m, z of a goal on the table (a cube's centre)
MAX_LIFT = 0.45  # m, goals in the air lie up to this above REST_HEIGHT
TOLERANCE = 0.05  # m, closer than this is solved
STACK_HEIGHT = 0.475  # m, centre of a cube on another
GUIDED_RADIUS = 0.03  # m, a cube closer than this to the gripper is at hand, and one closer to its goal is there
STACK_CLEARANCE = 0.06  # m, 1.2 x TOLERANCE between gripper and goal for a stack to count

DISTRACTOR = "distractor"  # and its number, from 1, is the name of its module
_FORMS = "reach, push, pnp, stack, pushK, pnpK, stackKonJ (such as push2, stack2on3)"


def parse(name: str) -> tuple[str, int, int]:
    """A module's name -> (kind, cube, base cube); 0 where a kind has none. push1 is push, stack1on2 stack.

    Raises:
      ArgumentError: on a name outside the grammar, naming the right forms.
    """
    match = module_names.FETCH.fullmatch(name)
    if not match:
        own = "".join(f", {n}" for n in registered())
        raise ArgumentError("modules", f"unknown module {name!r}; use {_FORMS}{own}")
    reach, moved, cube, stack, top, base = match.groups()
    if reach:
        return "reach", 0, 0
    if moved:
        return moved, int(cube or 1), 0
    if top == base and top is not None:
        raise ArgumentError("modules", f"{name} puts a cube on itself; name two cubes, such as stack1on2")
    return stack, int(top or 1), int(base or 2)


def cubes_needed(names: Sequence[str]) -> int:
    """Returns the number of cubes in the scene: as many as the modules name, and at least two."""
    own = registered()
    numbers = [2]
    for name in names:
        numbers.append(own[name].cubes if name in own else max(parse(name)[1:]))
    return max(numbers)


def table(names: Sequence[str], layout: Any, centre: Sequence[float] = START_GRIPPER[:2]) -> ModuleTable:
    """Builds the module table for these names, with the layout's distractors last.

    Args:
      centre: x, y (m) of the start gripper, around which goals lie.
    Raises:
      ArgumentError: on an unknown module, a stack of a cube on itself, a module named twice, or none at all.
    """
    return build_table(
        names,
        layout,
        build=lambda name: _build(name, layout, centre),
        distractor=lambda number: _distractor(number, layout, centre),
    )


def judged_by(name: str, layout: Any) -> tuple[slice, ...]:
    """Slices of the observation that the module's reward looks at; the first is what its goal speaks of."""
    if name.startswith(DISTRACTOR):
        return (layout.distractor_position(int(name.removeprefix(DISTRACTOR))),)
    kind, cube, _ = parse(name)
    if kind == "reach":
        return (layout.gripper_position,)
    moved = layout.cube_position(cube)
    return (moved, layout.gripper_position) if kind == "stack" else (moved,)


def goal_point(goal: Any) -> Any:
    """[..., 2 or 3] -> [..., 3] m: a goal's place; two numbers are a point on the table. NumPy or JAX arrays."""
    if goal.shape[-1] == 3:
        return goal
    xp = goal.__array_namespace__()
    return xp.concatenate([goal, xp.full((*goal.shape[:-1], 1), REST_HEIGHT, goal.dtype)], axis=-1)


def _build(name: str, layout: Any, centre: Sequence[float]) -> Module:
    kind, cube, base = parse(name)
    name = module_names.canonical(name)
    if kind == "reach":
        return _anywhere(name, layout.gripper_position, centre, "the gripper")
    if kind == "stack":
        module = _stack(name, layout.cube_position(cube), layout.cube_position(base), layout.gripper_position, centre)
        what = f"x, y, z of cube {cube} on cube {base} in m, read from the observation: any values will do"
        module = dataclasses.replace(module, meaning=what)
    elif kind == "push":
        module = _on_table(name, layout.cube_position(cube), centre, f"cube {cube}")
    else:
        module = _anywhere(name, layout.cube_position(cube), centre, f"cube {cube}")
    return dataclasses.replace(module, guides=_guides(kind, layout, cube))


def _guides(kind: str, layout: Any, cube: int) -> tuple[Guide, ...]:
    """Reach at the cube until it is at hand; for stack, until the cube is in its place, pnp brings it there."""
    position, relative = layout.cube_position(cube), layout.cube_relative_position(cube)

    def far(obs: jax.Array, goal: jax.Array) -> jax.Array:
        return jnp.linalg.norm(obs[relative]) > GUIDED_RADIUS

    def near(obs: jax.Array, goal: jax.Array) -> jax.Array:
        return jnp.linalg.norm(obs[relative]) <= GUIDED_RADIUS

    def away(obs: jax.Array, goal: jax.Array) -> jax.Array:
        return jnp.linalg.norm(obs[position] - goal) > GUIDED_RADIUS

    if kind != "stack":
        return (Guide("reach", lambda obs, goal: obs[position], far),)
    return (
        Guide("reach", lambda obs, goal: obs[position], lambda obs, goal: far(obs, goal) & away(obs, goal)),
        Guide(f"pnp{cube}", lambda obs, goal: goal, lambda obs, goal: near(obs, goal) & away(obs, goal)),
    )


def _mirror(goal: jax.Array, centre: Sequence[float]) -> jax.Array:
    """[2] or [3] -> the same: a point mirrored in the arm's plane, that through the start gripper."""
    return goal.at[1].set(2 * centre[1] - goal[1])


def _sample_xy(key: jax.Array, centre: Sequence[float]) -> jax.Array:
    return jnp.array(centre, jnp.float32) + jax.random.uniform(
        key, (2,), jnp.float32, minval=-GOAL_RANGE, maxval=GOAL_RANGE
    )


def _sample_xyz(key: jax.Array, centre: Sequence[float]) -> jax.Array:
    key_xy, key_z = jax.random.split(key)
    z = REST_HEIGHT + jax.random.uniform(key_z, (1,), jnp.float32, maxval=MAX_LIFT)
    return jnp.concatenate([_sample_xy(key_xy, centre), z])


def _anywhere(name: str, position: slice, centre: Sequence[float], what: str) -> Module:
    """reach and pnp: a 3-D point for the gripper or a cube."""
    return Module(
        name=name,
        goal_size=3,
        outcome=lambda obs: obs[position],
        sample_goal=lambda key: _sample_xyz(key, centre),
        solved=lambda obs, goal: distance_solved(obs[..., position], goal, TOLERANCE),
        meaning=f"x, y, z of {what} in m",
        mirror=lambda goal: _mirror(goal, centre),
    )


def _on_table(name: str, position: slice, centre: Sequence[float], what: str, achievable: bool = True) -> Module:
    """push: a point on the table; the distance is 3-D, so a lifted cube does not count."""
    return Module(
        name=name,
        goal_size=2,
        outcome=lambda obs: obs[position][:2],
        sample_goal=lambda key: _sample_xy(key, centre),
        solved=lambda obs, goal: distance_solved(obs[..., position], goal_point(goal), TOLERANCE),
        achievable=achievable,
        meaning=f"x, y of {what} in m, on the table (z = {REST_HEIGHT} m)",
        mirror=lambda goal: _mirror(goal, centre) if achievable else goal,  # distractors move on their own
    )


def _distractor(number: int, layout: Any, centre: Sequence[float]) -> Module:
    """An out-of-reach cube with goals inside the reachable box: never solved."""
    place = layout.distractor_position(number)
    return _on_table(f"{DISTRACTOR}{number}", place, centre, f"distractor {number}", achievable=False)


def _stack(name: str, top: slice, base: slice, gripper: slice, centre: Sequence[float]) -> Module:
    """stack: the point above the base cube, with the gripper away.

    Its goal follows the base cube's x and y; relevance and hindsight see the top cube's position alone.
    """

    def solved(obs: jax.Array, goal: jax.Array) -> jax.Array:
        away = norm(obs[..., gripper] - goal) >= STACK_CLEARANCE
        return distance_solved(obs[..., top], goal, TOLERANCE) & away

    def goal_at(goal: jax.Array, obs: jax.Array) -> jax.Array:
        xp = obs.__array_namespace__()
        height = xp.full((*obs.shape[:-1], 1), STACK_HEIGHT, obs.dtype)
        return xp.concatenate([obs[..., base][..., :2], height], axis=-1)

    return Module(
        name=name,
        goal_size=3,
        outcome=lambda obs: obs[top],
        sample_goal=lambda key: jnp.array([*centre, STACK_HEIGHT], jnp.float32),
        solved=solved,
        goal_at=goal_at,
        mirror=lambda goal: _mirror(goal, centre),
    )
