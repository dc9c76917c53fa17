"""The recorder: what is exported when."""

import pytest
from helpers.rows import row

from curious_jax import config as configs
from curious_jax import fit
from curious_jax.cli import program
from curious_jax.learner import trainer
from curious_jax.run import folder as runfolder
from curious_jax.run import policies
from curious_jax.show.recorder import Recorder, title


@pytest.fixture
def recording(tmp_path, small):
    config = configs.make_config(
        world="point", modules=("reach", "push"), num_envs=4, capacity=8, hidden_size=8, hidden_layers=1
    )
    env = program.make_env(config)
    state = trainer.init(config, env)
    recorder = Recorder(config, env, runfolder.claim(config, str(tmp_path / "run")))

    def evaluated(episodes, success, status="running"):
        return recorder.evaluated(fit.Report([row(episodes, success)], state, status))

    with recorder:
        yield evaluated, tmp_path / "run"


def exported(run, name):
    return policies.find(run, name).info["episodes"]


def test_last_follows_and_best_stays(recording):
    evaluated, run = recording
    assert not evaluated(10, 0.5)
    assert not evaluated(20, 0.9)
    assert not evaluated(30, 0.7)
    assert (exported(run, "last"), exported(run, "best")) == (30, 20)
    evaluated(40, 0.9)  # as good and later
    assert exported(run, "best") == 40
    assert [r["episodes"] for r in runfolder.read_rows(run)] == [10, 20, 30, 40]


def test_a_diverged_policy_is_not_exported(recording):
    evaluated, run = recording
    evaluated(10, 0.5)
    evaluated(20, 0.0, "diverged")
    assert exported(run, "last") == 10
    assert len(runfolder.read_rows(run)) == 2


def test_exports_are_small(recording):
    evaluated, run = recording
    evaluated(10, 0.5)
    assert sum(p.stat().st_size for p in (run / "policies" / "last").rglob("*") if p.is_file()) < 2**21


def test_titles_name_the_run():
    config = configs.make_config(world="point", modules=("reach", "push"), distractors=2, seed=4)
    assert title(config, program.make_env(config)) == "curious on point: reach, push + 2 distractors; seed 4"
