"""Three backends, one physics: they agree, keep bad worlds apart, and take any leading axes."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import fetch as fetch

from envs.fetch import scene
from envs.physics import native, protocol

WORLDS = 8
needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")


def moving_hands():
    """Starts and actions [5, E, 4] for a rollout that touches nothing: six directions, at rest, at random."""
    actions = np.zeros((5, WORLDS, 4))
    actions[:, :6, :3] = 0.5 * np.array(list(fetch.DIRECTIONS.values()))
    actions[:, 0] = [1, 0, 0, 0]
    actions[:, 5] = [0, 0, -0.3, 1]
    actions[:, 7] = np.random.default_rng(0).uniform(-1, 1, (5, 4)) * [1, 1, 0.3, 1]
    return fetch.reset("c", WORLDS, seed=2), actions


def check_agreement(physics):
    """Positions within 1 mm of C MuJoCo's, angles within 1 mrad; cubes at rest stay."""
    states, actions = moving_hands()
    _, expected = fetch.run("c", states, actions)
    last, got = fetch.run(physics, states, actions)
    np.testing.assert_allclose(got, expected, atol=1e-3)
    assert not np.asarray(last.overflow).any()
    layout = fetch.env("c").layout
    for k in (1, 2):
        cube = layout.cube_position(k)
        np.testing.assert_allclose(got[-1][:, cube], np.asarray(states.obs[:, cube]), atol=1e-4)


def check_bad_world(physics):
    """World 2 starts with NaN, world 5 gets a NaN action: they stay NaN until reset, the others do not notice."""
    states, actions = moving_hands()
    _, expected = fetch.run(physics, states, actions)
    broken = states.replace(physics=states.physics.replace(qvel=states.physics.qvel.at[2, 12].set(jnp.nan)))
    poisoned = actions.copy()
    poisoned[1, 5, 0] = np.nan
    last, got = fetch.run(physics, broken, poisoned)
    others = [w for w in range(WORLDS) if w not in (2, 5)]
    np.testing.assert_allclose(got[:, others], expected[:, others], atol=1e-6)
    assert np.isnan(got[:, 2, :10]).all() and np.isnan(got[1:, 5, :10]).all()
    assert np.isnan(np.asarray(last.physics.qpos)[[2, 5]]).all()
    _, again = fetch.run(physics, states, actions)  # the next episode in the same places
    np.testing.assert_allclose(again, expected, atol=1e-6)


def check_leading_axes(physics):
    """Two seeds of four environments step as eight environments do."""
    states, actions = moving_hands()
    action = jnp.asarray(actions[0], jnp.float32)
    flat = fetch.batched_step(physics, WORLDS)(states, action)
    step = jax.jit(jax.vmap(jax.vmap(fetch.env(physics, num_worlds=WORLDS).step)))
    nested = step(jax.tree.map(lambda x: x.reshape(2, 4, *x.shape[1:]), states), action.reshape(2, 4, 4))
    np.testing.assert_allclose(np.asarray(nested.obs).reshape(WORLDS, -1), flat.obs, atol=1e-6)
    np.testing.assert_allclose(np.asarray(nested.physics.qvel).reshape(WORLDS, -1), flat.physics.qvel, atol=1e-5)


def test_bad_worlds_stay_alone_on_c(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_bad_world("c")
    assert not list(tmp_path.iterdir())  # MuJoCo writes a log file where it warns


def test_leading_axes_on_c():
    check_leading_axes("c")


def test_a_diverged_world_is_nan_throughout():
    env = fetch.env("c")
    states = fetch.reset("c", WORLDS)
    flung = states.physics.replace(qvel=states.physics.qvel.at[3, 12].set(2e3))
    after = fetch.batched_step("c", WORLDS)(states.replace(physics=flung), jnp.zeros((WORLDS, 4)))
    assert np.isnan(np.asarray(after.physics.sensordata[3])).all()
    assert np.isfinite(np.asarray(after.physics.sensordata[:3])).all()
    assert env.physics.model.opt.disableflags != env.model.opt.disableflags  # C's own copy, without silent resets


def test_large_batches_and_several_threads_of_c_agree_with_one():
    model = scene.build_model(2)
    count = 1024  # large enough for the callback's copies to leave the small-array path
    states, actions = moving_hands()
    world = jnp.concatenate(
        [states.physics.qpos[7], states.physics.qvel[7], jnp.array([0.1, 0.2, 1.3, 0.8, 0.5, 0.7, 0.0, 0.7, 0.0])]
    )
    worlds = np.tile(np.asarray(world), (count, 1))
    one = native._BatchStepper(native.NativePhysics(model).model, 1)(worlds[:1])
    many = native._BatchStepper(native.NativePhysics(model).model, 3)(worlds)
    np.testing.assert_array_equal(many, np.tile(one, (count, 1)))
    callback = jax.jit(jax.vmap(fetch.env("c").step))
    big = jax.tree.map(lambda x: jnp.tile(x[7:8], (count,) + (1,) * (x.ndim - 1)), states.replace(key=states.key))
    assert np.isfinite(np.asarray(callback(big, jnp.zeros((count, 4))).obs)).all()


@pytest.mark.slow
def test_jax_agrees_with_c():
    check_agreement("jax")


@pytest.mark.slow
def test_bad_worlds_stay_alone_on_jax():
    check_bad_world("jax")


@needs_warp
def test_warp_agrees_with_c_and_keeps_bad_worlds_apart():
    check_agreement("warp")
    check_bad_world("warp")
    check_leading_axes("warp")


@needs_warp
@pytest.mark.slow
def test_warp_reports_lost_contacts(monkeypatch):
    from envs.physics import warp

    monkeypatch.setattr(warp, "buffer_sizes", lambda model: (2, 280))  # eight corners lie on the table
    monkeypatch.setattr(warp, "SPARE_CONTACTS", 0)
    physics = warp.WarpPhysics.create(scene.build_model(2), num_worlds=1)
    state = jax.tree.map(lambda x: x[0], fetch.reset("c", 1)).physics
    hand = jnp.array([1.32, 0.75, 0.53]), jnp.array([0.7071, 0.0, 0.7071, 0.0])
    after = physics.step(state, jnp.zeros(2), *hand)
    assert bool(after.overflow)
    assert bool(physics.step(after.replace(qpos=state.qpos), jnp.zeros(2), *hand).overflow)  # and says so from then on


@needs_warp
def test_a_scene_s_control_step_is_made_once(monkeypatch, capfd):
    from envs.physics import warp

    made = []
    monkeypatch.setattr(warp, "_made", {})
    monkeypatch.setattr(warp, "_make_control_step", lambda *told: made.append(told) or len(made))
    one, same = (warp.WarpPhysics.create(scene.build_model(1), 3).control_step for _ in range(2))
    assert one == same == 1 and len(made) == 1
    assert warp.WarpPhysics.create(scene.build_model(1), 4).control_step == 2
    assert warp.WarpPhysics.create(scene.build_model(2), 3).control_step == 3
    warp.bytes_per_world(scene.build_model(1))
    assert capfd.readouterr().out == "", "Warp greets nobody on standard output"


@needs_warp
def test_warp_buffers_grow_with_the_cubes():
    from envs.physics import warp

    assert warp.buffer_sizes(scene.build_model(2)) == (24, 280)
    assert warp.buffer_sizes(scene.build_model(4)) == (40, 480)


def test_a_scene_of_another_kind_is_refused():
    import mujoco

    with pytest.raises(ValueError, match="one mocap body"):
        protocol.check_model(mujoco.MjModel.from_xml_string("<mujoco/>"))


def test_c_physics_takes_arrays_of_the_right_type_and_size_alone():
    stepper = native.NativePhysics(scene.build_model(2))._stepper
    x, out = np.zeros((3, stepper.inputs), np.float32), np.zeros((3, stepper.outputs), np.float32)
    for a, b in ((x.astype(np.float64), out), (x, out.astype(np.float64)), (x[:, 1:], out), (x, out[:2])):
        with pytest.raises(TypeError, match="C physics takes float32"):
            stepper.into(a, b)


def test_with_x64_the_arm_moves_as_without_on_c():
    import envs

    env = envs.make(modules=("reach", "stack"), distractors=1, physics="c").with_worlds(2)

    def play():
        state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(3), 2))
        state = jax.jit(jax.vmap(env.step))(state, jnp.full((2, 4), 0.5))
        return jax.tree.map(np.asarray, (state.obs, state.physics))

    expected = play()
    with jax.enable_x64(True):
        got = play()
    assert got[0].dtype == np.float32
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), got, expected)
