"""Evaluation: who is evaluated how often, on fresh episodes, without noise, and what counts."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import FaultyEnv, make_run, tiny_config

from curious_jax import errors, evaluation
from curious_jax.learner import normalizer
from curious_jax.learner.state import PolicyParams, init_one, policy_params
from curious_jax.types import Learner

REACH = jnp.zeros(3).at[:2].set(10.0)  # actor of `scripted`: at full gain
IDLE = jnp.zeros(3)


def scripted(run):
    """The run with a learner that moves towards reach's goal with its parameters as gain."""
    size = run.env.obs_size

    def act(gain, inputs):
        delta = inputs[..., size : size + 2] - inputs[..., :2]
        return gain * jnp.concatenate([delta, delta[..., :1]], axis=-1)

    return run._replace(learner=Learner(init=None, act=act, update=None, end_cycle=None))


def policy(run, gain):
    return PolicyParams(gain, normalizer.init(run.env.obs_size, run.env.modules.goal_size))


def make(env=None, worlds=16, **settings):
    run = scripted(make_run(tiny_config(normalize=False, **settings), env))
    return run, evaluation.make_evaluator(run, worlds)


@pytest.fixture(scope="module")
def made():
    return make()


# Figures


def test_the_worst_tenth_of_the_goals():
    found = np.array([1.0, 0.2, 0.9, 0.0, *[1.0] * 16])
    assert evaluation.worst_goals(found, found) == pytest.approx(0.1)
    assert evaluation.worst_goals(found, np.arange(20.0)) == 2.0  # the second and the fourth, by other episodes
    assert evaluation.worst_goals(np.array([0.7, 1.0]), np.array([0.6, 1.0])) == 0.6  # one goal at least


def test_goals_that_are_all_alike_have_no_worst_tenth():
    """By the episodes that found them they would be at about 0.5."""
    rng = np.random.default_rng(0)
    found, judged = rng.binomial(evaluation.TRIES, 0.8, (2, 300, 100)) / evaluation.TRIES
    mean = np.mean([evaluation.worst_goals(*pair) for pair in zip(found, judged, strict=True)])
    assert mean == pytest.approx(0.8, abs=0.01) and np.sort(found, axis=1)[:, :10].mean() < 0.6


def test_goals_that_are_always_missed_are_the_worst(made):
    """A reaching policy without a push: reach is solved for every goal, push for none."""
    run = made[0]
    measure = evaluation.make_worst_case(run, 15)  # rounded up to whole tens
    (found,) = measure(policy(run, REACH), evaluation.evaluation_key(0, 0))
    assert found["reach"] == 1.0 and found["push"] < 0.2 and set(found) == {"reach", "push"}


def test_more_goals_than_worlds_are_tried_in_turn(made, monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_WORLDS", 10)
    run = made[0]
    rates = []
    monkeypatch.setattr(evaluation, "worst_goals", lambda found, judged: rates.append(found) or 0.0)
    evaluation.make_worst_case(run, 21)(policy(run, REACH), evaluation.evaluation_key(0, 0))
    assert [len(found) for found in rates] == [30, 30]  # each module's, in three parts of ten worlds


def test_worst_goals_are_tried_in_episodes_of_their_own(monkeypatch):
    """Two seeds, two modules, 20 goals in ten worlds: no trial is another's, each goal is the same in all of its own.

    In place of an episode its key's number stands, and then its goal's, both moved by the sensor's offset.
    """
    monkeypatch.setattr(evaluation, "MAX_WORLDS", 10)
    run = scripted(make_run(tiny_config(normalize=False, num_seeds=2)))
    tried = []
    monkeypatch.setattr(evaluation, "worst_goals", lambda *rates: tried.append(np.array(rates)) or 0.0)

    def measure(show):
        def collect(policy, env, config, key, module, exploring, offset, propose):
            goal = propose(module, jnp.zeros((10, run.env.obs_size)), None)
            return SimpleNamespace(success=show(key, goal) + offset), jnp.array(False)

        monkeypatch.setattr(evaluation.rollout, "collect", collect)
        tried.clear()
        keys = jnp.stack([evaluation.evaluation_key(s, 0) for s in (0, 1)])
        two = jax.tree.map(lambda x: jnp.stack([x, x]), policy(run, IDLE))
        evaluation.make_worst_case(run, 20)(two, keys, jnp.float32(5.0))
        return np.stack(tried)  # [modules and seeds, found and judged, goals]

    by_key = measure(lambda key, goal: jax.random.uniform(key, (10,)))
    assert by_key.shape == (4, 2, 20) and len(np.unique(by_key)) == by_key.size
    by_goal = measure(lambda key, goal: goal.sum(axis=1))
    np.testing.assert_array_equal(by_goal[:, 0], by_goal[:, 1])
    assert len(np.unique(by_goal[:, 0])) == 4 * 20 and (by_goal >= 4.0).all() and (by_goal <= 6.0).all()


def test_rates_and_mean():
    result = evaluation.Result({"reach": 8, "push": 0}, {"reach": 10, "push": 20})
    assert result.rate == {"reach": 0.8, "push": 0.0}
    assert result.mean == pytest.approx(0.4)  # of the modules, whatever their episodes


def test_keys_are_a_function_of_seed_and_episodes():
    keys = [
        evaluation.evaluation_key(*arguments)
        for arguments in [(0, 0), (1, 0), (0, 950), (0, 2**31 + 7), (0, 0, 0xC0F1), (0, 950, 0xC0F1)]
    ]
    data = {tuple(np.asarray(jax.random.key_data(k)).tolist()) for k in keys}
    assert len(data) == len(keys)
    again = evaluation.evaluation_key(0, 950)
    assert jnp.array_equal(jax.random.key_data(again), jax.random.key_data(keys[2]))


# Episodes


def test_episodes_are_spread_evenly_over_achievable_modules(made):
    run, evaluate = made
    for wanted, reach, push in [(1, 8, 8), (16, 8, 8), (17, 16, 16)]:  # whole batches of 16
        (result,) = evaluate(policy(run, IDLE), jax.random.key(0), wanted)
        assert result.episodes == {"reach": reach, "push": push}  # and none of the distractor


def test_uneven_batches_differ_by_one_episode():
    run, evaluate = make(worlds=95, modules=("reach", "push", "push2", "push3"))
    (result,) = evaluate(policy(run, IDLE), jax.random.key(0), 95)
    assert list(result.episodes.values()) == [24, 24, 24, 23]


def test_success_is_the_policys(made):
    run, evaluate = made
    (good,) = evaluate(policy(run, REACH), jax.random.key(0), 64)
    assert good.rate["reach"] == 1.0
    assert good.rate["push"] < 0.5
    (idle,) = evaluate(policy(run, IDLE), jax.random.key(0), 640)
    assert idle.rate["reach"] == pytest.approx(np.pi * 0.1**2, abs=0.03)  # goals that lie at the start


def test_same_key_same_figures_and_no_noise(made):
    """Of 32 goals approached slowly, random actions in 30 % of the steps would miss some."""
    run, evaluate = made
    results = [evaluate(policy(run, 0.4 * REACH), jax.random.key(3), 64)[0] for _ in range(2)]
    assert results[0] == results[1]
    assert results[0].rate["reach"] == 1.0


def test_every_batch_has_fresh_goals(made):
    run, evaluate = made
    (idle,) = evaluate(policy(run, IDLE), jax.random.key(1), 1600)
    assert idle.successes["reach"] % 100 != 0  # 100 batches of the same 8 would be


def test_several_seeds_have_a_result_each():
    run, evaluate = make(num_seeds=2)
    two = jax.tree.map(lambda *x: jnp.stack(x), policy(run, REACH), policy(run, IDLE))
    keys = jnp.stack([evaluation.evaluation_key(s, 0) for s in (0, 1)])
    good, idle = evaluate(two, keys, 64)
    assert good.rate["reach"] == 1.0
    assert idle.rate["reach"] < 0.3


def test_a_broken_world_is_a_failure(made):
    run, evaluate = make(FaultyEnv(made[0].env))
    (result,) = evaluate(policy(run, REACH), jax.random.key(0), 320)
    assert result.rate["reach"] == pytest.approx(0.7, abs=0.15)
    assert result.episodes["reach"] == 160


def test_an_episode_that_lost_contacts_is_a_failure_and_many_stop_the_evaluation(made):
    few, many = (FaultyEnv(made[0].env, value=None, share=share, overflows=True) for share in (0.02, 0.2))
    run, evaluate = make(few)
    (result,) = evaluate(policy(run, REACH), jax.random.key(0), 320)
    assert 1 - evaluation.OVERFLOW_SHARE <= result.rate["reach"] < 1
    run, evaluate = make(many)
    with pytest.raises(errors.OverflowedBuffers, match=r"lost contacts in \d+ of 320 episodes"):
        evaluate(policy(run, REACH), jax.random.key(0), 320)


def test_evaluate_takes_one_seeds_policy():
    config = tiny_config(num_seeds=3)
    run = make_run(config)
    one = policy_params(jax.jit(lambda seed: init_one(run, seed))(0))
    result = evaluation.evaluate(config, run.env, one, jax.random.key(0), 10)
    assert result.episodes == {"reach": 5, "push": 5}
    result = evaluation.evaluate(config, run.env, one, jax.random.key(0), 1)
    assert result.episodes == {"reach": 1, "push": 1}  # a module without any has no rate
    assert 0 <= result.mean <= 1


def test_evaluation_leaves_the_policy_alone(made):
    run, evaluate = made
    frozen = policy(run, REACH)
    before = jax.tree.map(np.array, frozen)
    evaluate(frozen, jax.random.key(0), 16)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.map(np.asarray, frozen), before)
