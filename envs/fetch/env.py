"""The Modular Goal Fetch Arm: reset and step of ONE environment, vmapped by its callers, and its modules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import chex
import flax.struct
import jax
import jax.numpy as jnp
import mujoco

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import mixture, scene, start
from envs.fetch import modules as fetch_modules
from envs.fetch.observation import ObservationLayout, SensorLayout, observe
from envs.modules import ModuleTable, list_names
from envs.physics import select
from envs.physics.protocol import Physics, PhysicsState, initial_state

Array = jax.Array


@flax.struct.dataclass
class FetchState:
    """One environment between two control steps."""

    physics: PhysicsState
    distractors: Array  # [D, 3] m
    key: Array  # drives the distractors
    obs: Array  # [O], see ObservationLayout
    start: Any = None  # [] index of the episode's start, where it is drawn (mixture.py)

    @property
    def overflow(self) -> Array:
        """[] bool: physics ran out of contact or constraint buffers in this episode, so its results are wrong."""
        return self.physics.overflow


@dataclasses.dataclass(frozen=True, eq=False)
class FetchEnv:
    """A Fetch arm at a table with cubes, out-of-reach distractors, and modules. All methods are pure.

    Episodes have 50 control steps of 0.04 s and never end early; counting them is the caller's.
    A world that diverges shows as NaN in `obs` and stays alone.
    """

    layout: ObservationLayout
    modules: ModuleTable
    model: mujoco.MjModel
    start: start.Start
    physics_name: str  # c, jax or warp
    sleep: bool = False  # of cubes at rest, in C physics
    physics: Physics | None = None  # built by with_worlds
    mixture: mixture.Mixture | None = None  # the starts to draw from; None for `start` alone

    action_size = c.ACTION_SIZE
    action_meaning = c.ACTION_MEANING
    control_period = c.CONTROL_PERIOD
    episode_length = c.EPISODE_LENGTH
    obs_bound = c.OBS_BOUND
    physics_steps_per_step = c.SUBSTEPS

    @property
    def obs_size(self) -> int:
        """O."""
        return self.layout.size

    @property
    def physics_bytes_per_world(self) -> int:
        """Approximate memory of the physics buffers."""
        return select.bytes_per_world(self.physics_name, self.model)

    def with_worlds(self, num_worlds: int) -> FetchEnv:
        """The same environment with physics for `num_worlds` worlds, all vmapped axes together."""
        if self.physics is None:
            return dataclasses.replace(
                self, physics=select.build(self.physics_name, self.model, num_worlds, self.sleep)
            )
        return dataclasses.replace(self, physics=self.physics.with_worlds(num_worlds))

    def mirror(self, obs: Array) -> Array:
        """[O] -> [O]: the observation mirrored in the vertical plane through the gripper at the start."""
        return self.layout.mirror(obs, float(self.start.gripper[1]))

    def mirror_action(self, action: Array) -> Array:
        """[4] -> [4]: the action mirrored as `mirror` does it."""
        return action * jnp.array([1.0, -1.0, 1.0, 1.0])

    def reset(self, key: Array) -> FetchState:
        """Starts an episode: settled arm, cubes and distractors drawn from `key` alone.

        Where the start is drawn too, it is one that suits every module.
        """
        return self.reset_for(key, -1)

    def reset_for(self, key: Array, module: Array | int) -> FetchState:
        """Starts an episode of a module; only a start that is drawn depends on it (mixture.py)."""
        index: Any = None if self.mixture is None else self.mixture.draw(key, module)
        begin = self.start if self.mixture is None else self.mixture.start(index)
        cube_key, distractor_key, state_key = jax.random.split(key, 3)
        cubes = start.place_cubes(cube_key, self.layout.num_cubes, jnp.asarray(begin.gripper[:2]))
        physics = initial_state(*start.with_cubes(begin, cubes))
        distractors = _place_distractors(distractor_key, self.layout.num_distractors)
        obs = observe(physics.sensordata, distractors)
        return FetchState(physics=physics, distractors=distractors, key=state_key, obs=obs, start=index)

    def place_goal(self, state: FetchState, goal: Array, module: Array) -> Array:
        """Moves a goal [G] as the modules draw it to where it belongs in an episode with this first state."""
        return goal if self.mixture is None else self.mixture.place_goal(state.start, goal, module)

    def at_start(self, name: str) -> FetchEnv:
        """The same environment with one of its starts alone; modules that need another count as not achievable."""
        assert self.mixture is not None
        only = self.mixture.only(name)
        modules = tuple(
            dataclasses.replace(module, achievable=module.achievable and bool(row.any()))
            for module, row in zip(self.modules.modules, only.suits[:-1], strict=True)
        )
        return dataclasses.replace(self, mixture=only, modules=dataclasses.replace(self.modules, modules=modules))

    def step(self, state: FetchState, action: Array) -> FetchState:
        """Makes one control step of 0.04 s with `action` [4], clipped to [-1, 1]: x, y, z of the gripper, fingers.

        Raises:
          RuntimeError: when the environment has no physics yet.
        """
        chex.assert_shape(action, (c.ACTION_SIZE,))
        if self.physics is None:
            raise RuntimeError("this environment has no physics yet: call with_worlds(number of worlds) first")
        next_key, distractor_key = jax.random.split(state.key)
        locked = self.start.locked if self.mixture is None else self.mixture.start(state.start).locked
        physics = self.physics.step(state.physics, *_targets(state.physics, action, locked))
        distractors = _move_distractors(distractor_key, state.distractors)
        obs = observe(physics.sensordata, distractors)
        return FetchState(physics=physics, distractors=distractors, key=next_key, obs=obs, start=state.start)


def create(
    names: Sequence[str],
    distractors: int = 0,
    physics: str = "auto",
    start_name: str = "default",
    sleep: bool = False,
) -> FetchEnv:
    """Builds the arm with as many cubes as the modules name, and a distractor module per distractor.

    Goals and cubes lie around the gripper of the start. With the start "mixed" each episode draws one (mixture.py).

    Raises:
      ArgumentError: for a bad module, physics or start, or a physics that is not installed.
    """
    names, mixed = list_names(names), start_name == mixture.MIXED
    known = (*start.STARTS, mixture.MIXED)
    if start_name not in known:
        raise ArgumentError("start", f"must be one of {', '.join(known)}", start_name)
    start_name = start.STARTS[0] if mixed else start_name
    # Before the scene: a bad name should cost nothing.
    layout = ObservationLayout(fetch_modules.cubes_needed(names), distractors)
    table = fetch_modules.table(names, layout, start.goal_centre(start_name))
    _check_fingers(names, start_name)
    starts = mixture.make(table) if mixed else None
    if starts is not None:
        table = dataclasses.replace(table, placement=starts.place_by_sight)
    return FetchEnv(
        layout=layout,
        modules=table,
        physics_name=select.resolve(physics),
        start=start.settled_start(start_name),
        model=scene.build_model(layout.num_cubes),
        sleep=sleep,
        mixture=starts,
    )


def _check_fingers(names: Sequence[str], start_name: str) -> None:
    """Refuses modules that need fingers where those are locked."""
    own = fetch_modules.registered()
    grasping = [n for n in names if n not in own and fetch_modules.parse(n)[0] in mixture.GRASPING]
    if grasping and start_name in c.LOCKED_STARTS:
        message = (
            f"its fingers are locked shut, so {grasping[0]} cannot be learned; name modules that only reach or push"
        )
        raise ArgumentError("start", message, start_name)


def _targets(physics: PhysicsState, action: Array, locked: bool | Array) -> tuple[Array, Array, Array]:
    """Finger targets [2], mocap position [3] and quaternion [4] that an action asks for; official `_set_action`.

    All are relative to where hand and fingers are, so errors do not build up. Locked fingers are held shut.
    """
    action = jnp.clip(action, -1.0, 1.0)
    hand = physics.sensordata[SensorLayout.hand_position]
    quaternion = physics.sensordata[SensorLayout.hand_quaternion] + jnp.array(c.HAND_ROTATION, jnp.float32)
    fingers = physics.qpos[start.FINGER_JOINTS]
    if isinstance(locked, bool):
        targets = jnp.zeros(2, jnp.float32) if locked else jnp.clip(fingers + action[3], *c.FINGER_RANGE)
    else:
        targets = jnp.where(locked, 0.0, jnp.clip(fingers + action[3], *c.FINGER_RANGE))
    return (
        targets,
        hand + c.DISPLACEMENT * action[:3],
        quaternion / jnp.linalg.norm(quaternion),
    )


def _place_distractors(key: Array, num_distractors: int) -> Array:
    """Distractor positions [D, 3], out of the arm's reach at cube height."""
    low, high = (jnp.array(bound, jnp.float32) for bound in zip(c.DISTRACTOR_X, c.DISTRACTOR_Y, strict=True))
    xy = jax.random.uniform(key, (num_distractors, 2), jnp.float32, minval=low, maxval=high)
    return jnp.concatenate([xy, jnp.full((num_distractors, 1), c.CUBE_REST_HEIGHT, jnp.float32)], axis=1)


def _move_distractors(key: Array, distractors: Array) -> Array:
    """A Gaussian step of 5 mm in x and y; they touch nothing."""
    step = c.DISTRACTOR_STEP * jax.random.normal(key, (distractors.shape[0], 2), jnp.float32)
    return distractors.at[:, :2].add(step)
