"""Describes the arm's world as plain data, by which the page of web/ simulates and draws it."""

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import modules as fetch_modules
from envs.fetch import scene, start
from envs.fetch.env import FetchEnv
from envs.fetch.observation import SensorLayout
from envs.pictures import fetch as pictures
from envs.pictures import looks

SEEN_GROUPS = 3  # MuJoCo draws groups 0 to 2
COLOUR_NAMES = ("red", "yellow", "green", "purple")  # of constants.CUBE_COLOURS


def describe(env: Any, start_name: str, colour: Callable[[int], str]) -> dict[str, Any]:
    """Gives the arm's world as plain data: what envs/fetch/numpy_arm.py works with, and what pictures/ draws.

    Args:
      start_name: the start of an episode; where starts are drawn, the page takes the first of them.
      colour: gives a module's colour by its number.
    Returns:
      numbers, texts, lists, slices and arrays by name.
    Raises:
      ArgumentError: for a world that the page cannot show.
    """
    if not isinstance(env, FetchEnv) or env.layout.num_distractors:
        raise ArgumentError("policy", "the page shows the arm without distractors")
    for name in env.modules.names:
        if name in fetch_modules.registered():
            raise ArgumentError("policy", f"the page shows reach, push, pnp and stack modules only, and it has {name}")
    cubes = env.layout.num_cubes
    sensors = SensorLayout(cubes)
    parts = ("position", "quaternion", "velocity", "angular_velocity")
    robot = ("hand_position", "hand_quaternion", "gripper_position", "gripper_velocity")
    slices = {name: getattr(sensors, name) for name in (*robot, "finger_position", "finger_velocity")}
    slices |= {f"cube{k}_{part}": getattr(sensors, f"cube_{part}")(k) for k in range(1, cubes + 1) for part in parts}
    constants = {name.lower(): value for name, value in vars(c).items() if name.isupper()}
    return {
        "mujoco": mujoco.__version__,
        # The page's MuJoCo is older, and refuses a word that this one writes; without it the meaning is the same.
        "xml": scene.build_spec(cubes).to_xml().replace(' input="pos"', ""),
        "shapes": _shapes(looks.build_model(cubes, "plain")),
        "camera": _camera(),
        "start": {name: getattr(env.start, name).astype(float) for name in ("qpos", "qvel", "gripper")},
        "locked": env.start.locked,
        "cubes": cubes,
        "cube_names": _cube_names(cubes),
        "sensors": slices,
        "observation": env.layout.table(),
        "modules": [_module(name, number, env, colour(number)) for number, name in enumerate(env.modules.names)],
        "goal": {
            "centre": start.goal_centre(start_name if env.mixture is None else env.mixture.names[0]),
            "range": fetch_modules.GOAL_RANGE,
            "rest_height": fetch_modules.REST_HEIGHT,
            "max_lift": fetch_modules.MAX_LIFT,
            "tolerance": fetch_modules.TOLERANCE,
            "clearance": fetch_modules.STACK_CLEARANCE,
        },
        "constants": {**constants, "substeps": c.SUBSTEPS},
    }


def _module(name: str, number: int, env: FetchEnv, colour: str) -> dict[str, Any]:
    outcome, *rest = fetch_modules.judged_by(name, env.layout)
    kind, cube, base = fetch_modules.parse(name)
    return {
        "name": name,
        "kind": kind,
        "cube": cube,
        "base": base,
        "slots": env.modules.slots[number],
        "outcome": outcome,
        "hand_away": bool(rest),
        "colour": colour,
    }


def _cube_names(cubes: int) -> list[str]:
    """Names the cubes by their colours, with their numbers where several have the same."""
    colours = [COLOUR_NAMES[k % len(COLOUR_NAMES)] for k in range(cubes)]
    return [
        f"{colour} cube" if colours.count(colour) == 1 else f"{colour} cube {k}" for k, colour in enumerate(colours, 1)
    ]


def _shapes(model: mujoco.MjModel) -> list[dict[str, Any]]:
    """The geoms that MuJoCo's own viewer would draw, each in its body's frame."""
    found = []
    for number in np.flatnonzero(model.geom_group < SEEN_GROUPS):
        geom = model.geom(number)
        material = geom.matid[0]
        found.append(
            {
                "body": model.body(geom.bodyid[0]).name,
                "kind": mujoco.mjtGeom(geom.type[0]).name.removeprefix("mjGEOM_").lower(),
                "size": geom.size,
                "position": geom.pos,
                "quaternion": geom.quat,
                "colour": model.mat_rgba[material] if material >= 0 else geom.rgba,
            }
        )
    return found


def _camera() -> dict[str, Any]:
    camera = mujoco.MjvCamera()
    pictures.aim(camera)
    angles = {name: np.deg2rad(getattr(camera, name)) for name in ("azimuth", "elevation")}
    return {"target": camera.lookat, "distance": camera.distance, **angles}
