"""The Modular Goal Fetch Arm: reset and step of ONE environment, vmapped by its callers. It knows no goals."""

from __future__ import annotations

import dataclasses

import chex
import flax.struct
import jax
import jax.numpy as jnp
import mujoco

from envs.fetch import constants as c
from envs.fetch import scene, start
from envs.fetch.observation import ObservationLayout, SensorLayout, observe
from envs.physics.protocol import Physics, PhysicsState
from envs.physics.select import select

Array = jax.Array


@flax.struct.dataclass
class FetchState:
    """One environment between two control steps."""

    physics: PhysicsState
    distractors: Array  # [D, 3] m
    key: Array  # drives the distractors
    obs: Array  # [O], see ObservationLayout

    @property
    def overflow(self) -> Array:
        """[] bool: physics ran out of contact or constraint buffers in this episode, so its results are wrong."""
        return self.physics.overflow


@dataclasses.dataclass(frozen=True, eq=False)
class FetchEnv:
    """A Fetch arm at a table with cubes and out-of-reach distractors. All methods are pure.

    Episodes have 50 control steps of 0.04 s and never end early; counting them is the caller's.
    A world that diverges shows as NaN in `obs` and stays alone.
    """

    layout: ObservationLayout
    model: mujoco.MjModel
    physics: Physics
    start: start.Start

    action_size = c.ACTION_SIZE
    episode_length = c.EPISODE_LENGTH

    @classmethod
    def create(
        cls,
        num_cubes: int = 2,
        num_distractors: int = 0,
        physics: str = "auto",
        num_worlds: int = 1,
        start_name: str = "default",
    ) -> FetchEnv:
        """Builds the scene and its physics, with buffers for `num_worlds` worlds (all vmapped axes together).

        Raises:
          ValueError: for negative counts, an unknown physics or start, or a physics that is not installed.
        """
        if num_distractors < 0:
            raise ValueError(f"num_distractors must be 0 or more, got {num_distractors}")
        model = scene.build_model(num_cubes)
        return cls(
            layout=ObservationLayout(num_cubes, num_distractors),
            model=model,
            physics=select(physics, model, num_worlds),
            start=start.settled_start(start_name),
        )

    @property
    def obs_size(self) -> int:
        return self.layout.size

    def with_worlds(self, num_worlds: int) -> FetchEnv:
        """The same environment with physics buffers for `num_worlds` worlds, all vmapped axes together."""
        return dataclasses.replace(self, physics=self.physics.with_worlds(num_worlds))

    def reset(self, key: Array) -> FetchState:
        """Start of an episode: settled arm, cubes and distractors drawn anew. A function of `key` alone."""
        cube_key, distractor_key, state_key = jax.random.split(key, 3)
        cubes = start.place_cubes(cube_key, self.layout.num_cubes, jnp.asarray(self.start.gripper[:2]))
        physics = self.physics.init(*start.with_cubes(self.start, cubes))
        distractors = _place_distractors(distractor_key, self.layout.num_distractors)
        return FetchState(
            physics=physics, distractors=distractors, key=state_key, obs=observe(physics.sensordata, distractors)
        )

    def step(self, state: FetchState, action: Array) -> FetchState:
        """One control step of 0.04 s with `action` [4], clipped to [-1, 1]: x, y, z of the gripper, fingers."""
        chex.assert_shape(action, (c.ACTION_SIZE,))
        next_key, distractor_key = jax.random.split(state.key)
        physics = self.physics.step(state.physics, *_targets(state.physics, action, self.start.locked))
        distractors = _move_distractors(distractor_key, state.distractors)
        return FetchState(
            physics=physics, distractors=distractors, key=next_key, obs=observe(physics.sensordata, distractors)
        )


def _targets(physics: PhysicsState, action: Array, locked: bool) -> tuple[Array, Array, Array]:
    """Finger targets [2], mocap position [3] and quaternion [4] that an action asks for; official `_set_action`.

    All are relative to where hand and fingers are, so errors do not build up. Locked fingers are held shut.
    """
    action = jnp.clip(action, -1.0, 1.0)
    hand = physics.sensordata[SensorLayout.hand_position]
    quaternion = physics.sensordata[SensorLayout.hand_quaternion] + jnp.array(c.HAND_ROTATION)
    fingers = physics.qpos[start.FINGER_JOINTS]
    return (
        jnp.zeros(2) if locked else jnp.clip(fingers + action[3], *c.FINGER_RANGE),
        hand + c.DISPLACEMENT * action[:3],
        quaternion / jnp.linalg.norm(quaternion),
    )


def _place_distractors(key: Array, num_distractors: int) -> Array:
    """Distractor positions [D, 3], out of the arm's reach at cube height."""
    low, high = (jnp.array(bound) for bound in zip(c.DISTRACTOR_X, c.DISTRACTOR_Y, strict=True))
    xy = jax.random.uniform(key, (num_distractors, 2), minval=low, maxval=high)
    return jnp.concatenate([xy, jnp.full((num_distractors, 1), c.CUBE_REST_HEIGHT)], axis=1)


def _move_distractors(key: Array, distractors: Array) -> Array:
    """A Gaussian step of 5 mm in x and y; they touch nothing."""
    step = c.DISTRACTOR_STEP * jax.random.normal(key, (distractors.shape[0], 2))
    return distractors.at[:, :2].add(step)
