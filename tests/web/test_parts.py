"""What goes into the page in a browser, and what of its program runs without one."""

import colorsys
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import envs
from curious_jax.errors import ConfigError
from curious_jax.run import policies
from curious_jax.show import browser
from envs.fetch import constants as c
from envs.fetch import start
from envs.pictures import page_world

WEB = Path(__file__).parents[2] / "web"
HUES = {"red": 0, "yellow": 1 / 6, "green": 1 / 3, "blue": 2 / 3, "purple": 5 / 6}


def node(program, argument):
    """What a program in web/, an expression of `argument`, gives under node."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    imports = "import * as modules from './src/modules.js'; import * as chart from './src/chart.js';"
    text = f"{imports} const argument = {json.dumps(argument)}; console.log(JSON.stringify({program}));"
    command = ["node", "--input-type=module", "-e", text]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("cubes", "spacing"), [(2, 0.1), (6, 0.1), (8, 0.08), (12, 0.0)])
def test_any_number_of_cubes_is_placed(cubes, spacing):
    constants = {"cube_box": c.CUBE_BOX, "cube_spacing": c.CUBE_SPACING}
    gripper = list(start.START_GRIPPER)
    about = {"constants": constants, "start": {"gripper": gripper}, "cubes": cubes}
    program = """(() => {
      const random = modules.makeRandom(0);
      return Array.from({ length: 200 }, () => modules.placeCubes(random, argument));
    })()"""
    placed = np.array(node(program, about))
    assert placed.shape == (200, cubes, 2)
    assert (abs(placed - gripper[:2]) <= c.CUBE_BOX).all()
    points = np.concatenate([np.broadcast_to(gripper[:2], (200, 1, 2)), placed], axis=1)
    distances = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1) + np.eye(cubes + 1)
    assert distances.min() >= spacing


def test_bars_are_seen_where_nothing_is_clipped():
    unclipped = float(np.finfo(np.float32).max)  # as portable.py writes it
    cases = [[5, [0.1, -9]], [unclipped, [0.1, -1.5]]]
    found = node("argument.map(([clip, input]) => chart.bound(clip, input))", cases)
    assert found == [5, 1.5]


def test_cubes_are_called_by_the_colours_they_have():
    def hue_name(colour):
        hue = colorsys.rgb_to_hsv(*colour)[0]
        return min(HUES, key=lambda name: min(abs(hue - HUES[name]), 1 - abs(hue - HUES[name])))

    assert list(map(hue_name, c.CUBE_COLOURS)) == list(page_world.COLOUR_NAMES)
    env = envs.make(modules=("push2", "pnp3", "stack3on1"))
    world = page_world.describe(env, "default", str)
    assert world["cube_names"] == ["red cube", "yellow cube", "green cube"]
    assert [(module["cube"], module["base"]) for module in world["modules"]] == [(2, 0), (3, 0), (3, 1)]
    world = page_world.describe(envs.make(modules=("push5",)), "default", str)
    assert world["cube_names"] == ["red cube 1", "yellow cube", "green cube", "purple cube", "red cube 5"]


def test_policies_whose_sensors_are_off_are_refused():
    """The page judges by where the cubes are; after --perturb-at, training judges by where they seem to be."""
    loaded = policies.load("fetch-push")
    offset = np.zeros(loaded.env.obs_size, np.float32)
    assert browser.describe_policy(loaded._replace(offset=offset), "mine")["episodes"] == loaded.episodes  # not yet off
    offset[3] = 0.05
    with pytest.raises(ConfigError, match=r"^mine: the page plays policies whose sensors are right, .*--perturb-at\)$"):
        browser.describe_policy(loaded._replace(offset=offset), "mine")
