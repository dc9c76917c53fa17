"""The Fetch arm in NumPy and C MuJoCo, for ONE world: what env.py and start.py compute, without JAX.

For programs that step one environment at a time (gymnasium_env, official.py). A compiled call per step gives the same
states, but costs as much again as the physics on an idle machine and several times that on a busy one (2 and 8 ms a
step), and seconds of compiling in every process. The tests hold it to the JAX side.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import mujoco
import numpy as np

from envs.fetch import constants as c
from envs.fetch import observation, start
from envs.fetch.env import FetchEnv
from envs.fetch.observation import SensorLayout

_DRAWS = 512  # positions drawn at once for a cube, of which the first that fits is taken


class NumpyFetch:
    """One arm with cubes at a table, stepped by `mj_step`; its caller adds distractors.

    Args:
      env: the arm as the learner has it.
    Attributes:
      model, data: MuJoCo's; `data` is the state.
      start: where episodes start; another may be put in its place before `reset`.
    """

    def __init__(self, env: FetchEnv):
        self.start, self.model = env.start, copy.copy(env.model)
        # As in physics/native.py: a world that diverges must show.
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self.data = mujoco.MjData(self.model)

    def reset(self, cubes: np.ndarray) -> None:
        """Puts the settled arm, and level cubes at rest at `cubes` [n, 2] (x, y in m)."""
        data, robot = self.data, len(self.start.qpos)
        mujoco.mj_resetData(self.model, data)
        data.qpos[:robot], data.qvel[:robot] = self.start.qpos, self.start.qvel
        for k, xy in enumerate(cubes):
            data.qpos[robot + 7 * k : robot + 7 * (k + 1)] = [*xy, c.CUBE_REST_HEIGHT, 1.0, 0.0, 0.0, 0.0]
        mujoco.mj_forward(self.model, data)

    def step(self, action: np.ndarray) -> bool:
        """Makes one control step of 0.04 s with `action` [4], clipped to [-1, 1]; tells whether the world is finite.

        An action or a state that is not finite is not stepped: MuJoCo would write a log file.
        """
        data = self.data
        if not (np.isfinite(action).all() and self._finite()):
            return False
        action = np.clip(action, -1.0, 1.0)
        quaternion = data.sensordata[SensorLayout.hand_quaternion] + np.array(c.HAND_ROTATION)
        data.mocap_pos[0] = data.sensordata[SensorLayout.hand_position] + c.DISPLACEMENT * action[:3]
        data.mocap_quat[0] = quaternion / np.linalg.norm(quaternion)
        fingers = np.clip(data.qpos[start.FINGER_JOINTS] + action[3], *c.FINGER_RANGE)
        data.ctrl[:] = 0.0 if self.start.locked else fingers
        mujoco.mj_step(self.model, data, nstep=c.SUBSTEPS)
        return self._finite()

    def _finite(self) -> bool:
        return bool(np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all())

    def observe(self) -> np.ndarray:
        """The observation [O] without distractors, float64; see observation.ObservationLayout."""
        return np.concatenate(observation.sensed(self.data.sensordata))


def place_cubes(
    rng: np.random.Generator, count: int, centre: np.ndarray, apart_from: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """Positions [count, 2] uniform within ±0.15 m of `centre`, ≥ 0.1 m from it, from each other and from `apart_from`.

    One after the other, each at the first of 512 draws that keeps the distance, or else at the one that keeps the most.
    """
    taken = [np.asarray(centre, float), *(np.asarray(p, float) for p in apart_from)]
    placed = []
    for _ in range(count):
        draws = taken[0] + rng.uniform(-c.CUBE_BOX, c.CUBE_BOX, (_DRAWS, 2))
        spacing = np.linalg.norm(draws[:, None] - np.stack(taken), axis=-1).min(axis=1)
        enough = spacing >= c.CUBE_SPACING
        placed.append(draws[np.argmax(enough) if enough.any() else np.argmax(spacing)])
        taken.append(placed[-1])
    return np.array(placed).reshape(count, 2)


def place_distractors(rng: np.random.Generator, count: int) -> np.ndarray:
    """Distractor positions [count, 3], out of the arm's reach at cube height."""
    low, high = zip(c.DISTRACTOR_X, c.DISTRACTOR_Y, strict=True)
    xy = rng.uniform(low, high, (count, 2))
    return np.concatenate([xy, np.full((count, 1), c.CUBE_REST_HEIGHT)], axis=1)


def move_distractors(rng: np.random.Generator, distractors: np.ndarray) -> np.ndarray:
    """Distractors [count, 3] a control step later: a Gaussian step of 5 mm in x and y."""
    step = rng.normal(0.0, c.DISTRACTOR_STEP, (len(distractors), 2))
    return distractors + np.pad(step, ((0, 0), (0, 1)))
