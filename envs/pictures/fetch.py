"""Draws the arm's world without a screen: a state's qpos in the model of looks.py, and goals marked in it."""

from typing import Any

import mujoco
import numpy as np

from envs.fetch import constants as c
from envs.fetch.modules import TOLERANCE, goal_point
from envs.pictures import gl, looks
from envs.pictures.protocol import Colour, Goal

_GEOM = mujoco.mjtGeom
_GREY: Colour = (0.55, 0.56, 0.58)  # distractors
_MAX_SHAPES = 500


class FetchRenderer:
    """See envs.pictures.protocol.Renderer."""

    def __init__(self, num_cubes: int, width: int, height: int, look: str = "auto"):
        self.model = looks.build_model(num_cubes, look)
        screen = self.model.vis.global_  # what is drawn is held in a buffer of this size
        screen.offwidth, screen.offheight = width, height
        self._data = mujoco.MjData(self.model)
        self._closed = False
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._context = gl.context(width, height)
        self._drawing = mujoco.MjrContext(self.model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._drawing)
        self._scene = mujoco.MjvScene(self.model, _MAX_SHAPES)
        self._camera = mujoco.MjvCamera()
        aim(self._camera)

    def frame(self, state: Any, goals: list[Goal]) -> np.ndarray:
        """uint8 [height, width, 3]; a state that is no longer finite is drawn as the last that was."""
        place(self.model, self._data, state)
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self.model, self._data, mujoco.MjvOption(), None, self._camera, everything, self._scene)
        add_marks(self._scene, state, goals)
        picture = np.empty((self._rect.height, self._rect.width, 3), np.uint8)
        self._context.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._drawing)
        mujoco.mjr_readPixels(picture, None, self._rect, self._drawing)
        return picture[::-1]  # OpenGL counts rows from below

    def close(self) -> None:
        """Frees the drawing context; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        self._context.make_current()  # else another renderer would lose what has the same numbers there
        self._drawing.free()
        self._context.free()


def aim(camera: mujoco.MjvCamera) -> None:
    """Looks at the goals' box above the table, from the front left."""
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat[:] = (1.28, 0.75, 0.63)
    camera.distance, camera.azimuth, camera.elevation = 1.27, 152.0, -21.0


def place(model: mujoco.MjModel, data: mujoco.MjData, state: Any) -> None:
    """Puts one environment's state into data, as far as it is seen."""
    qpos = np.asarray(state.physics.qpos)
    if np.isfinite(qpos).all():
        data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)


def add_marks(scene: mujoco.MjvScene, state: Any, goals: list[Goal]) -> None:
    """Adds distractors and goals to a scene.

    A goal is a translucent ball, by default of the radius within which it is solved, clearer when it is, with its
    centre and, when it is in the air, a line down to the table.
    """
    for position in np.asarray(state.distractors):
        _add(scene, _GEOM.mjGEOM_BOX, [c.CUBE_HALF_SIZE] * 3, position, _GREY, 1.0)
    for mark in goals:
        goal = np.asarray(mark.goal, float)
        if goal.size not in (2, 3) or not np.isfinite(goal).all():
            continue  # a goal of a registered module that has no place
        point, radius = goal_point(goal), TOLERANCE if mark.radius is None else mark.radius
        height = (point[2] - c.TABLE_TOP) / 2
        if height > radius:
            middle = point - [0.0, 0.0, height]
            _add(scene, _GEOM.mjGEOM_CYLINDER, [0.0015, height, 0.0], middle, mark.colour, 0.6)
            foot = [point[0], point[1], c.TABLE_TOP + 0.0005]
            _add(scene, _GEOM.mjGEOM_CYLINDER, [0.02, 0.0005, 0.0], foot, mark.colour, 0.35)
        _add(scene, _GEOM.mjGEOM_SPHERE, [0.01] * 3, point, mark.colour, 1.0)
        _add(scene, _GEOM.mjGEOM_SPHERE, [radius] * 3, point, mark.colour, 0.25 if mark.solved else 0.18)


def _add(scene: mujoco.MjvScene, kind: mujoco.mjtGeom, size: Any, position: Any, colour: Colour, alpha: float) -> None:
    if scene.ngeom >= scene.maxgeom:
        return
    geom = scene.geoms[scene.ngeom]
    geom.category = (mujoco.mjtCatBit.mjCAT_DECOR if alpha < 1.0 else mujoco.mjtCatBit.mjCAT_DYNAMIC).value
    rgba = np.array([*colour, alpha], np.float32)
    mujoco.mjv_initGeom(geom, kind.value, np.asarray(size, float), np.asarray(position, float), np.eye(3).ravel(), rgba)
    scene.ngeom += 1
