"""Competence, learning progress and module choice, against windows worked by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_uniform

from curious_jax.config import CurriculumConfig
from curious_jax.learner import curriculum
from curious_jax.types import FLAT

UNIFORM = np.full(4, 0.25)
update = jax.jit(curriculum.update)
competence_and_progress = jax.jit(curriculum.competence_and_progress)


def windows(results, window, num_modules=1, chunk=None):
    """A state that saw these results of module 0, all in one cycle or so many a cycle."""
    state = curriculum.init(num_modules, CurriculumConfig(window=window))
    chunk = chunk or max(len(results), 1)
    for i in range(0, len(results), chunk):
        part = jnp.array(results[i : i + chunk], bool)
        state = update(state, jnp.zeros(len(part), jnp.int32), part, jnp.ones(len(part), bool))
    return state


def c_and_lp(state, module=0):
    competence, progress = competence_and_progress(state)
    return pytest.approx((float(competence[module]), float(progress[module])), abs=1e-6)


# p_LP


def test_probabilities_of_one_progressing_module():
    p = curriculum.probabilities(jnp.array([0.4, 0.0, 0.0, 0.0]), 0.4)
    np.testing.assert_allclose(p, [0.7, 0.1, 0.1, 0.1], atol=1e-6)


def test_falling_competence_counts_as_much_as_rising():
    p = curriculum.probabilities(jnp.array([0.1, -0.3, 0.0]), 0.4)
    # 0.4/3 + 0.6·(1/4, 3/4, 0)
    np.testing.assert_allclose(p, [0.28333, 0.58333, 0.13333], atol=1e-5)


@pytest.mark.parametrize("bad", [0.0, jnp.nan, jnp.inf, -jnp.inf])
def test_no_usable_progress_is_uniform(bad):
    np.testing.assert_allclose(curriculum.probabilities(jnp.full(4, bad), 0.4), UNIFORM, atol=1e-7)
    mixed = jnp.array([0.4, bad, 0.2, 0.0])
    if bad != 0.0:
        np.testing.assert_allclose(curriculum.probabilities(mixed, 0.4), UNIFORM, atol=1e-7)


def test_epsilon_one_is_uniform_and_zero_is_all_progress():
    progress = jnp.array([0.4, 0.1, 0.0, -0.5])
    np.testing.assert_allclose(curriculum.probabilities(progress, 1.0), UNIFORM, atol=1e-7)
    np.testing.assert_allclose(curriculum.probabilities(progress, 0.0), [0.4, 0.1, 0.0, 0.5], atol=1e-6)


def test_replay_probabilities_cover_only_modules_with_episodes():
    progress = jnp.array([0.3, 0.1, 0.6, 0.0])
    p = curriculum.probabilities(progress, 0.4, jnp.array([True, True, False, False]))
    # 0.4/2 + 0.6·(3/4, 1/4) over the two that have episodes
    np.testing.assert_allclose(p, [0.65, 0.35, 0.0, 0.0], atol=1e-6)


def test_replay_ignores_the_progress_of_modules_without_episodes():
    p = curriculum.probabilities(jnp.array([0.0, 0.0, jnp.nan, 0.9]), 0.4, jnp.array([True, True, False, False]))
    np.testing.assert_allclose(p, [0.5, 0.5, 0.0, 0.0], atol=1e-7)
    nobody = curriculum.probabilities(progress=jnp.array([0.3, 0.1, 0.6, 0.0]), epsilon=1.0, valid=jnp.zeros(4, bool))
    np.testing.assert_allclose(nobody, UNIFORM, atol=1e-7)


def test_muvfa_is_uniform_whatever_the_progress():
    state = windows([0, 0, 0, 1, 1, 1], 3, num_modules=4)
    config = CurriculumConfig(window=3)
    assert curriculum.module_probabilities(state, config, lp=True)[0] > 0.6
    np.testing.assert_allclose(curriculum.module_probabilities(state, config, lp=False), UNIFORM, atol=1e-7)


# Windows


def test_full_windows():
    # l = 3: newest three 1 1 0, the three before 0 0 1, what was before them forgotten.
    assert (2 / 3, 1 / 3) == c_and_lp(windows([1, 1, 1, 1, 0, 0, 1, 1, 1, 0], 3, chunk=5))


def test_short_windows_halve_what_there_is():
    # n = 5 < 2l: l becomes 2; newest two 1 1, two before 0 1, the first left out.
    assert (1.0, 0.5) == c_and_lp(windows([1, 0, 1, 1, 1], 10))
    # n = 3: l becomes 1.
    assert (0.0, -1.0) == c_and_lp(windows([0, 1, 0], 10))


@pytest.mark.parametrize("results", [[], [1], [1, 1]])
def test_fewer_than_three_results_say_nothing(results):
    assert (0.0, 0.0) == c_and_lp(windows(results, 10))


def test_falling_competence_is_negative_progress():
    assert (0.0, -1.0) == c_and_lp(windows([1, 1, 1, 0, 0, 0], 3))


@pytest.mark.parametrize("chunk", [1, 5, 7, 40])
def test_results_count_in_order_however_many_come_in_one_cycle(chunk):
    # 40 results against a ring of 6: more than 2l at once with chunks of 7 and 40.
    results = np.random.default_rng(0).integers(0, 2, 40)
    state = windows(results, 3, chunk=chunk)
    recent, before = results[-3:].mean(), results[-6:-3].mean()
    assert (recent, recent - before) == c_and_lp(state)


def test_only_counted_results_of_the_right_module_enter():
    state = curriculum.init(3, CurriculumConfig(window=2))
    module = jnp.array([2, 0, 2, 0, 2, 2, 2], jnp.int32)
    success = jnp.array([1, 1, 0, 1, 1, 1, 0], bool)
    counted = jnp.array([1, 0, 1, 0, 1, 1, 0], bool)
    state = update(state, module, success, counted)
    np.testing.assert_array_equal(state.count, [0, 0, 4])
    assert (1.0, 0.5) == c_and_lp(state, 2)  # 1 0 | 1 1
    assert (0.0, 0.0) == c_and_lp(state, 0)


def test_against_a_list_of_results_over_many_cycles():
    rng = np.random.default_rng(1)
    state = curriculum.init(3, CurriculumConfig(window=4))
    seen = [[], [], []]
    for _ in range(60):
        module, success, counted = rng.integers(0, 3, 9), rng.random(9) < 0.5, rng.random(9) < 0.4
        state = update(state, jnp.asarray(module, jnp.int32), jnp.asarray(success), jnp.asarray(counted))
        for m, s, c in zip(module, success, counted, strict=True):
            if c:
                seen[m].append(float(s))
        for m in range(3):
            held = seen[m][-8:]
            half = len(held) // 2
            c = np.mean(held[-half:]) if len(held) >= 3 else 0.0
            lp = c - np.mean(held[-2 * half : -half]) if len(held) >= 3 else 0.0
            assert (c, lp) == c_and_lp(state, m)


# Choice


def test_self_evaluations_are_uniform_and_the_others_follow_p():
    state = windows([0, 0, 0, 1, 1, 1], 3, num_modules=4)
    config = CurriculumConfig(window=3)
    module, flag = jax.jit(lambda k: curriculum.choose(state, config, k, 20_000))(jax.random.key(0))
    assert module.dtype == jnp.int32
    assert_uniform(flag, [True, False], [0.1, 0.9])
    assert_uniform(module[flag], range(4))
    assert_uniform(module[~flag], range(4), [0.7, 0.1, 0.1, 0.1])


def test_muvfa_chooses_uniformly():
    state = windows([0, 0, 0, 1, 1, 1], 3, num_modules=4)
    module, _ = curriculum.choose(state, CurriculumConfig(window=3, selection="uniform"), jax.random.key(1), 20_000)
    assert_uniform(module, range(4))


def test_the_flat_goals_results_enter_every_window():
    state = curriculum.init(3, CurriculumConfig(window=4))
    module, success = jnp.array([FLAT, 1, FLAT]), jnp.array([True, True, False])
    state = update(state, module, success, jnp.array([True, True, True]))
    np.testing.assert_array_equal(state.count, [2, 3, 2])
    np.testing.assert_array_equal(state.results[:, :3], [[1, 0, 0], [1, 1, 0], [1, 0, 0]])


def test_a_window_may_be_given_by_the_episodes_that_it_spans():
    span = CurriculumConfig(window=300, window_span=400, self_evaluation=0.1)
    assert curriculum.window(4, span) == 10  # a tenth of 400 are self-evaluations, of four modules
    assert curriculum.window(100, span) == 2  # the fewest that have a half
    assert curriculum.window(4, CurriculumConfig(window=300)) == 300
