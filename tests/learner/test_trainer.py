"""The compiled cycle as a whole: compiled once, repeatable, fresh every episode, and blind to broken worlds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import FaultyEnv, assert_same, assert_uniform, make_run, run_cycles, tiny_config

from curious_jax.config import HindsightConfig
from curious_jax.learner import hindsight, replay, trainer
from curious_jax.learner.state import acting_params, init_one, make_policy, no_metrics, policy_params

CYCLES = 20


def compiled(run):
    """(state, cycles, sums so far: none) -> (state, sums)."""

    epoch = jax.jit(lambda state, total, cycles: trainer.train_epoch(run, state, total, cycles))
    return lambda state, cycles, total=None: epoch(state, total or no_metrics(run.config), cycles)


@pytest.fixture(scope="module")
def run():
    return make_run(tiny_config())


@pytest.fixture(scope="module")
def epoch(run):
    return compiled(run)


@pytest.fixture(scope="module")
def init(run):
    """seed -> the state before training."""
    return jax.jit(lambda seed: init_one(run, seed))


@pytest.fixture(scope="module")
def trained(init, epoch):
    """State and metrics after 20 cycles of 8 episodes: the store holds them all."""
    return epoch(init(0), CYCLES)


def finite(tree):
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree))


# Compilation and repetition


def test_two_epochs_of_different_length_trace_once(run, epoch, trained):
    before = run.env.traces.step
    assert before > 0
    state, _ = epoch(trained[0], 1)
    state, _ = epoch(state, 3)
    assert run.env.traces.step == before
    assert int(state.cycle) == CYCLES + 4


def test_same_seed_same_run(init, epoch, trained):
    again = epoch(init(0), CYCLES)
    assert_same(again, trained)


def test_another_seed_another_run(init, epoch, trained):
    other, metrics = epoch(init(1), CYCLES)
    assert not np.array_equal(other.replay.obs[0], trained[0].replay.obs[0])
    assert float(metrics.critic_loss) != float(trained[1].critic_loss)


def test_the_policy_that_is_kept_is_a_running_average_of_the_actor(init, epoch, trained):
    """It moves by a quarter of its distance from the actor in each cycle, and what is learned does not depend on it."""
    rate = 0.25
    run = make_run(tiny_config(policy_average=rate))
    averaging, state = compiled(run), jax.jit(lambda seed: init_one(run, seed))(0)
    assert_same(policy_params(state), acting_params(state))
    expected = acting_params(state).actor
    for _ in range(3):
        state, _ = averaging(state, 1)
        actor = acting_params(state).actor
        expected = jax.tree.map(lambda old, new: old + rate * (new - old), expected, actor)
    assert_close(policy_params(state).actor, expected)
    assert not np.allclose(*(jax.tree.leaves(tree)[-1] for tree in (expected, actor)), atol=1e-6)
    plain, _ = epoch(init(0), 3)
    assert jax.tree.leaves(plain.average) == []
    assert_same(policy_params(plain), acting_params(plain))
    assert_close(state.replay.obs, plain.replay.obs)
    assert_close(actor, plain.learner.actor)


def assert_close(found, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found, expected)


def test_an_epoch_is_its_cycles(init, epoch):
    """Two cycles and three are five, bit for bit, the sums carried on included."""
    whole, all_metrics = epoch(init(0), 5)
    two, first = epoch(init(0), 2)
    three, both = epoch(two, 3, first)
    assert_same(three, whole)
    assert_same(both, all_metrics)
    assert 0 < float(first.critic_loss) < float(both.critic_loss)


# Episodes


def test_all_is_drawn_anew_every_episode(trained):
    """8 environments, 20 episodes each: 160 goals, 160 starts, modules that follow no pattern."""
    store = trained[0].replay
    assert int(store.size) == 160
    assert len(np.unique(store.goal, axis=0)) == 160
    assert len(np.unique(store.obs[:, 0], axis=0)) == 160
    module = np.asarray(store.module).reshape(CYCLES, 8)
    assert len(np.unique(module, axis=0)) > CYCLES // 2  # p_LP may favour one, so that two cycles can be alike
    assert (module.max(axis=0) > module.min(axis=0)).all()  # no environment is stuck with one


def test_every_episode_enters_store_and_statistics(run, trained):
    """Self-evaluations too: all 160 are there."""
    state, metrics = trained
    steps = run.env.episode_length + 1
    np.testing.assert_array_equal(state.normalizer.obs.weight, 160 * steps)
    seen = np.asarray(state.replay.obs, np.float64)
    np.testing.assert_allclose(state.normalizer.obs.mean, seen.mean(axis=(0, 1)), atol=1e-5)
    np.testing.assert_allclose(state.normalizer.obs.variance, seen.var(axis=(0, 1)), atol=1e-5)
    assert int(metrics.invalid) == 0 and int(metrics.overflow) == 0
    assert int(state.cycle) == CYCLES


def test_relevance_is_kept_with_the_episodes(run, trained):
    store = trained[0].replay
    moved = jnp.abs(store.obs[:, -1] - store.obs[:, 0]) > 1e-3
    expected = jnp.stack([moved[:, :2].any(1), moved[:, 2:4].any(1), moved[:, 6:8].any(1)], axis=1)
    np.testing.assert_array_equal(store.relevant, expected)
    np.testing.assert_array_equal(store.count, expected.sum(axis=0))
    assert 0 < int(store.count[1]) < 160  # some episodes move the object, some do not


def test_networks_see_observation_goal_and_descriptor(run, init):
    state = init(0)
    kernel = state.learner.critic["params"]["MLP_0"]["Dense_0"]["kernel"]
    assert kernel.shape[0] == run.env.obs_size + 2 * 3 + 3 + run.env.action_size
    act = jax.jit(make_policy(run, policy_params(state)))
    action = act(jnp.zeros((5, run.env.obs_size)), jnp.zeros((5, 6)), jnp.zeros(5, jnp.int32))
    assert action.shape == (5, run.env.action_size)


# Uniform choice, alone and side by side


def uniform_epoch(algorithm):
    """The compiled epoch of a run whose every choice is uniform."""
    return compiled(make_run(tiny_config(algorithm=algorithm, epsilon=1.0)))


@pytest.fixture(scope="module")
def muvfa():
    return uniform_epoch("muvfa")


@pytest.mark.slow
def test_epsilon_one_is_uniform(init, muvfa):
    """CURIOUS with nothing but uniform choice is M-UVFA, bit for bit."""
    states = [epoch(init(0), CYCLES)[0] for epoch in (muvfa, uniform_epoch("curious"))]
    assert_same(*states)
    assert int(states[0].curriculum.count.sum()) > 3  # there were results that could have mattered
    assert_uniform(states[0].replay.module, range(3))


def test_vmapped_seeds_draw_what_each_draws_alone(init, muvfa):
    """Modules, goals and starts, over three cycles. With uniform choice, since parameters drift apart."""
    config = tiny_config(algorithm="muvfa", epsilon=1.0, seed=5, num_seeds=2)
    run = make_run(config)
    both, metrics = compiled(run)(trainer.init(config, run.env), 3)
    assert metrics.critic_loss.shape == metrics.invalid.shape == (2,)
    alone, _ = muvfa(init(6), 3)
    second = jax.tree.map(lambda x: x[1], both)
    assert_same(second.key, alone.key)
    for name in ("module", "goal"):
        np.testing.assert_array_equal(getattr(second.replay, name)[:24], getattr(alone.replay, name)[:24])
    np.testing.assert_array_equal(second.replay.obs[:24, 0], alone.replay.obs[:24, 0])
    np.testing.assert_allclose(second.replay.obs[:8], alone.replay.obs[:8], atol=1e-5)  # the first cycle whole
    assert not np.array_equal(both.replay.obs[0, 0, 0], both.replay.obs[1, 0, 0])


# One module


@pytest.fixture(scope="module")
def one_module():
    """CURIOUS with one module, 160 episodes."""
    config = tiny_config(modules=("reach",), distractors=0)
    run = make_run(config)
    return run, *run_cycles(run, trainer.init(config, run.env), CYCLES)


def test_one_module_equals_plain_her(one_module):
    """Every choice is that module, every episode is drawn from, and goals are own ones or later outcomes (4 : 1)."""
    run, state, record = one_module
    store = state.replay
    np.testing.assert_array_equal(record.p, 1.0)
    np.testing.assert_array_equal(store.module, 0)
    assert int(store.count[0]) == int(store.size) == 160

    batch = replay.batch_modules(jnp.ones(1), 20_000)
    np.testing.assert_array_equal(batch, 0)
    slot, t = replay.sample(store, jax.random.key(0), batch)
    assert_uniform(slot, range(160))
    made = hindsight.substitute(store, run.env.modules, HindsightConfig(), jax.random.key(1), batch, slot, t)
    own = np.asarray((made.goal == store.goal[slot]).all(axis=1))
    assert_uniform(own, [True, False], [0.2, 0.8])
    outcomes = np.asarray(store.obs[:, :, :2])[np.asarray(slot)]
    later = (outcomes == np.asarray(made.goal)[:, None]).all(axis=2) & (np.arange(21) > np.asarray(t)[:, None])
    assert (later.any(axis=1) | own).all()
    distance = np.linalg.norm(np.asarray(made.next_obs)[:, :2] - np.asarray(made.goal), axis=1)
    np.testing.assert_array_equal(made.reward, np.where(distance < 0.1, 0.0, -1.0))


# Broken worlds


def test_a_broken_world_enters_nothing_and_is_counted():
    """Every episode is a self-evaluation, so that the windows would see the broken ones too."""
    config = tiny_config(self_evaluation=1.0, window=100)
    run = make_run(config, FaultyEnv(make_run(config).env))
    state, metrics = compiled(run)(trainer.init(config, run.env), CYCLES)
    broken = int(metrics.invalid)
    assert 0.15 * 160 < broken < 0.45 * 160  # a share of 0.3
    sound = 160 - broken
    assert int(state.replay.size) == sound
    assert int(state.curriculum.count.sum()) == sound
    np.testing.assert_array_equal(state.normalizer.obs.weight, sound * 21)
    assert finite((state.replay, state.normalizer, state.curriculum, state.learner, metrics))
    held = np.asarray(state.replay.obs[:sound])
    assert np.abs(held).max() < 100 and (held[:, 0, 6] >= 1.0).all()  # real episodes, no zeros


def test_nothing_is_learned_while_every_episode_was_invalid():
    """One cycle of broken worlds alone: the store is empty, and the learner is what it was."""
    config = tiny_config()
    run = make_run(config, FaultyEnv(make_run(config).env, share=1.1))
    before = trainer.init(config, run.env)
    state, metrics = compiled(run)(before, 1)
    assert int(metrics.invalid) == 8 and int(state.replay.size) == 0 and int(state.cycle) == 1
    assert_same(state.learner, before.learner)
    np.testing.assert_array_equal([metrics.critic_loss, metrics.actor_loss, metrics.q_mean], 0.0)
