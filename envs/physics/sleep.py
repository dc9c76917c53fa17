"""Lets cubes at rest sleep: C MuJoCo leaves them out of a control step that can move nothing to them.

MuJoCo's own sleep (mjENBL_SLEEP) is kept in its data and not in the state, so that a step from qpos and qvel alone
wakes everything. Here each step asks from qpos and qvel who may sleep, and takes a model in which the sleepers touch
nothing and stand still. A cube may sleep when it stands on the table at its height of rest, is as good as
motionless, and neither the hand nor a cube that is awake can come to it within the step.
"""

from __future__ import annotations

import copy

import mujoco
import numpy as np

HAND = "hand_position", "hand_quaternion"  # sensors that a model needs
_HEIGHT = 2e-4  # m off the height of rest
_SPEED = np.array([1e-4] * 3 + [1e-3] * 3)  # m/s, rad/s
_MARGIN = (
    0.03  # m that a part of the hand goes beyond the way to its target; 0.014 was the most seen, at the arm's limits
)
_PUSH = 0.08  # m that a cube goes at most when it is pushed
_STEP = 0.04  # s
_BLOCK = 1e12  # damping (N s/m, N m s/rad) that a sleeper is held with


class Sleepers:
    """Finds the model for each world's control step; a model for every set of sleepers is made when first needed."""

    def __init__(self, model: mujoco.MjModel):
        free = np.flatnonzero(model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)
        self._bodies = model.jnt_bodyid[free]
        self._geoms = model.body_geomadr[self._bodies]
        self._position = model.jnt_qposadr[free][:, None] + np.arange(3)
        self._velocity = model.nq + model.jnt_dofadr[free][:, None] + np.arange(6)
        self._dofs = model.jnt_dofadr[free][:, None] + np.arange(6)
        self._rest_height = model.qpos0[self._position[:, 2]]
        self._radius = model.geom_rbound[self._geoms]
        size = model.geom_size[self._geoms]
        self._size = np.stack([np.hypot(size[:, 0], size[:, 1])] * 2 + [size[:, 2]], axis=1)  # standing, turned anyhow
        self._centre, self._half = _hand_box(model)
        self._models = {0: model}

    def models(self, worlds: np.ndarray, target: np.ndarray, hand: np.ndarray) -> list[mujoco.MjModel]:
        """Returns the model of each world, and stops the sleepers: what moves against the damping is an error.

        Args:
          worlds: [n, nq + nv], changed in place.
          target: [n, 3], of the hand's position.
          hand: [n, 7], what the sensors HAND say of it.
        """
        asleep = self.asleep(worlds, target, hand)
        for k, velocity in enumerate(self._velocity):
            worlds[np.ix_(asleep[:, k], velocity)] = 0.0
        return [self._model(sleepers) for sleepers in asleep @ (1 << np.arange(asleep.shape[1]))]

    def asleep(self, worlds: np.ndarray, target: np.ndarray, hand: np.ndarray) -> np.ndarray:
        """Tells who may sleep through the next control step: [n, cubes] bool. Arguments as for `models`."""
        position, velocity = worlds[:, self._position], worlds[:, self._velocity]
        standing = np.abs(position[..., 2] - self._rest_height) < _HEIGHT
        awake = ~(standing & (np.abs(velocity) < _SPEED).all(axis=-1))
        turn = _rotations(hand[:, 3:])
        centre, half = hand[:, :3] + turn @ self._centre, np.abs(turn) @ self._half
        way = target - hand[:, :3]
        low = (centre - half + np.minimum(way, 0.0) - _MARGIN)[:, None] - self._size
        high = (centre + half + np.maximum(way, 0.0) + _MARGIN)[:, None] + self._size
        awake |= ((low < position) & (position < high)).all(axis=-1)
        apart = np.linalg.norm(position[:, :, None] - position[:, None], axis=-1)  # [n, sleeper, waker]
        speed = np.linalg.norm(velocity[..., :3], axis=-1)
        touch = self._radius[:, None] + self._radius + _PUSH + _STEP * speed[:, None]
        return ~awake & ~(awake[:, None] & (apart < touch)).any(axis=-1)

    def _model(self, sleepers: int) -> mujoco.MjModel:
        if sleepers not in self._models:
            model = copy.copy(self._models[0])
            for k in range(len(self._bodies)):
                if sleepers >> k & 1:
                    model.geom_contype[self._geoms[k]] = model.geom_conaffinity[self._geoms[k]] = 0
                    model.dof_damping[self._dofs[k]] = _BLOCK
            self._models[sleepers] = model
        return self._models[sleepers]


def _hand_box(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray]:
    """Measures the box around the hand's solid parts, in its frame, fingers open and shut: (centre, half size)."""
    hand = model.sensor(HAND[0]).objid[0]
    below = {hand}
    for body in range(hand + 1, model.nbody):  # parents come first
        if model.body_parentid[body] in below:
            below.add(body)
    solid = [g for g in range(model.ngeom) if model.geom_bodyid[g] in below and model.geom_contype[g]]
    signs = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
    data, corners = mujoco.MjData(model), []
    for end in (0, 1):
        data.qpos[:] = model.qpos0
        for joint in range(model.njnt):
            if model.jnt_bodyid[joint] in below and model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
                data.qpos[model.jnt_qposadr[joint]] = model.jnt_range[joint, end]
        mujoco.mj_kinematics(model, data)
        frame = data.xmat[hand].reshape(3, 3)
        for g in solid:
            corner = data.geom_xpos[g] + (signs * model.geom_size[g]) @ data.geom_xmat[g].reshape(3, 3).T
            corners.append((corner - data.xpos[hand]) @ frame)
    low, high = np.min(corners, axis=(0, 1)), np.max(corners, axis=(0, 1))
    return (low + high) / 2, (high - low) / 2


def _rotations(quaternion: np.ndarray) -> np.ndarray:
    """Turns quaternions [n, 4], w first and of any length but 0, into rotation matrices [n, 3, 3]."""
    w, x, y, z = (quaternion / np.linalg.norm(quaternion, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)
