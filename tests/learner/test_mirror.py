"""Mirror images: what is reflected, that rewards and (nearly) trajectories are the same, and how many there are."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import fetch
from helpers.parts import empty_module, fetch_table, line_module, make_run, tiny_config
from scipy.spatial.transform import Rotation

from curious_jax.errors import ConfigError
from curious_jax.learner import batches, mirror
from curious_jax.learner.state import init_one
from curious_jax.types import Transition
from envs import point
from envs.fetch.observation import ObservationLayout, quaternion_to_euler
from envs.modules import ModuleTable

LAYOUT = ObservationLayout(2, 1)
PLANE = 0.7491
NAMES = ("reach", "push", "pnp2", "stack")


def test_mirroring_twice_changes_nothing():
    obs = jax.random.normal(jax.random.key(0), (LAYOUT.size,))
    np.testing.assert_allclose(LAYOUT.mirror(LAYOUT.mirror(obs, PLANE), PLANE), obs, atol=1e-6)
    table, _ = fetch_table(*NAMES, distractors=1)
    goal = jax.random.normal(jax.random.key(1), (table.goal_size,))
    for module in range(table.num_modules):
        own = jnp.where(table.mask(module), goal, 0.0)
        np.testing.assert_allclose(table.mirror(table.mirror(own, module), module), own, atol=1e-6)


def test_what_left_and_right_mean_to_each_part():
    obs = jnp.arange(1.0, LAYOUT.size + 1)
    mirrored = LAYOUT.mirror(obs, PLANE)
    for name, part in LAYOUT.table().items():
        own = np.asarray(obs[part], float)
        if name.startswith("distractor"):
            expected = own
        elif name.startswith("finger"):
            expected = own[::-1]
        elif name == "gripper_position" or name in ("cube1_position", "cube2_position"):
            expected = [own[0], 2 * PLANE - own[1], own[2]]
        elif name.endswith(("euler", "angular_velocity")):
            expected = own * [-1, 1, -1]
        else:
            expected = own * [1, -1, 1]
        np.testing.assert_allclose(mirrored[part], expected, rtol=1e-6, err_msg=name)


def test_angles_are_those_of_the_mirrored_cube():
    flip = np.diag([1.0, -1.0, 1.0])
    for rotation in Rotation.random(20, random_state=0):
        w = np.roll(rotation.as_quat(), 1)
        mirrored = Rotation.from_matrix(flip @ rotation.as_matrix() @ flip)
        expected = quaternion_to_euler(np.roll(mirrored.as_quat(), 1))
        np.testing.assert_allclose(quaternion_to_euler(w) * [-1, 1, -1], expected, atol=1e-6)


def test_rewards_are_the_same_in_the_mirror():
    table, _ = fetch_table(*NAMES)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        obs = jnp.asarray(rng.normal(size=LAYOUT.size) * 0.03, jnp.float32)
        obs = obs.at[jnp.array([0, 1, 2])].add(jnp.array([1.34, PLANE, 0.53]))
        for k in (1, 2):
            obs = obs.at[LAYOUT.cube_position(k)].add(jnp.array([1.34, PLANE, 0.425 + 0.05 * (k == 1)]))
        module = int(rng.integers(table.num_modules))
        at = jnp.concatenate([jnp.array([1.34, PLANE, 0.47])] * 4)[: table.goal_size]
        goal = table.goal_at(jnp.where(table.mask(module), at, 0.0), module, obs)
        reward = table.reward(obs, goal, module)
        assert table.reward(LAYOUT.mirror(obs, PLANE), table.mirror(goal, module), module) == reward
        seen.add((module, float(reward)))
    assert len(seen) >= 5


def test_the_point_world_is_its_own_mirror():
    env = point.create(("reach", "drag", "push2"))
    state = env.reset(jax.random.key(1))
    turned = [x * jnp.array([1.0, -1.0]) for x in (state.position, state.objects)]
    image = env._observe(*turned, state.distractors, state.key)
    np.testing.assert_allclose(env.mirror(state.obs), image.obs, atol=1e-7)
    step = jax.jit(env.step)
    for key in jax.random.split(jax.random.key(2), 20):
        action = jax.random.uniform(key, (3,), minval=-1, maxval=1)
        state, image = step(state, action), step(image, env.mirror_action(action))
        np.testing.assert_allclose(env.mirror(state.obs), image.obs, atol=1e-6)


def test_half_of_a_batch_is_replaced():
    env, b = point.create(("reach", "drag")), 2000
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=(b, *shape)), jnp.float32)  # noqa: E731
    module = jnp.arange(b, dtype=jnp.int32) % 2
    goal, next_goal = (jnp.where(env.modules.mask(module), draw(4), 0.0) for _ in range(2))
    next_obs = draw(env.obs_size)
    reward = jax.vmap(env.modules.reward)(next_obs, next_goal, module)
    batch = Transition(draw(env.obs_size), draw(3), reward, next_obs, goal, next_goal, module)
    found = mirror.reflect(env, jax.random.key(0), batch)
    flipped = np.asarray(found.action[:, 1] != batch.action[:, 1])
    assert abs(flipped.mean() - 0.5) < 0.05
    np.testing.assert_array_equal(found.reward, batch.reward)
    np.testing.assert_array_equal(found.obs, jnp.where(flipped[:, None], jax.vmap(env.mirror)(batch.obs), batch.obs))
    np.testing.assert_array_equal(
        found.next_obs, jnp.where(flipped[:, None], jax.vmap(env.mirror)(batch.next_obs), batch.next_obs)
    )
    turn = jax.vmap(env.modules.mirror)
    for now, own in ((found.goal, goal), (found.next_goal, next_goal)):
        np.testing.assert_array_equal(now, jnp.where(flipped[:, None], turn(own, module), own))


def test_goals_without_a_mirror_image_are_refused():
    env = point.create(("reach",))
    mirror.check(True, env)
    odd = type("Odd", (), {"modules": ModuleTable((line_module("odd", 0), empty_module("none", 0)))})
    mirror.check(False, odd)
    with pytest.raises(ConfigError, match=r"--mirror on: must be off, since odd has no mirror image"):
        mirror.check(True, odd)


@pytest.mark.slow
def test_mirrored_actions_give_nearly_mirrored_trajectories_on_the_arm():
    """The figures of docs/algorithm.md: 64 episodes of 50 steps on C physics, in mm."""
    world, count = fetch.env("c"), 64
    table, plane = world.layout.table(), float(world.start.gripper[1])
    start = fetch.reset("c", count, seed=1)
    cubes = np.stack([np.asarray(start.obs)[:, world.layout.cube_position(k)][:, :2] for k in (1, 2)], axis=1)
    turned = cubes * [1, -1] + [0, 2 * plane]

    def errors(actions, part):
        _, own = fetch.run("c", fetch.at(start, cubes), actions)
        _, image = fetch.run("c", fetch.at(start, turned), jax.vmap(jax.vmap(world.mirror_action))(actions))
        mirrored = np.asarray(jax.vmap(world.mirror)(own.reshape(-1, world.obs_size)))
        difference = mirrored[:, table[part]].reshape(50, count, -1)
        difference = difference - image[..., table[part]]
        step = np.diff(difference, axis=0)  # what a single transition adds
        return 1e3 * np.linalg.norm(difference[-1], axis=-1), 1e3 * np.linalg.norm(step, axis=-1)

    uniform = jax.random.uniform(jax.random.key(2), (50, count, 4), minval=-1, maxval=1)
    free = uniform.at[..., 2].set(0.3 * jnp.abs(uniform[..., 2]))
    low = jnp.clip(uniform.at[..., 2].add(-0.3), -1, 1)
    for actions in (free, low):
        end, step = errors(actions, "gripper_position")
        assert np.median(end) < 1 and np.median(step) < 0.05 and np.quantile(step, 0.99) < 2
    _, step = errors(low, "cube1_position")
    assert np.quantile(step, 0.95) < 0.2 and np.quantile(step, 0.99) < 5


def test_an_image_has_its_own_reward_where_a_module_tells_left_from_right():
    left = dataclasses.replace(empty_module("left", 1), solved=lambda obs, goal: obs[1] > 0.2)
    env = dataclasses.replace(point.create(("reach",)), modules=ModuleTable((left,)))
    mirror.check(True, env)
    obs = jnp.zeros((400, env.obs_size)).at[:, 1].set(jnp.where(jnp.arange(400) % 2, 0.3, -0.3))
    nothing, module = jnp.zeros((400, 0)), jnp.zeros(400, jnp.int32)
    reward = jax.vmap(env.modules.reward)(obs, nothing, module)
    batch = Transition(obs, jnp.zeros((400, env.action_size)), reward, obs, nothing, nothing, module)
    seen = mirror.reflect(env, jax.random.key(0), batch)
    flipped = seen.next_obs[:, 1] != obs[:, 1]
    assert 150 < int(flipped.sum()) < 250
    np.testing.assert_array_equal(seen.reward, jnp.where(seen.next_obs[:, 1] > 0.2, 0.0, -1.0))


@pytest.mark.parametrize("chosen", [True, False])
def test_batches_hold_mirror_images_where_they_are_asked_for(chosen):
    run = make_run(tiny_config(mirror=chosen))
    state = init_one(run, 0)
    store = state.replay.replace(action=jnp.ones_like(state.replay.action), size=jnp.int32(1))
    batch = batches.make(run, store, state.normalizer, jnp.zeros(200, jnp.int32))(jax.random.key(0))
    assert set(np.unique(batch.action[:, 1])) == ({-1.0, 1.0} if chosen else {1.0})
    assert (batch.action[:, [0, 2]] == 1).all()  # the mirror changes left and right alone


def test_distractors_and_their_goals_stay_as_they_are_in_the_mirror():
    """Distractors move on their own, whatever the arm or the point does."""
    env = point.create(("reach", "push"), 2)
    obs = np.arange(1.0, env.obs_size + 1)
    np.testing.assert_array_equal(env.mirror(obs), [1, -2, 3, -4, 5, -6, 7, 8, 9, 10])
    for table in (env.modules, fetch_table("reach", distractors=1)[0]):
        module = table.names.index("distractor1")
        goal = jnp.where(table.mask(module), 0.25, 0.0)
        np.testing.assert_array_equal(table.mirror(goal, module), goal)
