"""`envs.make`: names in, environment out, and what every world promises the learner."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.errors import ArgumentError
from envs.fetch import scene


@pytest.fixture(scope="module", params=["point", "fetch"])
def env(request):
    return envs.make(request.param, ("reach", "push2"), distractors=2, physics="c").with_worlds(2)


def test_sizes_agree(env):
    state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2))
    assert state.obs.shape == (2, env.obs_size)
    assert state.obs.dtype == jnp.float32
    assert env.modules.names == ("reach", "push2", "distractor1", "distractor2")
    assert env.modules.achievable == (True, True, False, False)
    assert env.modules.outcomes(state.obs[0]).shape == (env.modules.goal_size,)
    assert np.isfinite(state.obs).all() and np.abs(state.obs).max() < env.obs_bound
    assert not np.any(state.overflow) and state.overflow.shape == (2,)
    assert isinstance(env.episode_length, int) and isinstance(env.physics_name, str)


def test_reset_is_a_function_of_the_key(env):
    reset = jax.jit(env.reset)
    one, other = reset(jax.random.key(0)), reset(jax.random.key(1))
    assert jax.tree.structure(one) == jax.tree.structure(other)
    np.testing.assert_array_equal(reset(jax.random.key(0)).obs, one.obs)
    assert not np.array_equal(one.obs, other.obs)


def test_a_step_keeps_the_states_shape(env):
    """As the learner's loop over steps needs it."""
    state = jax.eval_shape(env.reset, jax.random.key(0))
    then = jax.eval_shape(env.step, state, jnp.zeros(env.action_size))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), then) == jax.tree.map(lambda x: (x.shape, x.dtype), state)


def test_more_worlds_leave_everything_else(env):
    more = env.with_worlds(7)
    assert (more.obs_size, more.modules.names) == (env.obs_size, env.modules.names)
    assert dataclasses.is_dataclass(more)


def test_unknown_world():
    with pytest.raises(ArgumentError, match="world='mars': must be one of fetch, point") as refusal:
        envs.make("mars")
    assert (refusal.value.argument, refusal.value.value) == ("world", "mars")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("reach", "fly"), "unknown module 'fly'"),
        (("stack2on2",), "puts a cube on itself"),
        (("push", "push1"), "named twice"),
        ((), "name at least one"),
    ],
)
def test_bad_modules_cost_no_scene(monkeypatch, names, message):
    monkeypatch.setattr(scene, "build_model", lambda *args: pytest.fail("built the scene first"))
    for world in envs.WORLDS:
        with pytest.raises(ArgumentError, match=message if (world, names) != ("point", ("stack2on2",)) else "unknown"):
            envs.make(world, names)


@pytest.mark.parametrize("world", envs.WORLDS)
def test_a_number_of_distractors_that_cannot_be_is_refused(world):
    for number in (-1, 1.5, "2"):
        with pytest.raises(ArgumentError, match=f"distractors={number!r}: must be a whole number of 0 or more"):
            envs.make(world, ("reach",), distractors=number)


def test_modules_as_one_text():
    assert envs.make("point", "reach, push2").modules.names == ("reach", "push2")


def test_physics_is_built_by_with_worlds_alone(monkeypatch):
    from envs.physics import native

    monkeypatch.setattr(native, "NativePhysics", lambda *args: pytest.fail("built physics"))
    env = envs.make("fetch", ("reach",), physics="c")
    assert env.physics_name == "c" and env.physics_bytes_per_world > 1000
    state = jax.eval_shape(env.reset, jax.random.key(0))
    with pytest.raises(RuntimeError, match="call with_worlds"):
        jax.eval_shape(env.step, state, jnp.zeros(4))


def test_the_scene_has_the_cubes_that_modules_name():
    env = envs.make("fetch", ("push3",), physics="c")
    assert env.obs_size == 10 + 3 * 15
    assert envs.make("point", ("push3",)).obs_size == 2 + 3 * 4
