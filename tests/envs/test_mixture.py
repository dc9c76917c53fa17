"""Starts drawn for each episode: who gets which, where goals lie then, and whose fingers are locked."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import episodes

import envs
from curious_jax.config import HindsightConfig, make_config
from curious_jax.learner import goals as samplers
from curious_jax.learner import hindsight, replay, rollout
from curious_jax.learner.goals.protocol import View
from envs.fetch import start

MODULES = ("reach", "push", "pnp", "stack")
DEFAULT, REACH, PUSH = range(3)


@pytest.fixture(scope="module")
def env():
    return envs.make(modules=MODULES, distractors=1, physics="c", start="mixed")


NUMBER = 400  # episodes, one shape for all tests: one program per environment
begin = jax.jit(rollout.begin, static_argnums=0)


def begun(env, module):
    return begin(env, *jax.random.split(jax.random.key(0)), jnp.full(NUMBER, module, jnp.int32))


@pytest.mark.parametrize("module", [0, 1, 4])
def test_modules_without_fingers_have_each_start_in_a_third_of_their_episodes(env, module):
    state, _ = begun(env, module)
    assert np.bincount(state.start, minlength=3) == pytest.approx([133] * 3, abs=38)  # four standard deviations
    for index, name in enumerate(start.STARTS):
        settled = start.settled_start(name)
        own = np.asarray(state.obs)[np.asarray(state.start) == index]
        np.testing.assert_allclose(own[:, env.layout.gripper_position], settled.gripper[None].repeat(len(own), 0))


@pytest.mark.parametrize("module", [2, 3, -1])
def test_what_needs_fingers_has_the_usual_start(env, module):
    state, _ = begun(env, module)
    assert (np.asarray(state.start) == DEFAULT).all()


def test_without_a_module_the_start_suits_every_module(env):
    draw = lambda env: jax.vmap(lambda key: env.mixture.draw(key, -1))(jax.random.split(jax.random.key(1), 60))  # noqa: E731
    assert set(np.asarray(draw(env)).tolist()) == {DEFAULT}
    without = envs.make(modules=("reach", "push"), physics="c", start="mixed")
    assert set(np.asarray(draw(without)).tolist()) == {DEFAULT, REACH, PUSH}
    assert int(env.reset(jax.random.key(0)).start) == DEFAULT


def test_goals_and_cubes_lie_around_the_gripper_of_the_episode_s_start(env):
    state, goal = begun(env, 1)
    slots = env.modules.slots[1]
    for index, name in enumerate(start.STARTS):
        chosen = np.asarray(state.start) == index
        gripper = start.settled_start(name).gripper[:2]
        for places in (np.asarray(goal)[chosen][:, slots], np.asarray(state.obs)[chosen, env.layout.cube_position(1)]):
            off = places[:, :2] - gripper
            assert 0.135 < off.max() <= 0.151 and -0.151 <= off.min() < -0.135
    others = np.delete(np.asarray(goal), np.arange(slots.start, slots.stop), axis=1)
    assert (others == 0).all()


@pytest.mark.parametrize("module", [0, 1, 3, -1])
def test_the_module_table_places_goals_by_the_first_observation(env, module):
    state, goal = begun(env, module)
    modules = jnp.full(NUMBER, module, jnp.int32)
    drawn = jax.random.uniform(jax.random.key(3), goal.shape)
    placed = rollout.place_goals(env.modules, drawn, modules, state.obs)
    np.testing.assert_array_equal(placed, jax.vmap(env.place_goal)(state, drawn, modules))
    assert (np.asarray(placed) != np.asarray(drawn)).any() == (module in (0, 1))


def begins_of(env):
    """(first observations of 400 episodes of push, whether each began as FetchPush-v4)."""
    state, _ = begun(env, 1)
    return state.obs, np.asarray(state.start) == PUSH


def assert_around(goals, start_name):
    """Goals of push [n, 2] fill the box around the gripper of a start, and no more."""
    off = goals - start.settled_start(start_name).gripper[:2]
    assert -0.151 <= off.min() < -0.13 and 0.13 < off.max() <= 0.151


@pytest.mark.parametrize("name", ["riac", "alp-gmm", "vds", "learnability", "mega"])
def test_samplers_propose_goals_around_the_gripper_of_the_episode_s_start(env, name):
    config = make_config(modules=MODULES, distractors=1, start="mixed", goals=name, physics="c")
    obs, low = begins_of(env)
    module = jnp.full(NUMBER, 1, jnp.int32)
    view = View(
        encode=lambda obs, goal, module: jnp.concatenate([obs, goal], axis=-1),
        act=lambda inputs: jnp.zeros((*inputs.shape[:-1], 4)),
    )
    sampler = samplers.make(config, env.modules, env.obs_size + env.modules.goal_size, 4)
    propose = jax.jit(lambda key, obs: sampler.propose(sampler.init(key), key, module, obs, view))
    goal = np.asarray(propose(jax.random.key(0), obs))[:, env.modules.slots[1]]
    assert_around(goal[low], "fetch-push")
    assert_around(goal[~low], "default")


def test_fresh_goals_in_replay_are_around_the_gripper_of_the_episode_s_start(env):
    obs, low = begins_of(env)
    wide = episodes(jnp.repeat(obs[:, None], 2, axis=1), module=0, goal_size=env.modules.goal_size)
    store = replay.init(NUMBER, 1, env.obs_size, 1, env.modules.goal_size, env.modules.num_modules)
    store = replay.add(store, wide, jnp.ones((NUMBER, env.modules.num_modules), bool))
    config = HindsightConfig(0.0, "drawn")
    module, slot, t = jnp.full(NUMBER, 1), jnp.arange(NUMBER), jnp.zeros(NUMBER, jnp.int32)
    substitute = jax.jit(lambda key: hindsight.substitute(store, env.modules, config, key, module, slot, t))
    goal = np.asarray(substitute(jax.random.key(0)).goal)[:, env.modules.slots[1]]
    assert_around(goal[low], "fetch-push")
    assert_around(goal[~low], "default")


def open_fingers(env, physics, steps):
    """(how far the fingers are open, whether they are locked) of 24 episodes that were asked to open them."""
    state = jax.tree.map(lambda leaf: leaf[:24], begun(env, 0)[0])
    world = dataclasses.replace(env, physics_name=physics).with_worlds(24)
    step = jax.jit(jax.vmap(world.step))
    for _ in range(steps):
        state = step(state, jnp.tile(jnp.array([0.0, 0.0, 0.5, 1.0]), (24, 1)))
    return np.asarray(state.obs)[:, env.layout.finger_position].max(axis=1), np.asarray(state.start) != DEFAULT


def test_fingers_are_locked_in_the_episodes_that_start_so(env):
    fingers, locked = open_fingers(env, "c", 8)
    assert 5 < locked.sum() < 24
    assert fingers[locked].max() < 1e-3 and fingers[~locked].min() > 0.02


def test_episodes_of_one_start_are_those_of_that_start_alone(env):
    only = env.at_start("fetch-push")
    assert only.modules.achievable == (True, True, False, False, False)
    state, goal = begun(only, 1)
    alone = envs.make(modules=("reach", "push"), distractors=1, physics="c", start="fetch-push")
    plain, aim = begun(alone, 1)
    np.testing.assert_allclose(state.obs, plain.obs, atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(goal)[:, env.modules.slots[1]], np.asarray(aim)[:, alone.modules.slots[1]], atol=1e-3
    )


def test_with_one_start_nothing_is_drawn():
    usual = envs.make(modules=("reach",), physics="c")
    assert usual.mixture is None and usual.reset(jax.random.key(0)).start is None


def test_goals_that_are_no_places_near_the_gripper_stay(env):
    goal = jnp.arange(env.modules.goal_size, dtype=jnp.float32)
    distractor = env.mixture.place_goal(jnp.int32(PUSH), goal, jnp.int32(4))
    np.testing.assert_array_equal(distractor, goal)


@pytest.mark.slow
def test_the_backends_agree_on_which_fingers_are_locked(env):
    (ours, locked), (other, same) = (open_fingers(env, physics, 3) for physics in ("c", "jax"))
    np.testing.assert_array_equal(locked, same)
    np.testing.assert_allclose(ours, other, atol=1e-3)


def test_a_flat_goal_moves_with_the_start_in_all_of_its_parts_that_are_places(env):
    """These are x and y of reach, push, pnp and stack, and no number of the distractor."""
    away = (start.settled_start("fetch-push").gripper - start.settled_start("default").gripper)[:2]
    moved = env.mixture.place_goal(jnp.int32(PUSH), jnp.zeros(env.modules.goal_size), jnp.int32(-1))
    expected = [*away, 0, *away, *away, 0, *away, 0, 0, 0]
    np.testing.assert_allclose(moved, expected, atol=1e-6)
    assert away[0] > 0.02


def test_goals_that_are_placed_count_as_moving(env):
    assert all(env.modules.moving)
