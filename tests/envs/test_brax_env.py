"""Our worlds as brax environments."""

import functools
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brax import envs as brax_envs
from brax.envs.wrappers import training
from brax.envs.wrappers.training import wrap
from helpers.parts import FaultyEnv

from envs import brax_env, modules
from envs.compat import brax as brax_compat

point = functools.partial(brax_envs.get_environment, "curious_fetch", modules=("reach", "push"), world="point")


def wrapped(env, length):
    env = wrap(env, episode_length=length)
    return jax.jit(env.reset), jax.jit(env.step)


def test_an_observation_is_state_goal_and_descriptor():
    env = point()
    state = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(0), 64))
    table, obs_size = env.env.modules, env.env.obs_size
    assert state.obs.shape == (64, env.observation_size) == (64, 6 + 4 + 2)
    np.testing.assert_array_equal(state.obs[:, :obs_size], state.pipeline_state.world.obs)
    descriptor = np.asarray(state.obs[:, -2:])
    np.testing.assert_array_equal(descriptor, np.eye(2)[state.pipeline_state.module])
    assert 10 < descriptor[:, 0].sum() < 54  # both modules are asked for
    outside = ~np.asarray(jax.vmap(table.mask)(state.pipeline_state.module))
    assert (np.asarray(state.obs[:, obs_size:-2])[outside] == 0).all()


def test_rewards_are_the_modules_own_and_minus_the_distance_when_dense():
    sparse, dense = point(), point(dense=True)
    state = jax.jit(jax.vmap(sparse.reset))(jax.random.split(jax.random.PRNGKey(1), 200))
    action = jnp.zeros((200, 3))
    state = state.replace(pipeline_state=state.pipeline_state.replace(module=jnp.zeros(200, jnp.int32)))
    goal = state.pipeline_state.world.obs[:, :2] + jnp.linspace(0, 0.3, 200)[:, None] * jnp.array([1.0, 0.0])
    goals = state.pipeline_state.goal.at[:, :2].set(goal).at[:, 2:].set(0.0)
    state = state.replace(pipeline_state=state.pipeline_state.replace(goal=goals))
    after = jax.jit(jax.vmap(sparse.step))(state, action)
    distance = np.linalg.norm(np.asarray(after.pipeline_state.world.obs[:, :2] - goal), axis=1)
    clear = np.abs(distance - 0.1) > 1e-5
    np.testing.assert_array_equal(np.asarray(after.reward)[clear], np.where(distance < 0.1, 0.0, -1.0)[clear])
    np.testing.assert_array_equal(after.metrics["success"], np.asarray(after.reward) + 1)  # none was at the start
    np.testing.assert_allclose(jax.jit(jax.vmap(dense.step))(state, action).reward, -distance, atol=1e-6)


def test_a_module_without_a_goal_of_numbers_has_no_distance(monkeypatch):
    monkeypatch.setattr(modules, "_REGISTRY", {})
    right = modules.Module("right", 0, lambda obs: obs[:0], lambda key: jnp.zeros(0), lambda obs, goal: obs[0] > 0.2)
    modules.register("right", lambda layout: right)
    env = brax_envs.get_environment("curious_fetch", modules=("right",), world="point", dense=True)
    state = env.reset(jax.random.PRNGKey(0))
    step = jax.jit(env.step)
    rewards = [float((state := step(state, jnp.array([1.0, 0.0, 0.0]))).reward) for _ in range(4)]
    assert rewards[0] == -1.0 and rewards[-1] == 0.0


def test_starts_that_are_drawn_suit_the_module_and_have_their_goals_around_them():
    env = brax_envs.get_environment("curious_fetch", modules=("reach", "push", "pnp"), start="mixed", physics="c")
    asked = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.PRNGKey(0), 600)).pipeline_state
    module, start, goal = (np.asarray(x) for x in (asked.module, asked.world.start, asked.goal))
    assert (start[module == 2] == 0).all()  # what needs fingers
    for index in range(3):
        own = (module == 1) & (start == index)
        gripper = env.env.mixture.starts[index].gripper
        off = goal[own, env.env.modules.slots[1].start] - gripper[0]
        assert own.sum() > 40 and -0.151 <= off.min() < -0.13 and 0.13 < off.max() <= 0.151


def test_an_overflow_of_the_physics_is_counted_once_an_episode():
    env = point()
    inner = env.env
    env.env = FaultyEnv(inner, value=None, share=0.5, overflows=True)
    reset, step = wrapped(env, length=inner.episode_length)
    state = reset(jax.random.split(jax.random.PRNGKey(5), 32))
    broken, total = np.asarray(state.pipeline_state.world.broken), np.zeros(32)
    assert (state.metrics["overflow"] == 0).all() and 0 < broken.sum() < 32
    for _ in range(inner.episode_length):
        state = step(state, jnp.zeros((32, 3)))
        total += np.asarray(state.metrics["overflow"])
    np.testing.assert_array_equal(total, broken)


def test_brax_s_automatic_reset_draws_every_episode_anew():
    reset, step = wrapped(point(), length=3)
    state = reset(jax.random.split(jax.random.PRNGKey(2), 16))
    starts = [state]
    for t in range(1, 10):
        state = step(state, jnp.zeros((16, 3)))
        over = t % 3 == 0
        assert (np.asarray(state.done) == over).all()
        assert (np.asarray(state.info["truncation"]) == over).all()
        if over:
            starts.append(state)
    goals = np.stack([np.asarray(s.pipeline_state.goal) for s in starts])
    asked = np.stack([np.asarray(s.pipeline_state.module) for s in starts])
    assert (np.abs(np.diff(goals, axis=0)).max(axis=2) > 0).all()
    assert (asked != asked[0]).any()
    for s in starts:  # what the policy sees is the new episode
        np.testing.assert_array_equal(s.obs[:, :6], s.pipeline_state.world.obs)
        np.testing.assert_array_equal(np.argmax(s.obs[:, -2:], axis=1), s.pipeline_state.module)


@pytest.mark.parametrize("length", [3, 5])
def test_the_sum_of_success_over_an_episode_is_that_of_its_last_step(length):
    """What brax's evaluation prints as eval/episode_success, whatever the episode's length."""
    env = training.EvalWrapper(wrap(point(modules=("reach",)), episode_length=length))
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    state, solved = reset(jax.random.split(jax.random.PRNGKey(4), 64)), []
    for t in range(length):
        away = jnp.where((jnp.arange(64) < 48) | (t < length - 1), 1.0, -1.0)[:, None]
        nearer = away * 10 * (state.pipeline_state.goal - state.pipeline_state.world.position)
        state = step(state, jnp.pad(nearer, ((0, 0), (0, 1))))
        solved.append(np.asarray(state.reward) == 0)
    total = np.asarray(state.info["eval_metrics"].episode_metrics["success"])
    np.testing.assert_array_equal(total, solved[-1])
    assert 0 < solved[-1].sum() < 64 and (np.sum(solved, axis=0) > 1).any()


def test_a_diverged_world_is_done_and_starts_anew():
    reset, step = wrapped(point(), length=50)
    state = reset(jax.random.split(jax.random.PRNGKey(3), 4))
    inner = state.pipeline_state.world
    broken = inner.replace(position=inner.position.at[1].set(jnp.nan))
    state = step(state.replace(pipeline_state=state.pipeline_state.replace(world=broken)), jnp.zeros((4, 3)))
    np.testing.assert_array_equal(state.done, [0, 1, 0, 0])
    np.testing.assert_array_equal(state.info["truncation"], np.zeros(4))
    assert np.isfinite(np.asarray(state.obs)).all() and state.reward[1] == -1
    state = step(state, jnp.zeros((4, 3)))
    assert np.isfinite(np.asarray(state.obs)).all() and not np.asarray(state.done).any()


@pytest.mark.parametrize("name", brax_env.NAMES)
def test_every_name_is_registered_with_its_modules(name):
    env = brax_envs.get_environment(name, physics="c")
    assert env.env.modules.names == brax_env.NAMES[name]
    assert env.backend == "c" and env.action_size == 4


def test_registered_modules_of_one_s_own_are_taken(monkeypatch):
    from helpers.parts import line_module

    monkeypatch.setattr(modules, "_REGISTRY", {})
    modules.register("mine", lambda layout: line_module("mine", 0))
    assert point(modules=("mine",)).env.modules.names == ("mine",)


def test_arrays_are_replicated_on_a_new_axis_of_devices():
    devices = jax.local_devices()
    tree = brax_compat.device_put_replicated({"a": jnp.arange(3), "b": 2.0}, devices)
    np.testing.assert_array_equal(tree["a"], np.tile(np.arange(3), (len(devices), 1)))
    assert tree["b"].shape == (len(devices),)


def test_the_compatibility_file_is_still_needed():
    """When this fails, jax or brax has changed: see envs/compat/brax.py on its removal."""
    program = "import jax; jax.device_put_replicated"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "AttributeError" in done.stderr
    from brax.training.agents.sac import train as sac

    assert "device_put_replicated" in Path(sac.__file__).read_text()


@pytest.mark.slow
def test_brax_s_sac_runs_on_reach():
    from brax.training.agents.sac import train as sac

    seen = []
    make_policy, params, metrics = sac.train(
        brax_envs.get_environment("curious_fetch_reach", dense=True),
        num_timesteps=5_000,
        episode_length=50,
        num_envs=16,
        num_eval_envs=16,
        num_evals=2,
        min_replay_size=1_000,
        max_replay_size=8_192,
        batch_size=128,
        grad_updates_per_step=2,
        learning_rate=1e-3,
        discounting=0.95,
        reward_scaling=20.0,
        normalize_observations=True,
        seed=0,
        progress_fn=lambda steps, values: seen.append((steps, float(values["eval/episode_reward"]))),
    )
    rewards = [reward for _, reward in seen]
    assert seen[-1][0] >= 5_000 and np.isfinite(rewards).all()
    assert metrics["eval/avg_episode_length"] == 50
    assert rewards[-1] > rewards[0] + 2, seen  # metres and steps: nearer by 4 cm on average
    action, _ = make_policy(params, deterministic=True)(jnp.zeros(44), jax.random.PRNGKey(0))
    assert action.shape == (4,) and bool(jnp.isfinite(action).all())
