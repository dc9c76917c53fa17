"""python web/make_data.py [POLICY ...]: writes what the page shows into web/data; `make web` calls it.

    data/world.json     the scene as MJCF, the shapes to draw, the start of an episode, layouts, modules, constants
    data/policies.json  the policies as `python -m curious_jax.export RUN DIR --format json` writes them, by episodes
    data/licences/      the licences of MuJoCo and of what it contains

A POLICY is a run's folder, a policy's own, or pretrained/NAME. Several are the stages that the page's slider has.
"""

import importlib.metadata
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import policies, portable
from curious_jax.show import curves
from envs.fetch import constants as c
from envs.fetch import modules as fetch_modules
from envs.fetch import scene, start
from envs.fetch.env import FetchEnv
from envs.fetch.observation import SensorLayout
from envs.pictures import fetch as pictures
from envs.pictures import looks

DATA = Path(__file__).with_name("data")
DEFAULT = ("pretrained/four-modules",)
SEEN_GROUPS = 3  # MuJoCo draws groups 0 to 2


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Writes the page's data; returns the exit status."""
    names = (sys.argv[1:] if argv is None else argv) or DEFAULT
    loaded = [policies.load(name) for name in names]
    stages = [describe_policy(*pair) for pair in zip(loaded, names, strict=True)]
    if any(stage["modules"] != stages[0]["modules"] for stage in stages):
        raise ConfigError("the stages of the page must have the same modules")
    (DATA / "licences").mkdir(parents=True, exist_ok=True)
    _write("policies", sorted(stages, key=lambda stage: stage["episodes"]))
    _write("world", describe_world(loaded[0].env, loaded[0].config.start))
    for file in importlib.metadata.files("mujoco") or ():
        if "LICENSE" in file.name:
            (DATA / "licences" / f"mujoco-{file.name}").write_bytes(Path(file.locate()).read_bytes())
    return program.DONE


def describe_policy(loaded: policies.Loaded, name: str) -> dict[str, Any]:
    """Gives a policy as plain data.

    Raises:
      ConfigError: when the page cannot play it.
    """
    made = portable.make(loaded)
    about = made.about
    plain = isinstance(loaded.env, FetchEnv) and loaded.env.layout.num_distractors == 0
    if not plain or about["flat_goal"] or about["experts"] or "layer.0.norm_scale" in made.arrays:
        raise ConfigError(
            f"{name}: the page plays the arm's policies of curious and muvfa, without distractors or layer norm"
        )
    return {"episodes": loaded.episodes, **about, "arrays": made.arrays}


def describe_world(env: FetchEnv, start_name: str) -> dict[str, Any]:
    """Gives the arm's world as plain data: what envs/fetch/numpy_arm.py works with, and what pictures/ draws."""
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
        "sensors": slices,
        "observation": env.layout.table(),
        "modules": [_module(name, number, env) for number, name in enumerate(env.modules.names)],
        "goal": {
            "centre": start.goal_centre(start_name),
            "range": fetch_modules.GOAL_RANGE,
            "rest_height": fetch_modules.REST_HEIGHT,
            "max_lift": fetch_modules.MAX_LIFT,
            "tolerance": fetch_modules.TOLERANCE,
            "clearance": fetch_modules.STACK_CLEARANCE,
        },
        "constants": {**constants, "substeps": c.SUBSTEPS},
    }


def _module(name: str, number: int, env: FetchEnv) -> dict[str, Any]:
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
        "colour": curves.colour(number),
    }


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


def _write(name: str, data: Any) -> None:
    (DATA / f"{name}.json").write_text(json.dumps(data, default=_plain, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Gives slices as [first, one after the last], arrays as lists of the fewest digits that give them back."""
    if isinstance(value, slice):
        return [value.start, value.stop]
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(str).astype(float).tolist()
    return value.tolist()


if __name__ == "__main__":
    sys.exit(main())
