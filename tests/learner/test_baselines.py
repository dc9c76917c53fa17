"""The named algorithms: what each is as settings, and whole cycles of the flat goal (MG-ME's: test_experts.py)."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, run_cycles, tiny_config
from helpers.small import SMALL

import envs
from curious_jax import evaluate, train
from curious_jax.config import make_config
from curious_jax.errors import ConfigError
from curious_jax.fit import fit
from curious_jax.learner import trainer
from curious_jax.types import FLAT


def test_muvfa_is_curious_with_uniform_selection_and_replay():
    muvfa = make_config(algorithm="muvfa")
    assert (muvfa.curriculum.selection, muvfa.hindsight.replay) == ("uniform", "uniform")
    by_hand = make_config(algorithm="curious", selection="uniform", replay="uniform")
    assert dataclasses.replace(by_hand, algorithm="muvfa") == muvfa  # trainer asks the name for her and mgme alone


def test_what_is_named_wins_over_the_algorithm():
    config = make_config(algorithm="muvfa", selection="lp")
    assert (config.curriculum.selection, config.hindsight.replay) == ("lp", "uniform")
    assert make_config(algorithm="her", interest_replay=True).hindsight.interest_replay is True
    assert make_config(algorithm="her").hindsight.interest_replay is False
    assert make_config(algorithm="mgme").hindsight.substitution == "drawn"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(algorithm="her", selection="lp"), "--selection lp: must be uniform with --algorithm her; leave it out"),
        (dict(algorithm="her", replay="lp"), "--replay lp: must be own with --algorithm her"),
        (dict(algorithm="mgme", replay="own"), "--replay own: must be uniform with --algorithm mgme"),
        (dict(algorithm="mgme", substitution="own"), "--substitution own: must be drawn with"),
        (dict(selection="own"), "--selection own: must be one of lp, uniform"),
        (dict(replay="none"), "--replay none: must be one of lp, uniform, own"),
        (dict(goal_replay="on"), "--goal-replay on: must be one of her, none"),
        (dict(interest_replay="her"), "--interest-replay her: must be True or False"),
        (dict(learner="sac"), "--learner sac: must be one of ddpg, td3"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        make_config(**settings)
    assert error.value.on_command_line.startswith(message)


def test_goal_replay_off_is_probability_zero():
    assert make_config(hindsight_probability=0.7).hindsight.probability == 0.7
    assert make_config(hindsight_probability=0.7, goal_replay="none").hindsight.probability == 0.0


def test_two_cycles_of_the_flat_goal():
    run = make_run(tiny_config(algorithm="her", self_evaluation=0.5))
    state, record = run_cycles(run, trainer.init(run.config, run.env), 2)
    np.testing.assert_array_equal(state.replay.module[:16], FLAT)
    goal = np.asarray(state.replay.goal[:16])
    assert (goal != 0).all() and (np.abs(goal) <= 0.5).all()  # all modules' goals, in the point's square
    np.testing.assert_array_equal(state.replay.count, 16)  # every episode serves
    count = np.asarray(state.curriculum.count)
    assert 0 < count[0] <= 8 and (count == count[0]).all()  # a result of the flat goal is one of every module
    np.testing.assert_allclose(record.p, 1 / 3, atol=1e-6)
    # Every slot's statistics saw outcomes and goals of all episodes: 16 x 20 steps, in shares of 0.8 and 0.2.
    np.testing.assert_allclose(state.normalizer.goal.weight, 16 * 20, rtol=1e-5)


def test_the_flat_goal_can_be_reached_without_distractors_and_never_with_one():
    goal = jnp.array([0.25, 0.0, 0.1, 0.15])
    position, thing = jnp.array([0.2, 0.0]), jnp.array([0.1, 0.1])  # both within a tolerance of 0.1 of the goal's parts
    obs = jnp.concatenate([position, thing, thing - position])
    reward = envs.make("point", ("reach", "drag"), 0).modules.reward
    assert reward(obs, goal, FLAT) == 0.0
    assert reward(obs, goal.at[3].set(0.25), FLAT) == -1.0  # the object's part is not reached
    modules = envs.make("point", ("reach", "drag"), 1).modules
    obs = jnp.concatenate([obs, jnp.array([1.5, 1.5])])  # where a distractor is, outside the square of goals
    goals = jax.vmap(modules.sample_goal, (0, None))(jax.random.split(jax.random.key(1), 500), FLAT)
    assert (jax.vmap(modules.reward, (None, 0, None))(obs, goals.at[:, :4].set(goal), FLAT) == -1.0).all()


# Long ones


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "losses"),
    [
        ("curious", (0.30888137, 0.35453781, -0.18809049)),
        ("muvfa", (0.35550243, 0.39812803, -0.21761337)),
    ],
)
def test_curious_and_muvfa_are_what_they_were_before_there_were_others(algorithm, losses):
    """The figures of commit 507cc05 on one CPU."""
    config = tiny_config(algorithm=algorithm, seed=3, episodes=160, window=2, self_evaluation=0.5)
    progress = fit(config, envs.make("point", config.modules, config.distractors))
    row = progress.rows[-1]
    found = [row[f"train/{key}"] for key in ("critic_loss", "actor_loss", "q_mean")]
    assert found == pytest.approx(losses, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["her", "mgme"])
def test_a_run_of_a_baseline_leaves_a_policy_that_evaluates(algorithm, empty_folder, capsys):
    extra = ["--learner", "td3", "--perturb-at", "8", "--perturb-cube", "1", "--num-seeds", "2"]
    assert train.main([*SMALL, "--algorithm", algorithm, *extra, "--out", "run"]) == 0
    rows = [json.loads(line) for line in (empty_folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["p_module/reach"] for row in rows] == [0.5] * 4
    capsys.readouterr()
    assert evaluate.main(["run", "--episodes", "10", "--seed-index", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["algorithm"] == algorithm and set(result["success"]) == {"reach", "push"}
