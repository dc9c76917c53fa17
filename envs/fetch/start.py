"""Makes the start of an episode: the arm as the official set-up leaves it, and cubes placed at random."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import scene
from envs.fetch.modules import START_GRIPPER
from envs.fetch.observation import SensorLayout

Array = jax.Array

FINGER_JOINTS = slice(8, 10)  # of qpos, after torso lift and seven arm joints: right, left

_TRIES = 16  # placements drawn at once, of which the first that fits is taken
_CANDIDATES = 32  # positions drawn for each cube of a placement

STARTS = tuple(c.SETTLE_OFFSETS)


@dataclasses.dataclass(frozen=True, eq=False)
class Start:
    """The settled arm, and what the sensors say of it. Cubes are to be filled in."""

    qpos: np.ndarray  # [10]
    qvel: np.ndarray  # [10], not zero: up to 0.01
    sensordata: np.ndarray  # [17]
    locked: bool = False  # the fingers stay shut: their part of the action is not heard

    @property
    def gripper(self) -> np.ndarray:
        """Gripper position [3]: about (1.3419, 0.7491, 0.5348) m, from fetch-push (1.3631, 0.7491, 0.4160)."""
        return self.sensordata[SensorLayout.gripper_position]


@functools.cache
def settled_start(name: str = "default") -> Start:
    """Settles the arm as the official `_env_setup` does: the mocap body jumps, the weld pulls the hand after it.

    Args:
      name: default, or as an official environment starts: fetch-reach with locked fingers, fetch-push with locked
        fingers and 12 cm lower.
    Raises:
      ArgumentError: naming the right values.
    """
    if name not in STARTS:
        raise ArgumentError("start", f"must be one of {', '.join(STARTS)}", name)
    model = scene.build_model(num_cubes=0)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = data.site("grip").xpos + c.SETTLE_OFFSETS[name]
    data.mocap_quat[0] = c.HAND_ROTATION
    mujoco.mj_step(model, data, nstep=c.SETTLE_CONTROL_STEPS * c.SUBSTEPS)
    mujoco.mj_forward(model, data)
    qpos, qvel, sensordata = (np.array(x, np.float32) for x in (data.qpos, data.qvel, data.sensordata))
    return Start(qpos, qvel, sensordata, locked=name in c.LOCKED_STARTS)


def goal_centre(name: str) -> Sequence[float]:
    """x, y in m around which goals lie: where the gripper starts.

    Raises:
      ArgumentError: on an unknown start.
    """
    if name == "default":  # the official figure, which is the settled one's to 0.1 mm
        return START_GRIPPER[:2]
    return settled_start(name).gripper[:2].tolist()


def with_cubes(start: Start, cubes: Array) -> tuple[Array, Array, Array]:
    """qpos, qvel and sensordata of the settled arm with level cubes at rest at `cubes` [n, 2] (x, y in m)."""
    n = cubes.shape[0]
    position = jnp.concatenate([cubes, jnp.full((n, 1), c.CUBE_REST_HEIGHT, jnp.float32)], axis=1)
    pose = jnp.concatenate([position, jnp.tile(jnp.array([1.0, 0.0, 0.0, 0.0], jnp.float32), (n, 1))], axis=1)
    still = jnp.zeros((n, 6), jnp.float32)
    sensors = jnp.concatenate([pose, still], axis=1)
    return (
        jnp.concatenate([start.qpos, pose.reshape(-1)]),
        jnp.concatenate([start.qvel, still.reshape(-1)]),
        jnp.concatenate([start.sensordata, sensors.reshape(-1)]),
    )


def place_cubes(key: Array, num_cubes: int, gripper: Array) -> Array:
    """Positions [num_cubes, 2] uniform within ±0.15 m of `gripper` [2], ≥ 0.1 m from it and from each other.

    Cubes are placed one after the other, each at the first of 32 draws that keeps the distance, or else at the one
    that keeps the most; of 16 such placements the first that keeps all distances is taken, or else the best.
    So it always ends. Up to six cubes keep the distance (never less in 4,000 draws); eight come as near as 0.087 m.
    """
    shape = (_TRIES, num_cubes, _CANDIDATES, 2)
    # Drawn in one row: the same numbers, compiled in a fifth of the time.
    box = jax.random.uniform(key, (math.prod(shape),), jnp.float32, -c.CUBE_BOX, c.CUBE_BOX).reshape(shape)
    placements, spacings = jax.vmap(_place_in_order)(gripper + box, jnp.tile(gripper, (_TRIES, 1)))
    return placements[_first_or_best(spacings)]


def _place_in_order(candidates: Array, gripper: Array) -> tuple[Array, Array]:
    """One placement [n, 2] from candidates [n, C, 2], and the smallest distance [] in it."""
    taken, spacing = [gripper], jnp.array(jnp.inf, jnp.float32)
    for options in candidates:
        distances = jnp.linalg.norm(options[:, None] - jnp.stack(taken), axis=-1).min(axis=1)
        chosen = _first_or_best(distances)
        taken.append(options[chosen])
        spacing = jnp.minimum(spacing, distances[chosen])
    return jnp.stack(taken)[1:], spacing


def _first_or_best(spacing: Array) -> Array:
    """Index [] of the first of `spacing` [C] that is wide enough, or else of the widest."""
    enough = spacing >= c.CUBE_SPACING
    return jnp.where(enough.any(), jnp.argmax(enough), jnp.argmax(spacing))
