"""Where episodes start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import envs
from envs.fetch import constants as c
from envs.fetch import start


def test_the_arm_settles_where_the_official_one_does():
    settled = start.settled_start()
    np.testing.assert_allclose(settled.gripper, [1.3419, 0.7491, 0.5347], atol=2e-4)
    assert 0.005 < np.abs(settled.qvel).max() < 0.012  # kept, not zeroed


def test_fetch_push_starts_low_and_with_goals_and_cubes_around_it():
    settled = start.settled_start("fetch-push")
    np.testing.assert_allclose(settled.gripper, [1.3631, 0.7491, 0.4160], atol=6e-4)
    assert settled.locked and not start.settled_start().locked
    np.testing.assert_allclose(start.goal_centre("fetch-push"), settled.gripper[:2])
    table = envs.make(modules=("push",), physics="c", start="fetch-push").modules
    goals = jax.vmap(lambda key: table.sample_goal(key, 0))(jax.random.split(jax.random.key(0), 2000))
    np.testing.assert_allclose(goals.max(axis=0), settled.gripper[:2] + 0.15, atol=2e-3)
    np.testing.assert_allclose(goals.min(axis=0), settled.gripper[:2] - 0.15, atol=2e-3)


def test_fetch_reach_starts_as_usual_with_locked_fingers():
    settled, usual = start.settled_start("fetch-reach"), start.settled_start()
    np.testing.assert_array_equal(settled.qpos, usual.qpos)
    assert settled.locked and not usual.locked


@pytest.mark.parametrize("name", ["fetch-reach", "fetch-push"])
def test_locked_fingers_do_not_hear_the_action(name):
    env = envs.make(modules=("reach",), physics="c", start=name).with_worlds(1)
    step = jax.jit(env.step)
    state = jax.jit(env.reset)(jax.random.key(0))
    for _ in range(8):
        state = step(state, jnp.array([0.0, 0.0, 1.0, 1.0]))
    assert state.obs[2] > 0.55  # the arm does
    assert state.obs[env.layout.finger_position].max() < 1e-3


@pytest.mark.parametrize(
    "options, mentions",
    [
        ({"start": "low"}, "start='low': must be one of default, fetch-reach, fetch-push, mixed"),
        ({"start": "fetch-push", "modules": ("push", "stack")}, "fingers are locked shut, so stack cannot be learned"),
        ({"start": "fetch-push", "world": "point", "modules": ("push",)}, "the point world has no other start"),
    ],
)
def test_starts_that_do_not_fit_are_refused(options, mentions):
    with pytest.raises(ValueError, match=mentions):
        envs.make(physics="c", **options)


@pytest.mark.parametrize("cubes", [2, 4])
def test_cubes_lie_in_the_box_and_keep_their_distance(cubes):
    gripper = jnp.asarray(start.settled_start().gripper[:2])
    place = jax.jit(jax.vmap(lambda key: start.place_cubes(key, cubes, gripper)))
    placed = np.asarray(place(jax.random.split(jax.random.key(0), 500)))
    assert np.abs(placed - np.asarray(gripper)).max() <= c.CUBE_BOX + 1e-6
    points = np.concatenate([np.broadcast_to(gripper, (500, 1, 2)), placed], axis=1)
    distance = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1) + 9 * np.eye(cubes + 1)
    assert distance.min() >= c.CUBE_SPACING - 1e-6


def test_a_single_cube_is_uniform_outside_the_gripper_disc():
    gripper = jnp.asarray(start.settled_start().gripper[:2])
    place = jax.jit(jax.vmap(lambda key: start.place_cubes(key, 1, gripper)))
    offset = np.asarray(place(jax.random.split(jax.random.key(1), 8000)))[:, 0] - np.asarray(gripper)
    allowed = (2 * c.CUBE_BOX) ** 2 - np.pi * c.CUBE_SPACING**2
    corner = np.mean((offset > 0.1).all(axis=1))  # a square of 5 cm that no disc touches
    assert corner == pytest.approx(0.05**2 / allowed, abs=0.006)
    np.testing.assert_allclose(offset.mean(axis=0), 0, atol=0.004)


def test_too_many_cubes_still_end():
    gripper = jnp.asarray(start.settled_start().gripper[:2])
    placed = jax.jit(lambda key: start.place_cubes(key, 12, gripper))(jax.random.key(0))
    assert placed.shape == (12, 2) and bool(jnp.isfinite(placed).all())


def test_reset_is_a_function_of_the_key_alone():
    env = envs.make(modules=("reach",), distractors=2, physics="c").with_worlds(1)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    first = reset(jax.random.key(3))
    state = reset(jax.random.key(4))
    for _ in range(5):
        state = step(state, jnp.ones(4))
    again = reset(jax.random.key(3))
    fresh = jax.jit(envs.make(modules=("reach",), distractors=2, physics="c").with_worlds(1).reset)(jax.random.key(3))
    for other in (again, fresh):
        same = jax.tree.map(lambda a, b: bool((a == b).all()), first, other)
        assert all(jax.tree.leaves(same)), same
    assert not (first.obs == reset(jax.random.key(4)).obs).all()


def test_the_first_observation_is_the_settled_one():
    env = envs.make(modules=("reach",), distractors=1, physics="c").with_worlds(1)
    state = jax.jit(env.reset)(jax.random.key(0))
    after = jax.jit(env.step)(state, jnp.zeros(4))
    assert not bool(state.overflow)
    for k in (1, 2):
        cube = env.layout.cube_position(k)
        assert state.obs[cube][2] == np.float32(c.CUBE_REST_HEIGHT)
        # Nothing settles: the relevance threshold is 1e-3.
        np.testing.assert_allclose(after.obs[cube], state.obs[cube], atol=1e-5)
    np.testing.assert_allclose(after.obs[:3], state.obs[:3], atol=1e-3)


def test_distractors_start_out_of_reach_and_walk():
    env = envs.make(modules=("reach",), distractors=3, physics="c").with_worlds(64)
    states = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 64))
    first = np.asarray(states.distractors)
    assert first.shape == (64, 3, 3) and env.obs_size == 49
    assert (first[..., 0] >= 1.8).all() and (first[..., 0] <= 1.9).all()
    assert (first[..., 1] >= 0.7).all() and (first[..., 1] <= 1.0).all()
    step = jax.jit(jax.vmap(env.step))
    walk = [first]
    for _ in range(20):
        states = step(states, jnp.zeros((64, 4)))
        walk.append(np.asarray(states.distractors))
        np.testing.assert_array_equal(np.asarray(states.obs[:, env.layout.distractor_position(2)]), walk[-1][:, 1])
    moves = np.diff(np.stack(walk), axis=0)
    assert moves[..., :2].std() == pytest.approx(0.005, rel=0.05)
    assert abs(moves[..., :2].mean()) < 5e-4 and (moves[..., 2] == 0).all()
