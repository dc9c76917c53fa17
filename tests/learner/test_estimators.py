"""The estimators: values worked by hand, and for each the property that makes it what it is."""

import dataclasses
import functools
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_same, episodes, line_module, line_table, make_run, tiny_config

from curious_jax.config import NormalizerConfig, SettingError, make_config
from curious_jax.config.fields import ESTIMATORS
from curious_jax.errors import ConfigError
from curious_jax.learner import curriculum, estimators, feedback, success_model, trainer
from curious_jax.learner.estimators import Results, bayes, ema, plr, windows
from curious_jax.learner.estimators import model as learned
from curious_jax.learner.state import init_one
from curious_jax.learner.success_model import SuccessModel
from envs.modules import ModuleTable

WINDOW = 20


def results(module, success, self_evaluation=True, valid=True, td_error=0.0, cycle=0, goal=None, num_modules=3):
    """Results of a cycle with these modules and successes, one environment each."""
    module = jnp.asarray(module, jnp.int32)
    wide = lambda x, dtype: jnp.broadcast_to(jnp.asarray(x, dtype), module.shape)  # noqa: E731
    number = len(module)
    return Results(
        module=module,
        goal=jnp.zeros((number, num_modules)) if goal is None else goal,
        success=wide(success, bool),
        self_evaluation=wide(self_evaluation, bool),
        valid=wide(valid, bool),
        first=jnp.zeros((number, 3)),
        reached=jnp.zeros((number, num_modules)),
        relevant=jnp.ones((number, num_modules), bool),
        td_error=wide(td_error, jnp.float32),
        key=jax.random.key(cycle),
        cycle=jnp.int32(cycle),
    )


def config(name, **settings):
    return make_config(world="point", estimator=name, window=WINDOW, **settings)


def make(name, **settings):
    return estimators.make(config(name, **settings), line_table(0, 1, 2))


def live(name, probability, cycles=60, **settings):
    """Lets an estimator see cycles of 12 self-evaluations, whose success probabilities [M] the function gives.

    Returns its scores and predictions after each cycle [cycles, M], and the shares p that a run would draw from.
    """
    settings_of_run = config(name, **settings)
    estimator, rng = make(name, **settings), np.random.default_rng(0)
    state = estimator.init(jax.random.key(0))
    held = curriculum.init(3, settings_of_run.curriculum)

    @jax.jit
    def step(state, held, shown):
        held = curriculum.update(held, shown.module, shown.success, shown.self_evaluation & shown.valid)
        state = estimator.update(state, shown)
        worth = curriculum.Worth(estimator.scores(state, held), estimator.epsilon)
        p = curriculum.module_probabilities(held, settings_of_run.curriculum, lp=True, worth=worth)
        return state, held, (worth.scores, estimator.predict(state, held), p)

    module, found = np.arange(12) % 3, []
    for cycle in range(cycles):
        p = np.asarray(probability(cycle / cycles))
        success = rng.random(12) < p[module]
        goal = jnp.asarray(np.eye(3)[module] * rng.random((12, 1)), jnp.float32)
        state, held, seen = step(state, held, results(module, success, td_error=p[module], cycle=cycle, goal=goal))
        found.append(seen)
    return tuple(np.array(x) for x in zip(*found))


def test_config_and_registry_know_the_same_names():
    assert set(estimators._MAKERS) == set(ESTIMATORS)
    assert make_config().curriculum.estimator == "competence"


@pytest.mark.parametrize("modules", [("reach", "push1"), ("reach", "push")])
@pytest.mark.parametrize("order", [("push1", "reach"), ("push", "reach")])
def test_the_order_may_name_a_module_by_either_of_its_names(modules, order):
    settings = make_config(world="point", modules=modules, estimator="order", order=order, distractors=1)
    made = estimators.make(settings, make_run(settings).env.modules)
    np.testing.assert_array_equal(made.scores((), curriculum.init(3, settings.curriculum)), [0.0, 1.0, 0.0])


def test_an_order_of_modules_that_are_not_there_is_refused():
    for order in (("push", "push1"), ("push11",), ("drag1",)):
        with pytest.raises(SettingError, match="each once, among reach, push1"):
            make_config(world="point", modules=("reach", "push1"), estimator="order", order=order)


# Values by hand


def test_the_papers_estimator_gives_the_papers_shares():
    held = curriculum.init(3, dataclasses.replace(make_config().curriculum, window=2))
    module, success = jnp.array([0, 0, 0, 0, 1, 1, 1, 1]), jnp.array([0, 0, 1, 1, 1, 0, 0, 1], bool)
    held = curriculum.update(held, module, success, jnp.ones(8, bool))
    estimator = make("competence")
    np.testing.assert_allclose(estimator.scores((), held), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(estimator.predict((), held), [1.0, 0.5, 0.0])
    paper = curriculum.module_probabilities(held, make_config().curriculum, lp=True)
    worth = curriculum.Worth(estimator.scores((), held), estimator.epsilon)
    np.testing.assert_array_equal(
        curriculum.module_probabilities(held, make_config().curriculum, lp=True, worth=worth), paper
    )


def test_learnability_is_the_variance_of_success():
    held = curriculum.init(3, dataclasses.replace(make_config().curriculum, window=4))
    module = jnp.repeat(jnp.arange(3), 8)
    success = jnp.array([0] * 8 + [0] * 4 + [1, 0, 0, 0] + [1] * 8, bool)
    held = curriculum.update(held, module, success, jnp.ones(24, bool))
    np.testing.assert_allclose(make("learnability").scores((), held), [0.0, 0.25 * 0.75, 0.0])


def test_reweighting_keeps_the_ends_and_magnifies_small_successes():
    # p(1 - 0.1) / (p + 0.1(1 - 2p)): 0.1·0.9/0.18, 0.5·0.9/0.5
    np.testing.assert_allclose(ema.reweight(jnp.array([0.0, 0.1, 0.5, 1.0])), [0.0, 0.5, 0.9, 1.0], atol=1e-6)


def test_moving_averages_follow_each_other():
    estimator, rate = make("ema"), 2 / (WINDOW + 1)
    state = estimator.update(estimator.init(jax.random.key(0)), results([0, 0, 1], [1, 0, 1]))
    # Both start at a module's first rate: what is solved already is no progress.
    np.testing.assert_allclose([state.fast, state.slow], [[0.5, 1.0, 0.0]] * 2, rtol=1e-5)
    state = estimator.update(state, results([0, 0, 1, 2], [1, 1, 0, 0]))
    kept = (1 - rate) ** 2
    fast = [kept * 0.5 + 1 - kept, 1 - rate, 0.0]
    np.testing.assert_allclose(state.fast, fast, rtol=1e-5)
    np.testing.assert_allclose(
        state.slow, [kept * 0.5 + (1 - kept) * fast[0], 1 - rate + rate * fast[1], 0.0], rtol=1e-5
    )
    # Other episodes than valid self-evaluations change nothing.
    for ignored in ({"self_evaluation": False}, {"valid": False}):
        assert_same(estimator.update(state, results([0, 1], [1, 1], **ignored)), state)


def test_the_expected_change_of_two_beta_variables():
    rng = np.random.default_rng(0)
    now, before = jnp.array([18.0, 2.0]), jnp.array([5.0, 15.0])
    sampled = np.abs(rng.beta(19, 3, 200_000) - rng.beta(6, 16, 200_000)).mean()
    # Of equal means it is sqrt(2/π) s, with s² = 19·3/(22²·23) + 6·16/(22²·23) here.
    chance = math.sqrt(2 / math.pi * (19 * 3 + 6 * 16) / (22**2 * 23))
    assert float(bayes.expected_change(now, before)) == pytest.approx(sampled - chance, abs=2e-3)
    for evidence in (jnp.zeros(2), jnp.array([0.0, 30.0]), jnp.array([15.0, 15.0])):
        assert float(bayes.expected_change(evidence, evidence)) == pytest.approx(0.0, abs=1e-6)


def test_evidence_fades_with_every_result():
    estimator, kept = make("bayes"), 1 - 1 / WINDOW
    state = estimator.update(estimator.init(jax.random.key(0)), results([0], [1]))
    state = estimator.update(state, results([0, 1], [0, 1]))
    np.testing.assert_allclose(state.now, [[kept, 1.0], [1.0, 0.0], [0.0, 0.0]], rtol=1e-5)
    # The results before follow what is known now: 0.05·(1, 0), then 0.95·(0.05, 0) + 0.05·(0.95, 1).
    np.testing.assert_allclose(state.before, [[0.095, 0.05], [0.05, 0.0], [0.0, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(estimator.predict(state, None), [(kept + 1) / (kept + 3), 2 / 3, 1 / 2], rtol=1e-5)


def test_level_replay_goes_by_rank_and_staleness():
    # Ranks 2, 1, 3 to the power of -10; the third was not drawn for 3 cycles, the first for 1.
    by_rank = np.array([2.0**-10, 1.0, 3.0**-10])
    expected = 0.7 * by_rank / by_rank.sum() + 0.3 * np.array([0.25, 0.0, 0.75])
    found = plr.weights(jnp.array([0.2, 0.9, 0.1]), jnp.array([1.0, 0.0, 3.0]))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    estimator = make("plr")
    state = estimator.init(jax.random.key(0))
    shown = results([0, 0, 1, 1], 0, self_evaluation=[0, 0, 0, 1], td_error=[1.0, 3.0, 5.0, 99.0])
    state = estimator.update(state, shown)
    np.testing.assert_allclose(state.score, [2.0, 5.0, np.inf])  # the last comes first until it is seen
    np.testing.assert_allclose(state.stale, [0.0, 0.0, 1.0])
    assert np.argmax(estimator.scores(state, None)) == 2 and estimator.epsilon == 0.0
    broken = estimator.update(state, results([0, 2], 0, self_evaluation=False, valid=False, td_error=np.nan))
    np.testing.assert_allclose(broken.score, [2.0, 5.0, np.inf])  # as if these episodes had not been
    np.testing.assert_allclose(broken.stale, [1.0, 1.0, 2.0])


def test_an_order_takes_the_next_module_once_one_is_mastered():
    def scores(held, *names):
        chosen = SimpleNamespace(curriculum=SimpleNamespace(order=names))
        return windows.order(chosen, line_table(0, 1, 2)).scores((), held)

    held = curriculum.init(3, dataclasses.replace(make_config().curriculum, window=4))
    np.testing.assert_allclose(scores(held), [1.0, 0.0, 0.0])  # as the modules stand
    np.testing.assert_allclose(scores(held, "b", "c"), [0.0, 1.0, 0.0])
    held = curriculum.update(held, jnp.ones(8, jnp.int32), jnp.ones(8, bool), jnp.ones(8, bool))
    np.testing.assert_allclose(scores(held, "b", "c"), [0.0, 0.0, 1.0])
    np.testing.assert_allclose(scores(held, "b"), [1.0, 1.0, 1.0])  # uniform once all are mastered


def test_the_copies_of_the_model_are_one_and_two_lags_old(monkeypatch):
    """K is 5: after 11 cycles one copy is of the network after 10, the other of that after 5."""
    count_up = lambda self, state, *shown: state.replace(params=jax.tree.map(lambda x: x + 1.0, state.params))  # noqa: E731
    monkeypatch.setattr(SuccessModel, "learn", count_up)
    estimator = make("model", preset="cpu", self_evaluation=0.1, num_envs=120)  # 20 results of 3 modules, 12 a cycle
    first = estimator.init(jax.random.key(0))
    state = first.replace(model=first.model.replace(params=jnp.float32(0)), newer=jnp.float32(0), older=jnp.float32(0))
    for cycle in range(11):
        state = estimator.update(state, results([0], 1, cycle=cycle))
    assert [float(x) for x in (state.model.params, state.newer, state.older)] == [11.0, 10.0, 5.0]
    assert int(state.copies) == 2


def test_the_model_sees_goals_in_deviations_of_their_own_module_and_is_asked_about_now(monkeypatch):
    """Module 0 was asked for 1 and 3, module 1 for 7 alone, in whose goals the slot of module 0 is empty."""
    model = SuccessModel(line_table(0, 1), 4)
    state = model.init(jax.random.key(0)).replace(
        module=jnp.array([0, 0, 1, 0]),
        goal=jnp.array([[1.0, 0.0], [3.0, 0.0], [0.0, 7.0], [99.0, 0.0]]),
        size=jnp.int32(3),  # nothing stands in the fourth place yet
    )
    monkeypatch.setattr(success_model, "_logit", lambda params, inputs: inputs)
    seen = model.predict(state, None, jnp.array([0, 1]), jnp.array([[5.0, 0.0], [0.0, 7.0]]))
    # Mean 2 and deviation 1 make 3 of 5; the descriptor, the two slots, the age.
    inputs = jnp.array([[1.0, 0.0, 3.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(seen, jax.nn.sigmoid(inputs), rtol=1e-5)


# What makes each of them what it is


PROGRESS = ("competence", "ema", "bayes", pytest.param("model", marks=pytest.mark.slow))


@pytest.mark.parametrize("name", PROGRESS)
def test_what_is_being_learned_is_worth_more_than_what_cannot_be_and_what_is_mastered(name):
    """Module 0 rises from 0 to 1 in the middle, module 1 is impossible, module 2 mastered from the start."""
    scores, predicted, p = live(name, lambda t: (np.clip(3 * t - 1, 0, 1), 0.0, 1.0))
    middle, end = slice(24, 42), slice(-4, None)
    assert p[middle].mean(axis=0)[0] > 0.45
    assert (p[middle].mean(axis=0)[1:] < 0.3).all()
    np.testing.assert_allclose(predicted[end].mean(axis=0), [1.0, 0.0, 1.0], atol=0.15)


@pytest.mark.parametrize("name", [*PROGRESS, "learnability"])
def test_a_forgotten_module_is_worth_practising(name):
    """All are mastered; module 1 is lost at half time."""
    _, _, p = live(
        name, lambda t: (1.0, float(t < 0.5), 1.0) if name != "learnability" else (1.0, 1 - 0.5 * (t >= 0.5), 1)
    )
    assert p[33:38, 1].mean() > 0.5 > p[26:30, 1].mean()


def test_seven_impossible_modules_leave_the_practice_to_one_that_learns():
    """Evidence that fades keeps some doubt of every module for ever; that is no progress."""
    rising, never = jnp.array([[18.0, 12.0]]), jnp.tile(jnp.array([[0.0, 30.0]]), (7, 1))
    now, before = jnp.concatenate([rising, never]), jnp.concatenate([jnp.array([[9.0, 21.0]]), never])
    scores = bayes.expected_change(now, before)
    assert scores[0] > 0.1 and scores[1:].sum() < 0.01 * scores[0]


def test_an_untrained_model_shows_no_progress():
    """At first its predictions leave what its first weights were: no module counts until K cycles are learned."""
    found = live("model", lambda t: (0.0, 0.5, 1.0), cycles=60, preset="cpu", self_evaluation=0.1, num_envs=120)[0]
    # 20 results of 3 modules, 12 a cycle: K = 5.
    assert (found[: 2 * 5] == 0).all() and (found[2 * 5 + 1 :].max(axis=1) > 0).all()


@pytest.mark.parametrize("name", ["competence", "learnability", "ema", "bayes"])
def test_an_impossible_modules_share_falls_to_the_floor(name):
    _, _, p = live(name, lambda t: (0.2 + 0.6 * t, 0.0, 0.2 + 0.6 * t))
    np.testing.assert_allclose(np.median(p[-10:, 1]), 0.4 / 3, atol=1e-3)  # uniform where all progress is 0


def test_level_replay_prefers_large_errors():
    estimator = make("plr")
    state = estimator.init(jax.random.key(0))
    state = estimator.update(state, results([0, 1, 2], 0, self_evaluation=False, td_error=[0.1, 0.5, 0.2]))
    assert np.argmax(estimator.scores(state, None)) == 1 and estimator.scores(state, None)[1] > 0.6


def test_the_model_tells_goals_apart_that_the_windows_do_not():
    """Module 0 is solved where its goal is above 0.5, module 1 never."""
    model, rng = SuccessModel(line_table(0, 1), 512), np.random.default_rng(0)
    state, learn = model.init(jax.random.key(0)), jax.jit(model.learn)
    for cycle in range(60):
        module = jnp.asarray(rng.integers(0, 2, 32), jnp.int32)
        goal = jnp.asarray(np.eye(2)[np.asarray(module)] * rng.random((32, 1)), jnp.float32)
        success = (goal[:, 0] > 0.5) & (module == 0)
        state = learn(state, jax.random.key(cycle), module, goal, success, jnp.ones(32, bool), jnp.int32(cycle))
    ask = jnp.array([[0.1, 0.0], [0.9, 0.0], [0.0, 0.9]])
    found = model.predict(state, state.params, jnp.array([0, 0, 1]), ask)
    assert found[0] < 0.2 and found[1] > 0.8 and found[2] < 0.1


def test_the_model_keeps_the_last_results_and_ignores_the_rest():
    model = SuccessModel(line_table(0, 1), 4)
    state = model.init(jax.random.key(0))
    module, goal = jnp.arange(6) % 2, jnp.arange(12.0).reshape(6, 2)
    counted = jnp.array([1, 1, 0, 1, 1, 1], bool)  # five count, the last four of them stay
    state = model.learn(state, jax.random.key(1), module, goal, counted, counted, jnp.int32(7))
    assert int(state.size) == 4 and int(state.next) == 1
    assert sorted(np.asarray(state.goal)[:, 0]) == [2.0, 6.0, 8.0, 10.0]
    nothing = model.init(jax.random.key(0))
    same = model.learn(nothing, jax.random.key(1), module, goal, counted, jnp.zeros(6, bool), jnp.int32(7))
    assert_same(same.params, nothing.params)


@pytest.mark.slow
def test_the_model_is_asked_about_goals_where_they_stand():
    moved = dataclasses.replace(line_module("b", 1, 0.0), goal_at=lambda goal, obs: obs[:1] + goal)
    table = ModuleTable((line_module("a", 0, 0.0), moved))
    assert table.moving == (False, True)
    model = SuccessModel(table, 8)
    state, learn = model.init(jax.random.key(0)), jax.jit(model.learn)
    goal = jnp.array([[0.5, 0.0], [0.0, 7.0], [0.0, 8.0], [0.0, 9.0]])
    module, yes = jnp.array([0, 1, 1, 1]), jnp.ones(4, bool)
    asked, count = model.newest(state, 2, 3)
    assert count.tolist() == [0, 0]
    for cycle in range(3):  # of a ring of eight results the oldest four are gone
        state = learn(state, jax.random.key(1), module, goal + 10 * cycle, yes, yes, jnp.int32(cycle))
    asked, count = model.newest(state, 2, 3)
    assert count.tolist() == [2, 6]
    assert asked[0, :, 0].tolist() == [20.5, 10.5, 20.5], "the newest first, and again where there are fewer"
    assert asked[1, :, 1].tolist() == [29.0, 28.0, 27.0]

    made = learned.make(tiny_config(), table)
    begun = made.init(jax.random.key(0))
    model = SuccessModel(table, len(begun.model.module))
    held = jax.jit(model.learn)(begun.model, jax.random.key(1), module, goal, yes, yes, jnp.int32(0))
    asked, _ = model.newest(held, 2, learned.GOALS)
    expected = model.predict(held, held.params, jnp.ones(learned.GOALS, jnp.int32), asked[1]).mean()
    np.testing.assert_allclose(made.predict(begun.replace(model=held), None)[1], expected, rtol=1e-5)


# In a run


@pytest.mark.parametrize(
    "name, seeds",
    [
        *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ESTIMATORS),
        *(pytest.param(name, 2, marks=pytest.mark.slow) for name in ESTIMATORS),
    ],
)
def test_every_estimator_trains(name, seeds):
    chosen = tiny_config(estimator=name, num_seeds=seeds, self_evaluation=0.5)
    run = make_run(chosen)
    state = trainer.init(chosen, run.env)
    cycle = jax.jit(trainer.for_seeds(chosen, functools.partial(trainer.train_cycle, run)))
    for _ in range(2):
        state, metrics = cycle(state)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((state.learner, metrics)))
    p = jax.vmap(measure(run)) if seeds > 1 else measure(run)
    shares = np.asarray(p(state.estimator, state.curriculum))
    assert np.isfinite(shares).all() and (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=-1), 1.0, rtol=1e-5)


def test_modules_are_chosen_shown_and_replayed_by_the_estimators_scores_and_uniform_share():
    """The windows know nothing here, and level replay has no other uniform share than its own."""
    run = make_run(tiny_config(estimator="plr"))
    held, settings = curriculum.init(3, run.config.curriculum), run.config.curriculum
    worth = run.worth(plr.PlrState(score=jnp.array([0.2, 0.9, 0.1]), stale=jnp.zeros(3)), held)
    share = np.array([2.0**-10, 1.0, 3.0**-10]) / (1 + 2.0**-10 + 3.0**-10)
    np.testing.assert_allclose(curriculum.summarize(held, settings, worth)[2], share, rtol=1e-5)
    module, own = curriculum.choose(held, settings, jax.random.key(0), 400, worth)
    assert (module[~own] == 1).mean() > 0.97
    store = SimpleNamespace(count=jnp.array([5, 5, 5]))
    # Of 8 transitions floor(8 p) are 0, 7 and 0, and the one that is left is for the first.
    np.testing.assert_array_equal(trainer.replay_modules(run, held, store, worth), [0, *[1] * 7])


def test_scores_are_asked_for_before_the_episodes_to_select_and_after_them_to_replay(monkeypatch):
    """The estimator's state has one part before the cycle, and two parts once it has learned of its episodes."""
    asked, used, given_out = [], [], []
    told = estimators.Estimator(
        init=lambda key: (jnp.zeros(3),),
        update=lambda state, shown: (*state, jnp.ones(3)),
        scores=lambda state, held: asked.append(len(state)) or given_out.append(state[-1]) or state[-1],
        predict=lambda state, held: state[0],
    )
    run = make_run(tiny_config())._replace(estimator=told)

    def note(function, name):
        return lambda *given: used.append((name, given[-1].scores is given_out[-1])) or function(*given)

    monkeypatch.setattr(curriculum, "choose", note(curriculum.choose, "selection"))
    monkeypatch.setattr(trainer, "replay_modules", note(trainer.replay_modules, "replay"))
    state = jax.eval_shape(functools.partial(init_one, run), 0)
    jax.eval_shape(functools.partial(trainer.train_cycle, run), state)
    assert asked == [1, 2] and used == [("selection", True), ("replay", True)]


def test_what_a_cycle_tells_of_its_episodes():
    """Two episodes of two steps, by hand: module 0 asks for the place 2, module 1 for a quarter beyond where it is."""
    moved = dataclasses.replace(line_module("b", 0), goal_at=lambda goal, obs: obs[:1] + goal)
    table, seen = ModuleTable((line_module("a", 0), moved)), []
    errors = jnp.array([1.0, 3.0, 10.0, 20.0])
    run = SimpleNamespace(
        env=SimpleNamespace(modules=table),
        config=SimpleNamespace(normalizer=NormalizerConfig(normalize=False)),
        estimator=SimpleNamespace(wants_td_errors=True),
        learner=SimpleNamespace(td_error=lambda state, batch: seen.append(batch) or errors),
    )
    state = SimpleNamespace(learner=None, cycle=jnp.int32(7))
    obs = [[[0.0], [1.0], [2.0]], [[5.0], [6.0], [8.0]]]
    played = episodes(obs, module=[0, 1], goal=[[2.0, 0.0], [0.0, 0.25]])
    relevant = jnp.array([[True, False], [True, True]])
    found = feedback.gather(run, state, None, played, jnp.array([True, False]), relevant, jax.random.key(0))
    np.testing.assert_array_equal(found.td_error, [2.0, 15.0])  # an episode's mean over its steps
    np.testing.assert_array_equal(found.goal, [[2.0, 0.0], [0.0, 8.25]])  # as it stood at the end
    np.testing.assert_array_equal(found.first, [[0.0], [5.0]])
    np.testing.assert_array_equal(found.reached, [[2.0, 2.0], [8.0, 8.0]])
    np.testing.assert_array_equal(found.relevant, relevant)
    (batch,) = seen  # observation, goal, descriptor; the goal of module 1 moves with what is observed
    now, later = [0.0, 1.0, 5.0, 6.0], [1.0, 2.0, 6.0, 8.0]
    np.testing.assert_array_equal(batch.inputs[:, 0], now)
    np.testing.assert_array_equal(batch.inputs[:, 1:3], [[2, 0], [2, 0], [0, 5.25], [0, 6.25]])
    np.testing.assert_array_equal(batch.next_inputs[:, 0], later)
    np.testing.assert_array_equal(batch.next_inputs[:, 1:3], [[2, 0], [2, 0], [0, 6.25], [0, 8.25]])
    np.testing.assert_array_equal(batch.inputs[:, 3:], [[1, 0], [1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(batch.action[:, 0], [0, 1, 0, 1])
    np.testing.assert_array_equal(batch.reward, [-1, 0, 0, 0])  # of what a step leads to


def measure(run):
    """Gives the shares of selection."""
    return lambda estimate, held: curriculum.summarize(held, run.config.curriculum, run.worth(estimate, held))[2]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_without_results_all_modules_are_drawn_alike(name):
    if name == "order":
        pytest.skip("an order has a first module")
    run = make_run(tiny_config(estimator=name))
    state = trainer.init(run.config, run.env)
    np.testing.assert_allclose(measure(run)(state.estimator, state.curriculum), np.full(3, 1 / 3), rtol=1e-5)


@pytest.mark.parametrize("algorithm", ["her", "mgme", "muvfa"])
def test_algorithms_that_ask_no_estimator_refuse_one(algorithm):
    with pytest.raises(SettingError, match="estimator='ema': must be competence"):
        make_config(world="point", algorithm=algorithm, estimator="ema")


@pytest.mark.parametrize(
    "settings, says",
    [
        ({"order": ("reach",)}, "left out without estimator=order"),
        ({"order": ("reach", "pnp"), "estimator": "order"}, "each once, among reach, push"),
        ({"order": ("reach", "reach"), "estimator": "order"}, "each once, among reach, push"),
    ],
)
def test_orders_that_cannot_be_followed_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        make_config(world="point", **settings)


def test_an_unknown_estimator_is_refused_naming_those_there_are():
    with pytest.raises(ConfigError, match="--estimator elo: must be one of competence, ema.*--import"):
        make_run(tiny_config(estimator="elo"))
