"""The arm moves as the official one does, grasps, holds and stacks; on C MuJoCo and on MJX's jax implementation.

Official figures: FetchPickAndPlace-v4 of gymnasium-robotics 1.4.2 on MuJoCo 3.17.
"""

import copy
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import fetch as fetch

from envs.fetch.observation import SensorLayout
from envs.physics.native import NativePhysics

LAYOUT = fetch.env("c").layout
WORLDS = 10  # one compiled program per backend for all tests of this file

# Gripper displacement in mm after 1 … 6 full actions; after three of -z comes the table.
OFFICIAL = {
    "+x": [29, 62, 93, 125, 156, 187],
    "-x": [29, 62, 94, 126, 158, 190],
    "+y": [30, 62, 95, 127, 159, 192],
    "-y": [30, 62, 95, 127, 159, 192],
    "+z": [29, 62, 94, 126, 158, 190],
    "-z": [29, 62, 94],
}


def tilt(states):
    """Angle in degrees between the hand's axis and straight down, [E]."""
    w, x, y, z = np.moveaxis(np.asarray(states.physics.sensordata[:, SensorLayout.hand_quaternion]), 1, 0)
    return np.degrees(np.arccos(np.clip(-2 * (x * z - w * y), -1, 1)))


def check_directions(physics):
    """A world per direction, six full actions: displacement and tilt."""
    actions = np.zeros((WORLDS, 4))
    actions[: len(fetch.DIRECTIONS), :3] = list(fetch.DIRECTIONS.values())
    states = fetch.reset(physics, WORLDS)
    # Cubes out of every path.
    states = fetch.at(states, np.tile([[1.12, 0.4], [1.12, 1.1]], (WORLDS, 1, 1)))
    start, moved, tilts = np.asarray(states.obs[:, :3]), [], []
    for _ in range(6):
        states, obs = fetch.run(physics, states, actions[None])
        moved.append(1000 * (obs[0, :, :3] - start))
        tilts.append(tilt(states))
    for world, (name, direction) in enumerate(fetch.DIRECTIONS.items()):
        expected = np.array(OFFICIAL[name])
        along = (np.stack(moved)[:, world] @ np.array(direction))[: len(expected)]
        assert (np.abs(along - expected) <= np.maximum(0.05 * expected, 2)).all(), (name, along)
        assert max(t[world] for t in tilts) <= (7 if name == "+x" else 2), (name, tilts)


def check_drift(physics):
    states = fetch.reset(physics, WORLDS)
    start = np.asarray(states.obs[:, :3])
    _, obs = fetch.run(physics, states, np.zeros((20, WORLDS, 4)))
    assert np.abs(obs[-1, :, :3] - start).max() <= 0.004


def check_hold(physics):
    """Lifted 15 cm and held for 200 control steps: no cube leaves the fingers or creeps by more than 2 cm in them."""
    states = fetch.reset(physics, WORLDS, seed=3)
    goals = states.obs[:, LAYOUT.cube_position(1)] + jnp.array([0, 0, 0.15])
    last, obs = fetch.script(physics, states, goals, 250)
    assert not np.asarray(last.overflow).any()
    obs = obs[49:]  # lifted
    held = obs[:, :, LAYOUT.cube_relative_position(1)]
    assert (np.abs(obs[:, :, LAYOUT.cube_position(1)][..., 2] - np.asarray(goals)[:, 2]) < 0.02).all()
    assert (np.linalg.norm(held, axis=-1) < 0.04).all()
    creep = np.linalg.norm(held[-1] - held[0], axis=1)
    assert creep.max() <= 0.02, creep


def check_stack(physics):
    """Lowered on cube 2, let go, gripper away for 50 steps and more."""
    states = fetch.reset(physics, WORLDS, seed=5)
    goals = states.obs[:, LAYOUT.cube_position(2)].at[:, 2].set(0.4749)
    last, obs = fetch.script(physics, states, goals, 120, stack=True)
    assert not np.asarray(last.overflow).any()
    away = np.linalg.norm(obs[69:, :, LAYOUT.cube_relative_position(1)], axis=-1) > 0.06
    assert away.all()
    np.testing.assert_allclose(obs[-1][:, LAYOUT.cube_position(1)][:, 2], 0.4747, atol=0.002)


def check_script(physics, count, least):
    """Scripted pick-and-place: at least `least` of `count` episodes of 50 steps solved at the end."""
    solved = 0
    for seed in range(count // WORLDS):
        goals = fetch.random_goals(seed, WORLDS)
        last, obs = fetch.script(physics, fetch.reset(physics, WORLDS, seed), goals, 50)
        assert not np.asarray(last.overflow).any()
        solved += (np.linalg.norm(obs[-1][:, LAYOUT.cube_position(1)] - np.asarray(goals), axis=1) < 0.05).sum()
    assert solved >= least, solved


def test_full_actions_move_the_gripper_as_the_official_arm_on_c():
    check_directions("c")


def test_zero_actions_drift_by_less_than_4_mm_on_c():
    check_drift("c")


def test_the_script_picks_and_places_95_of_100_on_c():
    check_script("c", 100, 95)


def test_a_lifted_cube_is_held_for_200_steps_on_c():
    check_hold("c")


def test_a_cube_let_go_on_another_stays_there_on_c():
    check_stack("c")


@pytest.mark.slow
def test_with_sleeping_cubes_the_script_holds_and_stacks_as_well():
    check_script("c, sleep", 20, 19)
    check_hold("c, sleep")
    check_stack("c, sleep")


def test_actions_are_clipped():
    states = fetch.reset("c", WORLDS)
    actions = np.ones((3, WORLDS, 4))
    _, within = fetch.run("c", states, actions)
    _, beyond = fetch.run("c", states, 7 * actions)
    np.testing.assert_array_equal(within, beyond)


def test_the_solver_converges_where_cubes_are_pressed():
    """The scene's solver limits against generous ones, one control step from each state of a noisy pressing policy."""
    model = copy.copy(fetch.env("c").model)
    model.opt.iterations, model.opt.ls_iterations = 100, 50
    generous = dataclasses.replace(fetch.env("c"), physics=NativePhysics(model))
    generous_step = jax.jit(jax.vmap(generous.step))
    rng, worlds = np.random.default_rng(0), 64
    states = fetch.reset("c", worlds, seed=1)
    errors = []
    for _ in range(40):
        toward = np.clip(10 * np.asarray(states.obs[:, LAYOUT.cube_relative_position(1)]), -1, 1)
        noise = 0.5 * rng.normal(size=(worlds, 3)) + [0, 0, -0.3]
        action = jnp.asarray(np.append(toward + noise, rng.uniform(-1, 1, (worlds, 1)), axis=1), jnp.float32)
        exact = generous_step(states, action)
        states = fetch.batched_step("c", worlds)(states, action)
        errors.append(np.abs(states.physics.qpos - exact.physics.qpos).max(axis=1))
    assert (np.stack(errors) > 1e-4).mean() < 0.005, np.sort(np.ravel(errors))[-20:]


@pytest.mark.slow
def test_motion_on_mjx_jax():
    check_directions("jax")
    check_drift("jax")
    check_script("jax", 10, 9)


@pytest.mark.slow
def test_holding_on_mjx_jax():
    check_hold("jax")


@pytest.mark.slow
def test_motion_on_mjx_warp():
    pytest.importorskip("warp")
    check_directions("warp")
    check_drift("warp")
    check_script("warp", 10, 9)


@pytest.mark.slow
def test_holding_on_mjx_warp():
    pytest.importorskip("warp")
    check_hold("warp")


@pytest.mark.slow
def test_stacking_on_mjx_jax():
    check_stack("jax")


@pytest.mark.slow
def test_stacking_on_mjx_warp():
    pytest.importorskip("warp")
    check_stack("warp")
