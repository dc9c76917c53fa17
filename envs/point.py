"""A probe world: a point that reaches, and moves objects, in a square; learns in seconds.

Modules: `reach` (easy), `drag`, `drag2`, ... (harder: the point must find an object, which then clings to it, and take
it along), `push`, `push2`, ... (hard: it must hold the object with its third action, too), distractors (impossible:
objects that nothing touches), and registered ones. Object k is dragged or pushed, never both.
It exists to test a learner quickly, so it also counts how often its step function is traced.

The defaults master both within 3,000 to 4,000 episodes, in half a minute; small fast networks in seconds
(tests/helpers.py, `probe_config`), reach within 500. Random actions move the object in fewer than half of the
episodes, and bring it to its goal in one of thirty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from envs import module_names
from envs.errors import ArgumentError, check_index
from envs.modules import Guide, Module, ModuleTable, build_table, distance_solved, list_names, registered

ARENA = 0.5  # the square is [-ARENA, ARENA]²
START = 0.3  # objects start in the square [-START, START]², a few steps from the point
STEP = 0.1  # displacement at full action
HOLD = 0.15  # the point holds an object closer than this
CLING = 0.2  # an object to drag clings to the point closer than this
TOLERANCE = 0.1  # closer than this is solved
DISTRACTOR_STEP = 0.01  # standard deviation of a distractor's step
UNIT = "sides of the square"  # of all lengths
ACTION_MEANING = (
    *(f"moves the point along {axis}: 1 is {STEP} of the square's side" for axis in "xy"),
    "holds what is to be pushed while it is positive",
)


@struct.dataclass
class PointState:
    """One world."""

    position: jax.Array  # [2]
    objects: jax.Array  # [K, 2]
    distractors: jax.Array  # [D, 2]
    key: jax.Array
    obs: jax.Array  # [O]
    overflow: jax.Array  # [] bool, always False


@dataclass(frozen=True)
class PointLayout:
    """The places of things in the observation: point 2, per object position 2 and relative 2, per distractor 2."""

    num_cubes: int
    num_distractors: int

    @property
    def size(self) -> int:
        """O."""
        return 2 + 4 * self.num_cubes + 2 * self.num_distractors

    @property
    def gripper_position(self) -> slice:
        """The point."""
        return slice(0, 2)

    def cube_position(self, k: int) -> slice:
        """Object k, from 1."""
        check_index("object", k, self.num_cubes)
        return slice(4 * k - 2, 4 * k)

    def cube_relative_position(self, k: int) -> slice:
        """Object k minus the point."""
        check_index("object", k, self.num_cubes)
        return slice(4 * k, 4 * k + 2)

    def distractor_position(self, k: int) -> slice:
        """Distractor k, from 1."""
        check_index("distractor", k, self.num_distractors)
        start = 2 + 4 * self.num_cubes + 2 * (k - 1)
        return slice(start, start + 2)

    def table(self) -> dict[str, slice]:
        """Name → slice for the whole vector, in order, without gaps."""
        rows = {"point_position": self.gripper_position}
        for k in range(1, self.num_cubes + 1):
            rows[f"object{k}_position"] = self.cube_position(k)
            rows[f"object{k}_relative_position"] = self.cube_relative_position(k)
        for k in range(1, self.num_distractors + 1):
            rows[f"distractor{k}_position"] = self.distractor_position(k)
        return rows

    def units(self) -> dict[str, str]:
        """Gives the unit of each of the table's names."""
        return {name: UNIT + (", object minus point" if "relative" in name else "") for name in self.table()}


@dataclass(eq=False)
class TraceCount:
    """Counts how often step was traced: twice in a run means that something compiled twice."""

    step: int = 0


@dataclass(frozen=True, eq=False)
class PointEnv:
    """The probe; see curious_jax.types.Env."""

    layout: PointLayout
    modules: ModuleTable
    clinging: tuple[bool, ...] = ()  # [K], the objects that need no holding
    traces: TraceCount = field(default_factory=TraceCount)
    episode_length: int = 20
    action_size: int = 3
    action_meaning: tuple[str, ...] = ACTION_MEANING
    control_period: float | None = None
    obs_bound: float = 100.0
    physics_name: str = "none"
    physics_steps_per_step: int = 1
    physics_bytes_per_world: int = 0

    @property
    def obs_size(self) -> int:
        """O."""
        return self.layout.size

    def with_worlds(self, num_worlds: int) -> "PointEnv":
        """Itself: there are no buffers."""
        return replace(self)

    def reset(self, key: jax.Array) -> PointState:
        """The point at the centre, objects near it, distractors outside the square; a function of the key alone."""
        key_objects, key_distractors, key = jax.random.split(key, 3)
        objects = jax.random.uniform(key_objects, (self.layout.num_cubes, 2), minval=-START, maxval=START)
        distractors = 2 * ARENA + jax.random.uniform(key_distractors, (self.layout.num_distractors, 2))
        return self._observe(jnp.zeros(2), objects, distractors, key)

    def step(self, state: PointState, action: jax.Array) -> PointState:
        """Moves the point by STEP·action[:2], with it pushed objects within HOLD while action[2] > 0, and dragged
        ones within CLING."""
        self.traces.step += 1
        key_walk, key = jax.random.split(state.key)
        action = jnp.clip(action, -1.0, 1.0)
        position = jnp.clip(state.position + STEP * action[:2], -ARENA, ARENA)
        distance = jnp.linalg.norm(state.objects - state.position, axis=1)
        held = (distance < HOLD) & (action[2] > 0)
        if any(self.clinging):
            held = jnp.where(jnp.array(self.clinging), distance < CLING, held)
        held = held[:, None]
        objects = jnp.where(held, state.objects + position - state.position, state.objects)
        walk = DISTRACTOR_STEP * jax.random.normal(key_walk, state.distractors.shape)
        return self._observe(position, objects, state.distractors + walk, key)

    def mirror(self, obs: jax.Array) -> jax.Array:
        """[O] -> [O]: the observation mirrored in the plane y = 0; distractors, which move on their own, stay."""
        sign = np.ones(self.obs_size, np.float32)
        sign[1 : 2 + 4 * self.layout.num_cubes : 2] = -1.0
        return obs * sign

    def mirror_action(self, action: jax.Array) -> jax.Array:
        """[A] -> [A]: the action mirrored as `mirror` does it."""
        return action * jnp.array([1.0, -1.0, 1.0])

    def _observe(self, position: jax.Array, objects: jax.Array, distractors: jax.Array, key: jax.Array) -> PointState:
        per_object = jnp.concatenate([objects, objects - position], axis=1).reshape(-1)
        obs = jnp.concatenate([position, per_object, distractors.reshape(-1)])
        return PointState(position, objects, distractors, key, obs, jnp.array(False))


def create(names: Sequence[str], num_distractors: int = 0) -> PointEnv:
    """The probe with these modules.

    Raises:
      ArgumentError: on a module it does not have, none at all, or an object both dragged and pushed.
    """
    names, own = list_names(names), registered()
    places = [("", own[name].cubes) if name in own else _parse(name) for name in names]
    layout = PointLayout(max([1, *(number for _, number in places)]), num_distractors)
    for number in range(1, layout.num_cubes + 1):
        if {("drag", number), ("push", number)} <= set(places):
            raise ArgumentError(
                "modules", f"object {number} is dragged and pushed; number them apart, such as drag{number + 1}"
            )
    table = build_table(
        names,
        layout,
        build=lambda name: _module(name, layout),
        distractor=lambda k: _at(f"distractor{k}", layout.distractor_position(k), False, what=f"distractor {k}"),
    )
    clinging = tuple(("drag", number) in places for number in range(1, layout.num_cubes + 1))
    return PointEnv(layout, table, clinging)


def _parse(name: str) -> tuple[str, int]:
    """reach -> (reach, 0), push -> (push, 1), drag2 -> (drag, 2)."""
    match = module_names.POINT.fullmatch(name)
    if not match:
        own = "".join(f", {n}" for n in registered())
        forms = f"reach, push, drag, pushK, dragK (such as push2){own}"
        raise ArgumentError("modules", f"unknown module {name!r} in the point world; use {forms}")
    return ("reach", 0) if match[1] else (match[2], int(match[3] or 1))


def _module(name: str, layout: PointLayout) -> Module:
    kind, number = _parse(name)
    if number == 0:
        return _at(name, layout.gripper_position, True, what="the point")
    reach = START if kind == "drag" else ARENA  # where an object observed off its place can still be brought
    name = module_names.canonical(name)
    module = _at(name, layout.cube_position(number), True, reach, f"object {number}")
    relative, near = layout.cube_relative_position(number), CLING if kind == "drag" else HOLD
    guide = Guide(
        module="reach",
        goal=lambda obs, goal: obs[layout.cube_position(number)],
        acts=lambda obs, goal: jnp.linalg.norm(obs[relative]) > near,
    )
    return replace(module, guides=(guide,))


def _mirror(goal: jax.Array) -> jax.Array:
    return goal * jnp.array([1.0, -1.0])


def _at(name: str, position: slice, achievable: bool, reach: float = ARENA, what: str = "") -> Module:
    """The module of the point, an object or a distractor; distractors, which move on their own, are not mirrored."""
    return Module(
        name=name,
        goal_size=2,
        outcome=lambda obs: obs[position],
        sample_goal=lambda key: jax.random.uniform(key, (2,), minval=-reach, maxval=reach),
        solved=lambda obs, goal: distance_solved(obs[position], goal, TOLERANCE),
        achievable=achievable,
        mirror=_mirror if achievable else lambda goal: goal,
        meaning=f"x, y of {what}, in {UNIT}",
    )
