"""What Gymnasium users can do wrong, and pictures of what they did right. No program is compiled here."""

import copy
import os
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

import envs.gymnasium_env  # noqa: F401
from envs.errors import ArgumentError
from envs.gymnasium_env import CuriousFetchEnv, CuriousFetchVectorEnv
from envs.pictures import gl

STILL = np.zeros(4, np.float32)


@pytest.fixture(scope="module")
def several():
    env = CuriousFetchEnv(("reach", "push"))
    env.reset(seed=0)
    return env


@pytest.mark.parametrize("achieved, desired", [((3,), (3,)), ((8,), (3,)), ((5, 9), (5, 8)), ((), ())])
def test_goals_of_another_size_are_refused(several, achieved, desired):
    assert several.compute_reward(np.zeros((5, 8)), np.zeros((5, 8)), {}).shape == (5,)
    with pytest.raises(ValueError, match=r"goals of reach, push are arrays \[..., 8\], got"):
        several.compute_reward(np.zeros(achieved), np.zeros(desired), {})


@pytest.mark.parametrize("action", [np.zeros(5), np.zeros((1, 4)), 0.0])
def test_an_action_of_another_shape_is_refused(several, action):
    with pytest.raises(ValueError, match=r"action: must be an array of shape \(4,\)"):
        several.step(action)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_action_that_is_not_finite_ends_the_episode_and_writes_no_log(tmp_path, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    env = CuriousFetchEnv(("reach",))
    env.reset(seed=0)
    obs, reward, terminated, truncated, info = env.step(np.array([bad, 0, 0, 0]))
    assert (reward, terminated, truncated, info["diverged"]) == (-1.0, False, True, True)
    assert np.isfinite(obs["observation"]).all()
    env.reset(seed=0)
    assert not env.step(STILL)[3]
    assert not list(tmp_path.iterdir())


def test_writing_into_an_observation_changes_nothing(several):
    obs, _ = several.reset(seed=1)
    before = {name: array.copy() for name, array in obs.items()}
    for array in obs.values():
        array[:] = 7.0
    again, *_ = several.step(STILL)
    np.testing.assert_allclose(again["desired_goal"], before["desired_goal"])
    assert np.abs(again["observation"] - before["observation"]).max() < 0.1


def test_a_step_before_the_first_reset_is_one_clear_error():
    for env, action in ((CuriousFetchEnv(("reach",)), STILL), (CuriousFetchVectorEnv(2, physics="c"), STILL[None])):
        with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before step\(\)"):
            env.step(action)


def test_reset_masks_that_leave_nothing_to_observe_are_refused():
    env = CuriousFetchVectorEnv(2, ("reach",), physics="c")
    with pytest.raises(ValueError, match="the first reset must be of all environments"):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ValueError, match=r"must have the shape \(2,\)"):
        env.reset(options={"reset_mask": np.ones(3, bool)})


@pytest.mark.parametrize("kind", [CuriousFetchEnv, CuriousFetchVectorEnv])
def test_bad_arguments_are_named(kind):
    for options, mentions in (
        ({"modules": ()}, "modules: name at least one module"),
        ({"modules": ("fly",)}, "modules: unknown module 'fly'"),
        ({"start": "low"}, "start='low': must be one of default"),
        ({"render_mode": "ansi"}, "render_mode='ansi': must be None or one of"),
    ):
        with pytest.raises(ArgumentError, match=mentions):
            kind(**options)


@pytest.mark.parametrize("size", [{"width": 0}, {"height": -1}, {"width": 4097}, {"height": 90.5}, {"height": True}])
def test_pictures_of_a_size_that_cannot_be_are_refused(size):
    ((name, side),) = size.items()
    with pytest.raises(ArgumentError) as refusal:
        CuriousFetchEnv(("reach",), **size)
    assert str(refusal.value) == f"{name}={side!r}: must be a whole number of pixels from 1 to 4096"
    CuriousFetchEnv(("reach",), width=4096, height=np.int64(1))


@pytest.mark.parametrize("env", [CuriousFetchEnv("reach,push"), CuriousFetchVectorEnv(2, ("reach",), physics="c")])
def test_environments_are_pickled_and_copied_as_newly_made(env):
    for other in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert other.goals.names == env.goals.names and other.observation_space == env.observation_space


@pytest.fixture
def drawing():
    try:
        gl.choose()
    except ValueError as error:
        pytest.skip(str(error))


def test_render_mode_none_is_gymnasium_s_default():
    env = gymnasium.make("CuriousFetchReach-v0", render_mode=None)
    env.reset(seed=0)
    assert env.render_mode is None and env.unwrapped.render() is None


def test_rgb_arrays_show_the_arm_and_its_goal(drawing):
    env = gymnasium.make("CuriousFetchReach-v0", render_mode="rgb_array", width=160, height=120)
    env.reset(seed=0)
    first = env.render()
    assert first.shape == (120, 160, 3) and first.dtype == np.uint8 and first.std() > 10
    red = (first[..., 0] > 150) & (first[..., 1] < 90)  # the goal
    assert red.any()
    for _ in range(5):
        env.step(np.array([1.0, 0.0, 1.0, 0.0]))
    assert np.abs(env.render().astype(int) - first).max() > 50
    env.close()
    np.testing.assert_equal(env.unwrapped.render().shape, (120, 160, 3))  # a closed one draws again
    env.close()


def test_record_video_records(drawing, tmp_path):
    pytest.importorskip("moviepy", reason="RecordVideo needs moviepy")
    env = gymnasium.make("CuriousFetchReach-v0", render_mode="rgb_array", width=64, height=64)
    with gymnasium.wrappers.RecordVideo(env, str(tmp_path)) as recorded:
        recorded.reset(seed=0)
        for _ in range(50):
            recorded.step(STILL)
    assert list(tmp_path.glob("*.mp4"))


def test_a_window_needs_a_screen_and_shows_every_step(monkeypatch):
    from envs.pictures import viewer

    env = CuriousFetchEnv(("reach",), render_mode="human")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ArgumentError, match="^render_mode='human': needs a screen, .*; take rgb_array instead$"):
        env.reset(seed=0)
    shown = []

    class Window:
        def __init__(self, num_cubes):
            assert num_cubes == 2

        def show(self, state, goals):
            shown.append((state.physics.qpos.copy(), goals[0].goal))

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(viewer, "Window", Window)
    obs, _ = env.reset(seed=0)
    env.step(STILL)
    assert len(shown) == 2 and env.render() is None
    np.testing.assert_allclose(shown[0][1], obs["desired_goal"])
    env.close()
    assert shown[-1] == "closed"


def test_the_public_name_says_when_a_folder_named_envs_hides_ours(tmp_path):
    program = "from curious_jax import gymnasium_env; print(len(gymnasium_env.IDS))"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = [sys.executable, "-c", program]
    assert subprocess.run(run, cwd=tmp_path, env=path, capture_output=True, text=True).stdout == "5\n"
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").touch()
    hidden = subprocess.run(run, cwd=tmp_path, env=path, capture_output=True, text=True).stderr.splitlines()[-1]
    assert f"envs: the package at {tmp_path / 'envs'} hides curious_jax's own" in hidden
