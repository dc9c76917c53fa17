"""The official Fetch environments as judges: our observation of their states, and known policies' known figures."""

import subprocess
import sys
import zlib

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from envs import official
from envs.fetch import env as fetch_env
from envs.fetch import numpy_arm, scripted
from envs.fetch.observation import ObservationLayout

LAYOUT = ObservationLayout(num_cubes=2, num_distractors=0)


def zero(obs, goal):
    return np.zeros((len(obs), 4))


def uniform(obs, goal):
    """Uniform random actions, decided by the observation, so that they are the same whichever row it stands in."""
    return np.stack([np.random.default_rng(zlib.crc32(o.tobytes())).uniform(-1, 1, 4) for o in obs])


def straight(obs, goal):
    """Brings the gripper to the goal."""
    return np.clip(10 * np.concatenate([goal - obs[:, :3], np.zeros((len(obs), 1))], axis=1), -1, 1)


@pytest.mark.parametrize("name", ["FetchPickAndPlace-v4", "FetchReach-v4"])
def test_a_state_set_by_hand_is_observed_as_in_our_world(name):
    theirs, rng = official.make(name).unwrapped, np.random.default_rng(0)
    ours = numpy_arm.NumpyFetch(fetch_env.create(("pnp",), physics="c"))
    theirs.reset(seed=0)
    ours.reset(np.array([[1.3, 0.6], [1.45, 0.85]]))
    has_cube = theirs.has_object
    arm = [3, *range(6, 15)]  # theirs has three base slides before the torso, and two head joints behind it
    robot_qpos = theirs.data.qpos[arm] + rng.uniform(-0.1, 0.1, 10) * ([1] * 8 + [0] * 2)
    robot_qpos[8:] = 0.031, 0.012  # right and left finger
    robot_qvel = rng.uniform(-0.5, 0.5, 10)
    cube_qpos = np.array([1.31, 0.72, 0.5, 0.8, 0.2, -0.4, 0.4])
    cube_qpos[3:] /= np.linalg.norm(cube_qpos[3:])
    cube_qvel = rng.uniform(-1, 1, 6)
    theirs.data.qpos[arm], theirs.data.qvel[arm] = robot_qpos, robot_qvel
    ours.data.qpos[:10], ours.data.qvel[:10] = robot_qpos, robot_qvel
    if has_cube:
        theirs.data.qpos[15:], theirs.data.qvel[15:] = cube_qpos, cube_qvel
        ours.data.qpos[10:17], ours.data.qvel[10:16] = cube_qpos, cube_qvel
    for env in (theirs, ours):
        mujoco.mj_forward(env.model, env.data)
    cubes = ours.data.qpos[10:].reshape(2, 7)[:, :3]
    imagined = official.Imagined(cubes[has_cube:], np.zeros((0, 3)))
    mapped = official.observe(theirs._get_obs()["observation"], imagined)
    expected = ours.observe()
    for part, where in LAYOUT.table().items():
        np.testing.assert_allclose(mapped[where], expected[where], atol=2e-4, err_msg=part)
    if has_cube:
        assert np.abs(expected[LAYOUT.cube_velocity(1)]).max() > 0.01  # nothing was compared at rest
        assert np.abs(expected[LAYOUT.cube_angular_velocity(1)]).max() > 0.01


def test_imagined_cubes_are_clear_of_gripper_cube_and_goal():
    rng, gripper = np.random.default_rng(1), np.array([1.3419, 0.7491, 0.5347])
    for has_cube in (True, False):
        layout, observation = ObservationLayout(3, 2), np.zeros(25 if has_cube else 10)
        for _ in range(100):
            observation[:3] = gripper
            goal = gripper + rng.uniform(-0.15, 0.15, 3)
            taken = [gripper[:2], goal[:2]]
            if has_cube:
                observation[3:6] = [*numpy_arm.place_cubes(rng, 1, gripper[:2])[0], 0.425]
                taken.append(observation[3:5])
            imagined = official.Imagined.draw(rng, layout, observation, goal)
            assert imagined.cubes.shape == (3 - has_cube, 3) and imagined.distractors.shape == (2, 3)
            for cube in imagined.cubes:
                assert min(np.linalg.norm(cube[:2] - other) for other in taken) >= 0.1
                assert np.abs(cube[:2] - gripper[:2]).max() <= 0.15 and cube[2] == pytest.approx(0.425, abs=1e-3)
                taken.append(cube[:2])
            assert official.observe(observation, imagined).shape == (layout.size,)


def test_the_number_of_environments_changes_nothing_and_a_straight_line_reaches():
    outcomes = [official.judge("FetchReach-v4", straight, LAYOUT, 5, seed=2, num_envs=n) for n in (1, 4)]
    for outcome in outcomes:
        np.testing.assert_array_equal(outcome.success, np.ones(5, bool))
    for act in (zero, uniform):
        one, many = (official.judge("FetchPush-v4", act, LAYOUT, 6, num_envs=n) for n in (1, 4))
        np.testing.assert_array_equal(one.success, many.success)
        np.testing.assert_array_equal(one.any_step_success, many.any_step_success)


def test_a_policy_acts_on_as_many_rows_as_there_are_environments():
    rows = []
    official.judge("FetchReach-v4", lambda obs, goal: rows.append(len(obs)) or zero(obs, goal), LAYOUT, 3, num_envs=2)
    assert set(rows) == {2}
    official.judge("FetchReach-v4", lambda obs, goal: rows.append(len(obs)) or zero(obs, goal), LAYOUT, 1, num_envs=2)
    assert rows[-1] == 1


def test_success_counts_at_the_last_of_fifty_steps():
    steps = np.zeros(8, int)

    def act(obs, goal):
        action = straight(obs, goal)
        steps[:] += 1
        if steps[0] > 45:
            action = np.tile([0.0, 0.0, 1.0, 0.0], (len(obs), 1))
        return action

    outcome = official.judge("FetchReach-v4", act, LAYOUT, 8, num_envs=8)
    assert steps[0] == 50
    assert outcome.any_step_success.all() and not outcome.success.any()  # 5 steps lift it by 16 cm


@pytest.mark.parametrize(
    "name, mentions",
    [
        ("FetchPush-v3", "wrong or irreproducible states, which gymnasium-robotics put right in v4; use FetchPush-v4"),
        ("FetchReach-v1", "needs mujoco-py"),
        ("FetchSlide-v4", "must be one of FetchReach-v4, FetchPush-v4, FetchPickAndPlace-v4"),
        ("Ant-v5", "must be one of"),
    ],
)
def test_what_is_no_judge_is_refused(name, mentions):
    with pytest.raises(ValueError, match=f"env='{name}': ") as refusal:
        official.make(name)
    assert mentions in str(refusal.value)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(official.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "curious_jax\[official\]"'):
        official.check("FetchPush-v4")


def test_the_compatibility_file_is_still_needed():
    """When this fails, gymnasium-robotics runs by itself: remove envs/compat/official.py."""
    program = "import gymnasium, gymnasium_robotics; gymnasium.make('FetchReach-v4')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0 and "AssertionError" in done.stderr


# Reference figures, measured over many episodes.


@pytest.mark.slow
@pytest.mark.parametrize("num_envs", [1, 8])
def test_a_zero_policy_on_push_and_a_random_one_on_reach(num_envs):
    still = official.judge("FetchPush-v4", zero, LAYOUT, 200, num_envs=num_envs)
    assert 0.02 <= still.success.mean() <= 0.11
    drifting = official.judge("FetchReach-v4", uniform, LAYOUT, 200, num_envs=num_envs)
    assert drifting.success.mean() <= 0.07
    assert 0.12 <= drifting.any_step_success.mean() <= 0.31


@pytest.mark.slow
def test_the_scripted_pick_and_place_works_through_our_observation():
    act = jax.jit(jax.vmap(lambda script, obs, goal: scripted.act(script, obs, goal, LAYOUT)))
    scripts = jax.vmap(lambda _: scripted.init())(jnp.arange(10))

    def scripted_act(obs, goal):
        nonlocal scripts
        scripts, action = act(scripts, obs, goal)
        return action

    outcome = official.judge("FetchPickAndPlace-v4", scripted_act, LAYOUT, 10, num_envs=10)
    assert outcome.success.sum() >= 9
