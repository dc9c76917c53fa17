"""Makes gymnasium-robotics 1.4.2 run on MuJoCo 3.12 and later. For envs/official.py alone.

The reason: four functions of its `utils/mujoco_utils.py` (set/get_joint_qpos/qvel) ask whether a joint's type, a numpy
integer, is `in` a tuple of MuJoCo enums. Since MuJoCo 3.12 that is false for equal values, and every Fetch environment
fails an assertion when it is made. Here they are written again, with types compared as plain integers.

Remove this file, and the call of `apply` in official.py, when a gymnasium-robotics is out whose Fetch-v4 environments
can be made without it, and pyproject.toml asks for that version: tests/envs/test_official.py fails when it is time.
"""

import functools
from typing import Any

import mujoco
import numpy as np

_SIZES = {  # of a joint's part of qpos, and of qvel
    int(mujoco.mjtJoint.mjJNT_FREE): (7, 6),
    int(mujoco.mjtJoint.mjJNT_BALL): (4, 3),
    int(mujoco.mjtJoint.mjJNT_SLIDE): (1, 1),
    int(mujoco.mjtJoint.mjJNT_HINGE): (1, 1),
}


def apply() -> None:
    """Puts the four functions into gymnasium_robotics' mujoco_utils; once or often is the same."""
    from gymnasium_robotics.utils import mujoco_utils

    for array in ("qpos", "qvel"):
        setattr(mujoco_utils, f"set_joint_{array}", functools.partial(_set, array))
        setattr(mujoco_utils, f"get_joint_{array}", functools.partial(_get, array))


def _part(array: str, model: mujoco.MjModel, name: str) -> slice:
    """Returns a joint's part of qpos or qvel."""
    joint = model.joint(name)
    start = int((joint.qposadr if array == "qpos" else joint.dofadr)[0])
    return slice(start, start + _SIZES[int(joint.type[0])][array == "qvel"])


def _set(array: str, model: mujoco.MjModel, data: mujoco.MjData, name: str, value: Any) -> None:
    getattr(data, array)[_part(array, model, name)] = value


def _get(array: str, model: mujoco.MjModel, data: mujoco.MjData, name: str) -> np.ndarray:
    return getattr(data, array)[_part(array, model, name)].copy()
