"""The host loop: what it reports, when it stops and as what, with scripted evaluations; and small real runs."""

import dataclasses
import itertools
import json
import signal
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_same, make_run, tiny_config

import envs
from curious_jax import errors, evaluation, fit
from curious_jax.learner import trainer
from curious_jax.learner.state import CycleMetrics

NAMES = ("reach", "push")
TIMINGS = ("wall_s", "perf/env_steps_per_s", "perf/updates_per_s")


class Script:
    """Stands in for compiled epochs and evaluations.

    Each evaluation takes the next number of `success` (one per seed where it is a list); the last one stays.
    `asked` keeps (what, number of training episodes, episodes evaluated).
    """

    def __init__(self, config, success=(0.0,), losses=(0.5,), invalid=0, overflow=0):
        self.config = config
        self.success, self.losses = iter(success), iter(losses)
        self.invalid, self.overflow = invalid, overflow
        self.asked, self.cycles, self.keys = [], [], []

    def make_evaluator(self, run, worlds):
        def evaluate(policy, key, episodes, offset):
            self.asked.append(episodes)
            self.keys.append(np.asarray(jax.random.key_data(key)).tobytes())
            self.last = next(self.success, None) if self.success else None
            rates = np.broadcast_to(self.last, self.config.num_seeds)
            each = episodes // len(NAMES)
            return [evaluation.Result(dict.fromkeys(NAMES, round(r * each)), dict.fromkeys(NAMES, each)) for r in rates]

        return evaluate

    def lower_epoch(self, run, state):
        shape = (self.config.num_seeds,) if self.config.num_seeds > 1 else ()

        def epoch(state, total, cycles):
            self.cycles.append(int(cycles))
            loss = cycles * jnp.full(shape, next(self.losses, 0.5))
            invalid, overflow = (jnp.full(shape, x, jnp.int32) for x in (self.invalid, self.overflow))
            return state, jax.tree.map(jnp.add, total, CycleMetrics(loss, loss, loss, invalid, overflow))

        return SimpleNamespace(compile=lambda: epoch)


@pytest.fixture(scope="module")
def states():
    """Initial states for one seed and for two."""
    env = envs.make("point", NAMES)
    return {s: trainer.init(tiny_config(modules=NAMES, distractors=0, num_seeds=s), env) for s in (1, 2)}


@pytest.fixture
def scripted(monkeypatch, states):
    """scripted(success, ..., **settings) -> (last progress, script, progress at each evaluation), without compiling."""

    def run(success=(), callback=None, settings=None, start=None, **script_settings):
        config = tiny_config(
            modules=NAMES, distractors=0, **{"episodes": 64, "evaluation_interval": 8, **(settings or {})}
        )
        endless = itertools.chain([0.0], success, itertools.repeat(0.5))  # the first is before any training
        script = Script(config, endless, **script_settings)
        monkeypatch.setattr(trainer, "init", lambda config, env: states[config.num_seeds])
        monkeypatch.setattr(trainer, "lower_epoch", script.lower_epoch)
        monkeypatch.setattr(evaluation, "make_evaluator", script.make_evaluator)
        reports = []

        def keep(progress):
            if progress.metrics:
                reports.append(progress)
            return callback(progress) if callable(callback) else None

        calls = [keep, *callback] if isinstance(callback, list) else keep
        return fit.fit(config, envs.make("point", NAMES), calls, start), script, reports

    return run


# How a run ends


def test_completed(scripted):
    progress, script, reports = scripted(settings=dict(episodes=36, evaluation_interval=16))
    assert progress.status == "completed"
    assert script.cycles == [1, 1, 2, 1]  # 36 episodes are 5 cycles of 8, an epoch is 2; the first is timed alone
    assert (progress.episodes, progress.env_steps, progress.updates) == (40, 800, 10)
    assert [r.status for r in reports] == ["running", "running", "completed"]
    assert [row["episodes"] for row in progress.rows] == [16, 32, 40]
    assert progress.mean_success == 0.5 and progress.success == {"reach": 0.5, "push": 0.5}
    assert progress.reached == (None,)


def test_a_target_counts_when_fresh_episodes_confirm_it(scripted):
    # 0.5, then 0.95 not confirmed, 0.95 confirmed.
    progress, script, reports = scripted([0.5, 0.95, 0.85, 0.95, 0.92], settings=dict(target_success=0.9))
    assert progress.status == "target_reached"
    assert [r.status for r in reports] == ["running", "running", "target_reached"]
    assert script.asked == [8, 8, 8, 200, 8, 200]  # 100 fresh episodes for each of 2 modules
    assert len(set(script.keys)) == len(script.keys)
    assert progress.mean_success == pytest.approx(0.92)  # the confirmed figure, not the lucky one
    assert progress.rows[-1]["eval/success"] == 1.0  # 0.95 of 4 episodes
    assert progress.reached[0]["episodes"] == 24
    assert progress.reached[0]["mean_success"] == pytest.approx(0.92)
    fresh = [row.get("eval/fresh") for row in progress.rows]
    assert fresh == [None, pytest.approx(0.85), pytest.approx(0.92)]  # beside the evaluations that called for it
    assert [row.get("eval/fresh") for report in reports for row in report.metrics] == fresh
    assert progress.rows[-1]["eval/fresh/reach"] == pytest.approx(0.92)
    assert progress.rows[-1]["eval/fresh_n/reach"] == 100


def test_a_lucky_evaluation_does_not_end_the_run(scripted):
    progress, _, _ = scripted([1.0, 0.89] * 8, settings=dict(target_success=0.9))
    assert progress.status == "completed"
    assert progress.reached == (None,)


def test_a_target_reached_at_the_very_end_is_reached(scripted):
    progress, _, _ = scripted([0.0, 1.0, 1.0], settings=dict(target_success=0.9, episodes=16))
    assert progress.status == "target_reached"


def test_no_target_no_confirmation(scripted):
    progress, script, _ = scripted([1.0] * 8)
    assert progress.status == "completed"
    assert set(script.asked) == {8}
    assert not any(key.startswith("eval/fresh") for row in progress.rows for key in row)


def test_the_callback_may_stop_the_run(scripted):
    progress, script, reports = scripted(
        callback=lambda progress: bool(progress.metrics) and progress.metrics[0]["episodes"] >= 24
    )
    assert progress.status == "interrupted"
    assert progress.episodes == progress.evaluated_at == 24 and script.cycles == [1, 1, 1]
    assert progress.results


def test_several_callbacks_are_all_called_in_their_order_and_any_may_stop(scripted):
    seen = []

    def first(progress):
        seen.append(("first", progress.episodes))
        return progress.episodes >= 16

    progress, _, _ = scripted(callback=[first, lambda progress: seen.append(("second", progress.episodes))])
    assert progress.status == "interrupted" and progress.episodes == 16
    assert seen == [(name, episodes) for episodes in (8, 16) for name in ("first", "second")]


def test_stopping_a_run_that_is_over_leaves_its_status(scripted):
    progress, _, _ = scripted(callback=lambda progress: progress.status != "running")
    assert progress.status == "completed"
    progress, _, _ = scripted([1.0, 1.0], callback=lambda report: True, settings=dict(target_success=0.9))
    assert progress.status == "target_reached"


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_diverged(scripted, loss):
    progress, _, reports = scripted([0.5, 1.0], losses=[0.5, loss], settings=dict(target_success=0.9))
    assert progress.status == "diverged"
    assert [r.status for r in reports] == ["running", "diverged"]


def test_ctrl_c_ends_after_the_cycle_and_the_progress_is_returned(scripted):
    def press(progress):
        if progress.episodes == 16:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    progress, _, _ = scripted(callback=press)
    assert (progress.status, progress.episodes) == ("interrupted", 16)
    assert signal.getsignal(signal.SIGINT) is before

    def twice(progress):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        scripted(callback=twice)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_program_that_looks_after_ctrl_c_keeps_it(scripted):
    seen, before = [], signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        progress, _, _ = scripted(callback=lambda progress: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert progress.status == "completed" and seen


def test_diverged_wins_over_completed(scripted):
    progress, _, _ = scripted(losses=[0.5, np.nan], settings=dict(episodes=16))
    assert progress.status == "diverged"


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_contacts_lost_in_more_than_a_twentieth_of_the_episodes_stop_the_run(scripted, num_seeds):
    """A seed's cycle has 40 episodes here, so two that lost contacts are within the limit and three are not."""
    assert scripted(overflow=1, settings=dict(num_envs=8, episodes=16))[0].status == "completed"  # one of a few
    two_cycles = dict(num_envs=40, episodes=160, evaluation_interval=80)  # each with two, and four of an epoch's 80
    assert scripted(overflow=2, settings=two_cycles)[0].status == "completed"
    settings = dict(num_envs=40, episodes=80, num_seeds=num_seeds)
    assert scripted(overflow=2, settings=settings)[0].status == "completed"
    lost, of = 3 * num_seeds, 40 * num_seeds
    with pytest.raises(errors.OverflowedBuffers, match=f"contact buffers and lost contacts in {lost} of {of} episodes"):
        scripted(overflow=3, settings=settings)


# Whose environment it is


@pytest.mark.parametrize("asked, there", [("push21", "push2"), ("push11", "push1"), ("stack2on1", "stack")])
def test_modules_of_like_names_are_not_taken_for_one_another(asked, there):
    table = SimpleNamespace(names=("reach", there))
    with pytest.raises(
        errors.ConfigError, match=f"the config names reach, {asked} and the environment has reach, {there}"
    ):
        fit.check_modules(tiny_config(modules=("reach", asked), distractors=0), SimpleNamespace(modules=table))


def test_either_name_of_a_module_is_its_name():
    table = SimpleNamespace(names=("push", "stack", "distractor1"))
    fit.check_modules(tiny_config(modules=("push1", "stack1on2"), distractors=1), SimpleNamespace(modules=table))


def test_modules_in_another_order_are_refused():
    table = SimpleNamespace(names=("push", "reach"))
    with pytest.raises(errors.ConfigError, match="has push, reach; .* in their order"):
        fit.check_modules(tiny_config(modules=("reach", "push"), distractors=0), SimpleNamespace(modules=table))


def test_what_make_refuses_is_refused_of_any_environment(monkeypatch):
    env = envs.make("point", ("reach", "push"))
    fit.check_env(tiny_config(modules=("reach", "push"), distractors=0), env)
    bare = tuple(dataclasses.replace(module, mirror=None) for module in env.modules.modules)
    one_sided = dataclasses.replace(env, modules=dataclasses.replace(env.modules, modules=bare))
    with pytest.raises(errors.ConfigError, match="--mirror on: must be off, since reach, push"):
        fit.check_env(tiny_config(modules=("reach", "push"), distractors=0, mirror=True), one_sided)
    hopeless = tuple(dataclasses.replace(module, achievable=False) for module in env.modules.modules)
    nothing = dataclasses.replace(env, modules=dataclasses.replace(env.modules, modules=hopeless))
    with pytest.raises(errors.ConfigError, match="must have one that can be achieved"):
        fit.check_env(tiny_config(modules=("reach", "push"), distractors=0), nothing)
    with jax.enable_x64(True), pytest.raises(errors.ConfigError, match="jax_enable_x64: must be off"):
        fit.fit(tiny_config(modules=("reach", "push"), distractors=0), env)


# A run that continues


def test_a_run_that_met_its_target_continues_to_another(scripted):
    first, _, _ = scripted([0.95, 0.92], settings=dict(target_success=0.9))
    assert (first.status, first.episodes) == ("target_reached", 8)
    same, _, _ = scripted(start=first, settings=dict(target_success=0.9))
    assert (same.status, same.episodes) == ("target_reached", 8)
    higher, _, _ = scripted([0.99, 0.98], start=first, settings=dict(target_success=0.97))
    assert (higher.status, higher.episodes, higher.reached[0]["episodes"]) == ("target_reached", 16, 16)
    assert higher.config.target_success == 0.97
    none, _, _ = scripted(start=first, settings=dict(target_success=None, episodes=32))
    assert (none.status, none.episodes) == ("completed", 32)


def test_a_run_that_is_done_continues_with_more_episodes(scripted):
    first, _, _ = scripted(settings=dict(episodes=16))
    second, _, _ = scripted(start=first, settings=dict(episodes=32))
    assert (second.status, second.episodes, second.config.schedule.episodes) == ("completed", 32, 32)


def test_a_run_that_is_shortened_to_where_it_is_ends_with_its_evaluation(scripted):
    settings = dict(evaluation_interval=32)
    first, _, _ = scripted(callback=[lambda progress: True], settings=settings)
    assert (first.status, first.episodes, len(first.rows)) == ("interrupted", 8, 0)
    second, script, reports = scripted(start=first, settings=settings | dict(episodes=8))
    assert (second.status, second.episodes, script.cycles) == ("completed", 8, [])
    assert [row["episodes"] for row in second.rows] == [8]
    again, script, _ = scripted(start=second, settings=settings | dict(episodes=8))
    assert (again.status, again.rows, script.cycles) == ("completed", (), [])
    longer, script, _ = scripted(start=second, settings=settings | dict(episodes=16))
    assert (longer.status, longer.episodes, script.cycles) == ("completed", 16, [1])


@pytest.mark.parametrize("other", [dict(seed=5), dict(evaluation_interval=16), dict(num_seeds=2)])
def test_a_run_does_not_continue_as_another(scripted, other):
    first, _, _ = scripted(settings=dict(episodes=16))
    ((name, value),) = other.items()
    with pytest.raises(errors.ConfigError, match=f"{name}={value}: must be .*, as in the run that continues"):
        scripted(start=first, settings=dict(episodes=32) | other)


@pytest.mark.parametrize("target", [None, 0.9])
def test_the_worst_goals_are_tried_at_the_end_however_it_comes(scripted, monkeypatch, target):
    worst = lambda run, goals: lambda policy, keys, offset: [{"reach": 0.5, "push": 0.25}]  # noqa: E731
    monkeypatch.setattr(evaluation, "make_worst_case", worst)
    progress, _, _ = scripted([0.95, 0.92], settings=dict(target_success=target, cvar_goals=10, episodes=16))
    assert progress.rows[-1]["eval/cvar"] == 0.375 and progress.metrics == progress.rows[-1:]
    assert all("eval/cvar" not in row for row in progress.rows[:-1])


# Several seeds


def test_the_seed_that_diverged_is_named(scripted):
    progress, _, _ = scripted(losses=[0.5, np.array([0.5, np.nan])], settings=dict(num_seeds=2, seed=7))
    assert progress.status == "diverged" and progress.diverged_seeds == (8,)


def test_every_seed_reaches_its_target_once(scripted):
    evaluations = [[0.95, 0.5], [0.92, 0.5], [0.3, 0.95], [0.3, 0.91]]  # seed 0, confirmed; seed 1, confirmed
    progress, script, reports = scripted(evaluations, settings=dict(target_success=0.9, num_seeds=2, seed=7))
    assert progress.status == "target_reached"
    assert [r["episodes"] for r in progress.reached] == [8, 16]
    assert progress.reached[0]["mean_success"] == pytest.approx(0.92)
    assert progress.reached[1]["mean_success"] == pytest.approx(0.91)
    assert progress.mean_success == pytest.approx([0.3, 0.91])  # as they stand at the end
    assert progress.success["reach"] == pytest.approx([0.3, 0.91])
    assert [row["seed"] for row in progress.rows] == [7, 8, 7, 8]
    fresh = [row.get("eval/fresh") for row in progress.rows]
    assert fresh == [pytest.approx(0.92), None, None, pytest.approx(0.91)]
    assert [r.status for r in reports] == ["running", "target_reached"]


def test_a_seed_that_only_looked_good_is_asked_again(scripted):
    evaluations = [[0.95, 0.95], [0.5, 0.92], [0.95, 0.2], [0.93, 0.2]]
    progress, _, _ = scripted(evaluations, settings=dict(target_success=0.9, num_seeds=2))
    assert [r["episodes"] for r in progress.reached] == [16, 8]


# Rows


def test_rows_have_the_documented_keys(scripted):
    progress, _, _ = scripted(invalid=2, settings=dict(episodes=16))
    first, second = progress.rows
    per_module = {
        f"{k}/{n}" for k in ("eval/success", "eval/n", "competence", "learning_progress", "p_module") for n in NAMES
    }
    counters = {"episodes", "env_steps", "updates", "wall_s", "eval/success", "invalid_episodes"}
    training = {"train/critic_loss", "train/actor_loss", "train/q_mean", "perf/env_steps_per_s", "perf/updates_per_s"}
    assert set(first) == per_module | counters | training
    assert (first["invalid_episodes"], second["invalid_episodes"]) == (2, 4)  # since the start
    assert (second["episodes"], second["env_steps"], second["updates"]) == (16, 320, 4)
    assert first["train/critic_loss"] == 0.5
    assert first["p_module/reach"] == pytest.approx(0.5)
    json.dumps(first, allow_nan=False)


# Real runs


@pytest.fixture(scope="module")
def real():
    """real(**settings) -> (state, progress) of a tiny run in its own world, with the world."""

    def run(**settings):
        config = tiny_config(**settings)
        env = make_run(config).env
        progress = fit.fit(config, env)
        return progress.state, progress, env

    return run


@pytest.fixture(scope="module")
def two_epochs(real):
    return real(episodes=32, evaluation_interval=16)


def test_same_seed_same_metrics(real, two_epochs, monkeypatch):
    made, init = [], trainer.init  # made twice: once in shapes alone
    monkeypatch.setattr(trainer, "init", lambda *arguments: made.append(init(*arguments)) or made[-1])
    state, progress, _ = real(episodes=32, evaluation_interval=16)
    assert made[-1].replay.obs.is_deleted()  # donated: there is room for one store
    plain = lambda h: [{k: v for k, v in row.items() if k not in TIMINGS} for row in h.rows]  # noqa: E731
    assert plain(progress) == plain(two_epochs[1])
    assert_same(state, two_epochs[0])


def test_evaluation_does_not_disturb_training(real, two_epochs):
    """Evaluated after every cycle or after two, on few episodes or many: the same training, bit for bit."""
    state, progress, env = real(episodes=32, evaluation_interval=8, evaluation_episodes=5)
    assert len(progress.rows) == 4
    assert_same(state, two_epochs[0])
    assert env.traces.step == two_epochs[2].traces.step  # and as much compiled


def test_figures_of_the_final_evaluation(two_epochs):
    _, progress, _ = two_epochs
    assert progress.names == NAMES  # no distractor
    assert progress.rows[-1]["eval/success"] == progress.mean_success
    assert progress.rows[-1]["eval/n/reach"] == 4
    assert 0 < progress.train_s < progress.wall_s and progress.compile_s < progress.wall_s


@pytest.mark.slow
def test_reach_is_learned_and_confirmed():
    settings = dict(hidden_size=64, hidden_layers=2, num_envs=16, updates_per_cycle=40, batch_size=128, capacity=2000)
    config = tiny_config(
        modules=("reach",), distractors=0, target_success=0.95, episodes=3200, evaluation_interval=160,
        evaluation_episodes=50, actor_lr=3e-3, critic_lr=3e-3, **settings
    )  # fmt: skip
    progress = fit.fit(config, make_run(config).env)
    assert progress.status == "target_reached"
    assert progress.results[0].episodes["reach"] >= 100
    assert progress.mean_success >= 0.95
    assert progress.reached[0]["episodes"] == progress.episodes < 3200
