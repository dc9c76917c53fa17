"""Running statistics against numpy in double precision, and the networks' input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import empty_module, episodes, fetch_obs, fetch_table, line_module, line_table

from curious_jax.config import NormalizerConfig
from curious_jax.learner import normalizer
from curious_jax.types import FLAT
from envs.modules import ModuleTable

CONFIG = NormalizerConfig()
merge = jax.jit(normalizer.merge)


@functools.partial(jax.jit, static_argnums=1)
def update(state, modules, episode, relevant, probability=0.8):
    return normalizer.update(state, modules, episode, relevant, probability)


def test_large_offset_and_tiny_deviation():
    """The gripper's x (1.3419 ± 1e-4), a constant, and the gripper's z (0.53 ± 0.1), over 400 batches."""
    rng = np.random.default_rng(0)
    moments, seen = normalizer.init_moments(3), []
    for _ in range(400):
        batch = np.stack([rng.normal(1.3419, 1e-4, 500), np.zeros(500), rng.normal(0.53, 0.1, 500)], axis=1)
        batch = batch.astype(np.float32)
        seen.append(batch)
        moments = merge(moments, jnp.asarray(batch), jnp.ones(batch.shape))
    seen = np.concatenate(seen).astype(np.float64)
    np.testing.assert_allclose(moments.weight, len(seen))
    np.testing.assert_allclose(moments.mean, seen.mean(0), atol=3e-7)  # float32 stands 1.2e-7 apart at 1.34
    np.testing.assert_allclose(np.sqrt(moments.variance), seen.std(0), rtol=2e-3, atol=1e-12)


@pytest.mark.slow
def test_forty_million_samples_then_a_late_shift():
    """As many as 800,000 episodes' in 400 batches; then the gripper's x moves by 5 cm for 40 batches more."""
    rng, each, pivot = np.random.default_rng(0), 100_000, np.array([1.3419, 0.0, 0.53])
    spread = np.array([1e-4, 0.0, 0.1])
    moments, sums, squares = normalizer.init_moments(3), np.zeros(3), np.zeros(3)
    for batch in range(440):
        shift = np.array([0.05, 0.0, 0.0]) if batch >= 400 else 0.0
        x = (pivot + shift + spread * rng.normal(size=(each, 3))).astype(np.float32)
        moments = merge(moments, jnp.asarray(x), jnp.ones(x.shape))
        centred = x.astype(np.float64) - pivot
        sums, squares = sums + centred.sum(0), squares + np.square(centred).sum(0)
        if batch in (399, 439):
            n = each * (batch + 1)
            mean, deviation = sums / n, np.sqrt(np.maximum(squares / n - np.square(sums / n), 0.0))
            assert all(np.isfinite(leaf).all() for leaf in moments.__dict__.values())
            np.testing.assert_allclose(moments.weight, n, rtol=1e-6)
            np.testing.assert_allclose(np.sqrt(moments.variance), deviation, rtol=0.05, atol=1e-12)
            np.testing.assert_allclose(moments.mean, pivot + mean, atol=1e-4)
    assert moments.mean[0] - pivot[0] == pytest.approx(0.05 / 11, rel=0.02)


def test_as_many_samples_at_once_as_a_gpu_cycle_adds():
    """2,048 episodes of 51 observations."""
    x = np.random.default_rng(1).normal(1.3419, 1e-4, (2048 * 51, 1)).astype(np.float32)
    moments = merge(normalizer.init_moments(1), jnp.asarray(x), jnp.ones(x.shape))
    np.testing.assert_allclose(moments.mean, x.mean(dtype=np.float64), atol=2e-7)
    np.testing.assert_allclose(np.sqrt(moments.variance), x.std(dtype=np.float64), rtol=1e-3)


def test_a_constant_has_no_deviation():
    moments = normalizer.init_moments(1)
    for _ in range(100):
        moments = merge(moments, jnp.full((33, 1), 1.3419), jnp.ones((33, 1)))
    np.testing.assert_array_equal(moments.mean, np.float32(1.3419))
    np.testing.assert_array_equal(moments.variance, 0.0)


def test_a_late_shift_moves_the_mean():
    """10,000 batches at 1.35, then 10,000 at 1.40, as the perturbation experiment does to a cube."""

    def body(i, moments):
        x = jnp.where(i < 10_000, 1.35, 1.40) + jnp.linspace(-1e-3, 1e-3, 64)[:, None]
        return normalizer.merge(moments, x, jnp.ones((64, 1)))

    moments = jax.jit(lambda: jax.lax.fori_loop(0, 20_000, body, normalizer.init_moments(1)))()
    np.testing.assert_allclose(moments.mean, 1.375, atol=5e-4)
    np.testing.assert_allclose(np.sqrt(moments.variance), np.hypot(0.025, 5.9e-4), rtol=2e-2)


def test_weights():
    x = jnp.array([[1.0], [2.0], [6.0]])
    w = jnp.array([[1.0], [2.0], [1.0]])
    moments = merge(normalizer.init_moments(1), x, w)
    np.testing.assert_allclose(moments.mean, 11 / 4, rtol=1e-6)
    np.testing.assert_allclose(moments.variance, (1.75**2 + 2 * 0.75**2 + 3.25**2) / 4, rtol=1e-6)
    again = merge(moments, jnp.array([[0.0]] * 3), jnp.array([[4.0], [0.0], [0.0]]))
    np.testing.assert_allclose(again.weight, 8.0)
    np.testing.assert_allclose(again.mean, 11 / 8, rtol=1e-6)


def test_rows_of_no_weight_may_hold_anything():
    x = jnp.array([[jnp.nan, 1.0], [2.0, jnp.inf], [4.0, 3.0], [1e30, jnp.nan]])
    w = jnp.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    moments = merge(normalizer.init_moments(2), x, w)
    np.testing.assert_allclose(moments.mean, [3.0, 2.0])
    np.testing.assert_allclose(moments.variance, [1.0, 1.0])


def test_no_weight_at_all_changes_nothing():
    moments = merge(normalizer.init_moments(1), jnp.array([[3.0], [5.0]]), jnp.ones((2, 1)))
    same = merge(moments, jnp.full((4, 1), jnp.nan), jnp.zeros((4, 1)))
    jax.tree.map(np.testing.assert_array_equal, same, moments)
    jax.tree.map(
        np.testing.assert_array_equal,
        merge(normalizer.init_moments(1), x := jnp.zeros((2, 1)), x),
        normalizer.init_moments(1),
    )


# Statistics of episodes


def test_observations_of_valid_episodes_alone():
    modules = line_table(0)
    obs = np.array([[[1.0], [3.0]], [[np.nan], [5.0]], [[7.0], [9.0]]])
    state = update(normalizer.init(1, 1), modules, episodes(obs, valid=[True, False, True]), np.ones((3, 1), bool))
    np.testing.assert_allclose(state.obs.weight, 4)
    np.testing.assert_allclose(state.obs.mean, 5.0)
    np.testing.assert_allclose(state.obs.variance, 10.0)
    assert np.isfinite(state.goal.mean).all()


def test_goal_slots_see_what_is_asked_and_reached_and_nothing_else():
    """Two modules, 3 steps. Episode 0 asks module 0 for 100 and is relevant to module 1 only;
    episode 1 asks module 1 for 200 and is relevant to module 0 only; episode 2 broke."""
    modules = line_table(0, 1)
    time = np.arange(4.0)
    obs = np.stack([np.stack([e * 10 + time, e * 10 + 40 + time], 1) for e in range(3)])
    goal = [[100.0, 0.0], [0.0, 200.0], [np.nan, 0.0]]
    episode = episodes(obs, module=[0, 1, 0], goal=goal, valid=[True, True, False])
    relevant = np.array([[False, True], [True, False], [True, True]])
    state = update(normalizer.init(2, 2), modules, episode, relevant, 0.75)
    # Module 0: outcomes 11, 12, 13 of episode 1 at 0.75 each, goal 100 at 3·0.25. Module 1: 41, 42, 43, and 200.
    expected = [np.average([11, 12, 13, 100]), np.average([41, 42, 43, 200])]
    np.testing.assert_allclose(state.goal.weight, [3.0, 3.0])
    np.testing.assert_allclose(state.goal.mean, expected, rtol=1e-6)
    np.testing.assert_allclose(state.goal.variance, [np.var([11, 12, 13, 100]), np.var([41, 42, 43, 200])], rtol=1e-5)


def test_modules_without_goals_alone():
    modules = ModuleTable((empty_module("high", 0),))
    state = update(normalizer.init(1, 0), modules, episodes([[[1.0], [3.0]]], goal_size=0), np.array([[True]]))
    np.testing.assert_allclose(state.obs.mean, 2.0)
    assert state.goal.mean.shape == (0,)


def test_a_stacks_goal_counts_where_its_cube_is():
    modules, layout = fetch_table("stack")
    obs = jnp.stack([fetch_obs(layout, cube2=(1.0 + i, 0.7, 0.42)) for i in range(3)])
    state = update(normalizer.init(layout.size, 3), modules, episodes(obs[None], goal_size=3), np.array([[False]]))
    np.testing.assert_allclose(state.goal.mean, [3.0, 0.7, 0.475], rtol=1e-6)


# The networks' input


def statistics(obs=(0.0, 1.0), goal=(0.0, 1.0)):
    """Mean and deviation of one observation coordinate and of two goal slots."""
    moments = lambda n, m, s: normalizer.Moments(jnp.ones(n), jnp.full(n, m), jnp.full(n, s**2))  # noqa: E731
    return normalizer.NormalizerState(moments(1, *obs), moments(2, *goal))


def policy_input(state, module, obs=0.0, goal=(0.0, 0.0), config=CONFIG, modules=None):
    modules = modules or line_table(0, 0)
    got = normalizer.policy_input(state, config, modules, jnp.array([obs]), jnp.array(goal), jnp.int32(module))
    return np.asarray(got).tolist()


def test_input_is_observation_goal_descriptor():
    state = statistics(obs=(2.0, 0.5), goal=(1.0, 2.0))
    assert policy_input(state, 1, obs=3.0, goal=(0.0, 4.0)) == [2.0, 0.0, 1.5, 0.0, 1.0]


def test_inactive_slots_are_exactly_zero():
    state = statistics(goal=(1.0, 2.0))  # normalised first, their zeros would read -0.5
    assert policy_input(state, 0, goal=(0.0, 0.0))[1:3] == [-0.5, 0.0]
    assert policy_input(state, 1, goal=(0.0, 0.0))[1:3] == [0.0, -0.5]
    assert policy_input(state, FLAT, goal=(3.0, 5.0))[1:] == [1.0, 2.0, 0.0, 0.0]


def test_floor_and_clip():
    assert policy_input(statistics(obs=(1.0, 1e-4)), 0, obs=1.02)[0] == pytest.approx(2.0, abs=1e-4)  # over 0.01
    assert policy_input(statistics(), 0, obs=5.5)[0] == 5.0
    assert policy_input(statistics(), 0, obs=-7.0)[0] == -5.0
    narrow = NormalizerConfig(std_floor=1.0, clip=0.25)
    assert policy_input(statistics(obs=(0.0, 0.1)), 0, obs=0.2, config=narrow)[0] == pytest.approx(0.2)
    assert policy_input(statistics(obs=(0.0, 0.1)), 0, obs=0.3, config=narrow)[0] == 0.25


def test_off_leaves_inputs_alone():
    config = NormalizerConfig(normalize=False)
    state = statistics(obs=(2.0, 0.5), goal=(1.0, 2.0))
    assert policy_input(state, 1, obs=7.0, goal=(0.0, 4.0), config=config) == [7.0, 0.0, 4.0, 0.0, 1.0]


def test_a_module_without_goal_has_its_descriptor_alone():
    modules = ModuleTable((line_module("a", 0), empty_module("high", 0)))
    state = normalizer.init(1, 1)
    got = normalizer.policy_input(state, CONFIG, modules, jnp.zeros(1), jnp.zeros(1), jnp.int32(1))
    np.testing.assert_array_equal(got, [0.0, 0.0, 0.0, 1.0])
