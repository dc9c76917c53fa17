"""Pictures of the arm: the bodies of the physics, goals where they are, and what is asked of a machine without one."""

import subprocess
import types

import mujoco
import numpy as np
import pytest
from helpers.parts import line_module

import envs
from envs import modules as envs_modules
from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import scene, start
from envs.fetch.modules import goal_point
from envs.pictures import door, gl, looks, page_world
from envs.pictures import fetch as render
from envs.pictures.protocol import Goal

SIZE = 320, 240
CYAN = (0.0, 1.0, 1.0)
LOOKS = ["plain", pytest.param("mesh", marks=pytest.mark.skipif(not looks.assets(), reason="no gymnasium-robotics"))]


def state(cubes=((1.25, 0.68, 0.425), (1.42, 0.85, 0.425)), distractors=()):
    """The settled arm with cubes at these places."""
    poses = [[*cube, 1, 0, 0, 0] for cube in cubes]
    qpos = np.concatenate([start.settled_start().qpos, *poses])
    return types.SimpleNamespace(physics=types.SimpleNamespace(qpos=qpos), distractors=np.array(distractors))


@pytest.fixture(scope="module")
def renderer():
    try:
        gl.choose()
    except ValueError as error:
        pytest.skip(str(error))
    found = render.FetchRenderer(2, *SIZE, "plain")
    yield found
    found.close()


def pixel(renderer, point):
    """Column and row where a point [3] in space stands in the picture: a pinhole camera, by hand."""
    camera, model = renderer._camera, renderer.model
    azimuth, elevation = np.radians([camera.azimuth, camera.elevation])
    forward = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    from_camera = np.asarray(point) - (camera.lookat - camera.distance * forward)
    scale = SIZE[1] / 2 / np.tan(np.radians(model.vis.global_.fovy) / 2) / (from_camera @ forward)
    up = np.cross(right, forward)
    return SIZE[0] / 2 + scale * (from_camera @ right), SIZE[1] / 2 - scale * (from_camera @ up)


def changed(renderer, world, *goals):
    """Rows and columns of the pixels that marking these goals changes."""
    difference = np.abs(renderer.frame(world, list(goals)).astype(int) - renderer.frame(world, []))
    return np.nonzero(difference.sum(axis=2) > 30)


@pytest.mark.parametrize("goal", [[1.30, 0.60], [1.44, 0.88, 0.80], [1.45, 0.65, 0.45]])
def test_a_goal_is_marked_where_it_is(renderer, goal):
    point = goal_point(np.array(goal))
    world = state(cubes=((1.2, 0.9, 0.425), (1.2, 0.9, 0.475)))  # out of the way
    rows, columns = changed(renderer, world, Goal(np.array(goal), CYAN, False))
    column, row = pixel(renderer, point)
    edge = pixel(renderer, point + [0.0, 0.0, 0.05])[1]
    ball = rows < row + (row - edge)  # without the line down to the table
    assert np.mean(columns[ball]) == pytest.approx(column, abs=3)
    assert rows.min() == pytest.approx(edge, abs=3)  # its top: the radius within which it is solved


@pytest.mark.parametrize("radius", [0.02, 0.08])
def test_a_goals_ball_is_as_large_as_asked_for(renderer, radius):
    point, world = np.array([1.44, 0.88, 0.80]), state(cubes=((1.2, 0.9, 0.425), (1.2, 0.9, 0.475)))
    rows, _ = changed(renderer, world, Goal(point, CYAN, False, radius))
    assert rows.min() == pytest.approx(pixel(renderer, point + [0.0, 0.0, radius])[1], abs=3)


def test_goals_on_the_table_in_the_air_and_without_a_place(renderer):
    np.testing.assert_allclose(goal_point(np.array([1.3, 0.7])), [1.3, 0.7, 0.425])
    np.testing.assert_allclose(goal_point(np.array([1.3, 0.7, 0.6])), [1.3, 0.7, 0.6])
    for goal in (np.zeros(0), np.zeros(4), np.full(3, np.nan)):
        assert changed(renderer, state(), Goal(goal, CYAN, False))[0].size == 0


def test_a_goal_that_is_solved_is_clearer(renderer):
    picture = {s: renderer.frame(state(), [Goal(np.array([1.45, 0.65]), CYAN, s)]).astype(int) for s in (False, True)}
    bare = renderer.frame(state(), []).astype(int)
    change = {s: np.abs(p - bare).sum() for s, p in picture.items()}
    assert change[True] > 1.1 * change[False] > 0


def test_cubes_have_their_colours_where_they_are(renderer):
    cubes = ((1.30, 0.62, 0.425), (1.42, 0.85, 0.425))
    picture = renderer.frame(state(cubes), [])
    for cube, colour in zip(cubes, c.CUBE_COLOURS):
        column, row = (round(x) for x in pixel(renderer, cube))
        seen = picture[row, column] / 255
        np.testing.assert_allclose(seen / seen.max(), np.array(colour) / max(colour), atol=0.12)


def test_the_camera_sees_all_goals_and_the_distractors(renderer):
    corners = [(1.3419 + x, 0.7491 + y, z) for x in (-0.15, 0.15) for y in (-0.15, 0.15) for z in (0.425, 0.875)]
    for point in [*corners, (1.8, 0.7, 0.425), (1.8, 1.0, 0.425)]:
        column, row = pixel(renderer, point)
        assert 0 <= column < SIZE[0] and 0 <= row < SIZE[1], point


def test_distractors_are_drawn(renderer):
    place = (1.8, 0.85, 0.425)
    with_one, without = renderer.frame(state(distractors=[place]), []), renderer.frame(state(), [])
    column, row = (round(x) for x in pixel(renderer, place))
    assert not np.array_equal(with_one[row, column], without[row, column])


def test_a_state_that_is_not_finite_is_drawn_as_the_last_that_was(renderer):
    before = renderer.frame(state(), [])
    broken = state()
    broken.physics.qpos[:] = np.nan
    np.testing.assert_array_equal(renderer.frame(broken, []), before)


def test_closing_a_renderer_leaves_another_s_pictures_alone(renderer):
    other = render.FetchRenderer(2, *SIZE, "plain")
    other.frame(state(), [])
    before = renderer.frame(state(), [])
    other.close()
    other.close()
    np.testing.assert_array_equal(renderer.frame(state(), []), before)


@pytest.mark.parametrize(("width", "height"), [(2400, 90), (90, 1600)])
def test_a_picture_is_drawn_to_its_edges(renderer, width, height):
    large = render.FetchRenderer(2, width, height, "plain")
    try:
        screen = large.model.vis.global_
        assert (screen.offwidth, screen.offheight) == (width, height)
        picture = large.frame(state(), [])
        assert (picture.reshape(-1, 3).max(axis=1) > 0).all()  # what is not drawn is black, or anything
        np.testing.assert_array_equal(large.frame(state(), []), picture)
    finally:
        large.close()


@pytest.mark.parametrize("look", LOOKS)
def test_every_body_stands_where_physics_has_it(look):
    seen, physics = looks.build_model(2, look), scene.build_model(2)
    assert (seen.nq, seen.nv) == (physics.nq, physics.nv)
    data = [mujoco.MjData(model) for model in (seen, physics)]
    for one in data:
        one.qpos[:] = state().physics.qpos + np.r_[np.linspace(-0.1, 0.1, 10), np.zeros(14)]
    mujoco.mj_kinematics(seen, data[0])
    mujoco.mj_kinematics(physics, data[1])
    for i in range(physics.nbody):
        name = physics.body(i).name
        np.testing.assert_allclose(data[0].body(name).xpos, data[1].body(name).xpos, atol=1e-9)
    meshes = sum(int(kind) == int(mujoco.mjtGeom.mjGEOM_MESH) for kind in seen.geom_type)
    assert meshes == (15 if look == "mesh" else 0)


def test_looks_that_cannot_be_had(monkeypatch):
    with pytest.raises(ValueError, match="looks='real': must be one of auto, plain, mesh"):
        looks.check("real")
    monkeypatch.setattr(looks, "assets", lambda: None)
    with pytest.raises(ValueError, match="looks='mesh': needs gymnasium-robotics"):
        looks.check("mesh")
    assert looks.build_model(0).nmesh == 0  # auto


def test_modules_of_one_s_own_are_not_for_the_page(monkeypatch):
    monkeypatch.setattr(envs_modules, "_REGISTRY", {})
    envs.register("lift", lambda layout: line_module("lift", 0))
    message = "policy: the page shows reach, push, pnp and stack modules only, and it has lift"
    with pytest.raises(ArgumentError, match=message):
        page_world.describe(envs.make(modules=("reach", "lift"), physics="c"), "default", str)


@pytest.fixture
def platforms(monkeypatch):
    """platforms(*working) makes a machine on which only these work."""
    gl.choose.cache_clear()
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    yield lambda *working: monkeypatch.setattr(gl, "works", lambda platform: platform in working)
    gl.choose.cache_clear()


def test_egl_then_osmesa_then_the_packages_to_install(platforms, monkeypatch):
    platforms("osmesa", "egl")
    assert gl.choose() == "egl"
    gl.choose.cache_clear()
    platforms("osmesa")
    assert gl.choose() == "osmesa"
    gl.choose.cache_clear()
    platforms()
    with pytest.raises(ValueError, match="apt-get install libegl1 libgl1 .*libosmesa6"):
        gl.choose()


def test_the_user_s_own_choice_wins(platforms, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    platforms("osmesa", "egl")
    assert gl.choose() == "osmesa"
    gl.choose.cache_clear()
    platforms("egl")
    with pytest.raises(ValueError, match="MUJOCO_GL=osmesa: does not work here"):
        gl.choose()
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    with pytest.raises(ValueError, match="MUJOCO_GL=vulkan: must be one of egl, osmesa, glfw"):
        gl.choose()


def test_a_trial_that_takes_too_long_is_no_answer(monkeypatch):
    def late(*_, timeout, **__):
        raise subprocess.TimeoutExpired("python", timeout)

    monkeypatch.setattr(gl.subprocess, "run", late)
    assert gl.works("egl") is None


def test_where_no_trial_answers_in_time_the_user_s_own_choice_is_trusted(platforms, monkeypatch):
    platforms()
    monkeypatch.setattr(gl, "works", lambda platform: None if platform == "egl" else False)
    message = "the trial of OpenGL by egl took more than 60 s; .* set MUJOCO_GL to one of egl, osmesa, glfw"
    with pytest.raises(ValueError, match=message):
        gl.choose()
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert gl.choose() == "egl"


def test_a_viewer_needs_a_screen(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ValueError, match="viewer: needs a screen"):
        door.check("fetch", "plain", viewer=True)
