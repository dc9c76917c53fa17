"""Lays out the sensor vector and the observation, and makes one from the other."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs.errors import check_index
from envs.fetch.constants import CONTROL_PERIOD

Array = jax.Array

_ROBOT_SENSORS = 17
_CUBE_SENSORS = 13
_ROBOT_SIZE = 10
_CUBE_SIZE = 15
_POINT_SIZE = 3
# The units of the observation's parts, in order.
_ROBOT_UNITS = {
    "gripper_position": "m",
    "gripper_velocity": "m per control step",
    "finger_position": "m, right and left",
    "finger_velocity": "m per control step",
}
_CUBE_UNITS = {
    "position": "m",
    "relative_position": "m, cube minus gripper",
    "euler": "rad, R = Rx Ry Rz",
    "velocity": "m per control step, cube minus gripper",
    "angular_velocity": "rad per control step, world frame",
}


@dataclasses.dataclass(frozen=True)
class SensorLayout:
    """Slices of sensordata, in the order in which `scene` adds the sensors. Cubes are counted from 1."""

    num_cubes: int

    hand_position = slice(0, 3)
    hand_quaternion = slice(3, 7)
    gripper_position = slice(7, 10)
    gripper_velocity = slice(10, 13)
    finger_position = slice(13, 15)
    finger_velocity = slice(15, 17)

    @property
    def size(self) -> int:
        return _ROBOT_SENSORS + _CUBE_SENSORS * self.num_cubes

    def cube_position(self, k: int) -> slice:
        return self._cube(k, 0, 3)

    def cube_quaternion(self, k: int) -> slice:
        return self._cube(k, 3, 4)

    def cube_velocity(self, k: int) -> slice:
        return self._cube(k, 7, 3)

    def cube_angular_velocity(self, k: int) -> slice:
        return self._cube(k, 10, 3)

    def _cube(self, k: int, offset: int, size: int) -> slice:
        check_index("cube", k, self.num_cubes)
        start = _ROBOT_SENSORS + _CUBE_SENSORS * (k - 1) + offset
        return slice(start, start + size)


@dataclasses.dataclass(frozen=True)
class ObservationLayout:
    """Slices of the observation: 10 numbers of the robot, 15 per cube, 3 per distractor.

    Cubes and distractors are counted from 1, as in module names; an index out of range is a ValueError.
    """

    num_cubes: int
    num_distractors: int

    gripper_position = slice(0, 3)  # m
    gripper_velocity = slice(3, 6)  # m per control step
    finger_position = slice(6, 8)  # m, right and left
    finger_velocity = slice(8, 10)  # m per control step

    @property
    def size(self) -> int:
        return _ROBOT_SIZE + _CUBE_SIZE * self.num_cubes + _POINT_SIZE * self.num_distractors

    def cube_position(self, k: int) -> slice:
        """m."""
        return self._cube(k, 0)

    def cube_relative_position(self, k: int) -> slice:
        """m, cube minus gripper."""
        return self._cube(k, 3)

    def cube_euler(self, k: int) -> slice:
        """rad, see `quaternion_to_euler`."""
        return self._cube(k, 6)

    def cube_velocity(self, k: int) -> slice:
        """m per control step, cube minus gripper."""
        return self._cube(k, 9)

    def cube_angular_velocity(self, k: int) -> slice:
        """rad per control step, world frame."""
        return self._cube(k, 12)

    def distractor_position(self, k: int) -> slice:
        """m."""
        check_index("distractor", k, self.num_distractors)
        start = _ROBOT_SIZE + _CUBE_SIZE * self.num_cubes + _POINT_SIZE * (k - 1)
        return slice(start, start + _POINT_SIZE)

    def table(self) -> dict[str, slice]:
        """Name → slice for the whole vector, in order, without gaps."""
        rows = {name: getattr(self, name) for name in _ROBOT_UNITS}
        for k in range(1, self.num_cubes + 1):
            for part in _CUBE_UNITS:
                rows[f"cube{k}_{part}"] = getattr(self, f"cube_{part}")(k)
        for k in range(1, self.num_distractors + 1):
            rows[f"distractor{k}_position"] = self.distractor_position(k)
        return rows

    def units(self) -> dict[str, str]:
        """Gives the unit of each of the table's names."""
        cubes, distractors = range(1, self.num_cubes + 1), range(1, self.num_distractors + 1)
        rows = dict(_ROBOT_UNITS)
        rows |= {f"cube{k}_{part}": unit for k in cubes for part, unit in _CUBE_UNITS.items()}
        return rows | {f"distractor{k}_position": "m" for k in distractors}

    def mirror(self, obs: Array, y: float) -> Array:
        """[O] -> [O]: the observation mirrored in the vertical plane at `y` (m), in which the arm stands.

        Right and left finger change places. Distractors, which move on their own, stay.
        """
        order, sign, shift = np.arange(self.size), np.ones(self.size, np.float32), np.zeros(self.size, np.float32)
        for fingers in (self.finger_position, self.finger_velocity):
            order[fingers] = order[fingers][::-1]
        cubes = range(1, self.num_cubes + 1)
        places = [self.gripper_position, *(self.cube_position(k) for k in cubes)]
        vectors = [self.gripper_velocity]
        for k in cubes:
            vectors += [self.cube_relative_position(k), self.cube_velocity(k)]
            for turning in (self.cube_euler(k), self.cube_angular_velocity(k)):  # x and z change their sense
                sign[[turning.start, turning.start + 2]] = -1.0
        for part in (*places, *vectors):
            sign[part.start + 1] = -1.0
        for part in places:
            shift[part.start + 1] = 2 * y
        return obs[order] * sign + shift

    def _cube(self, k: int, offset: int) -> slice:
        check_index("cube", k, self.num_cubes)
        start = _ROBOT_SIZE + _CUBE_SIZE * (k - 1) + offset
        return slice(start, start + 3)


def observe(sensordata: Array, distractors: Array) -> Array:
    """Observation [O] from sensordata [nsensordata] and distractor positions [D, 3], for one environment."""
    return jnp.concatenate([*sensed(sensordata), distractors.reshape(-1)])


def sensed(sensordata: Any) -> list[Any]:
    """The observation's parts but for the distractors, in order, from a NumPy or JAX array."""
    sensors = SensorLayout((sensordata.shape[0] - _ROBOT_SENSORS) // _CUBE_SENSORS)
    gripper = sensordata[sensors.gripper_position]
    gripper_velocity = sensordata[sensors.gripper_velocity]
    parts = [
        gripper,
        gripper_velocity * CONTROL_PERIOD,
        sensordata[sensors.finger_position],
        sensordata[sensors.finger_velocity] * CONTROL_PERIOD,
    ]
    for k in range(1, sensors.num_cubes + 1):
        position = sensordata[sensors.cube_position(k)]
        parts += [
            position,
            position - gripper,
            quaternion_to_euler(sensordata[sensors.cube_quaternion(k)]),
            (sensordata[sensors.cube_velocity(k)] - gripper_velocity) * CONTROL_PERIOD,
            sensordata[sensors.cube_angular_velocity(k)] * CONTROL_PERIOD,
        ]
    return parts


def quaternion_to_euler(quaternion: Any) -> Any:
    """Euler angles [3] in rad of a unit quaternion (w, x, y, z): intrinsic x, then y, then z.

    R = Rx(a) Ry(b) Rz(c), what `mat2euler` in gymnasium-robotics' rotations returns. At the pole (b = ±90°) only a ± c
    is determined; there a = 0. The quaternion is a NumPy or JAX array, and so are the angles.
    """
    xp = quaternion.__array_namespace__()
    w, x, y, z = quaternion
    r02 = 2 * (x * z + w * y)
    r12, r22 = 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)
    r01, r00 = 2 * (x * y - w * z), 1 - 2 * (y * y + z * z)
    r10, r11 = 2 * (x * y + w * z), 1 - 2 * (x * x + z * z)
    cos_b = xp.hypot(r12, r22)
    regular = cos_b > 1e-6  # single precision's neighbourhood of the pole
    a = xp.where(regular, xp.arctan2(-r12, r22), 0.0)
    b = xp.arctan2(r02, cos_b)
    c = xp.where(regular, xp.arctan2(-r01, r00), xp.arctan2(r10, r11))
    return xp.stack([a, b, c])
