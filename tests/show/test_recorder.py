"""The recorder: what is exported when."""

import dataclasses

import pytest
from helpers.rows import row

from curious_jax import config as configs
from curious_jax import fit
from curious_jax.cli import environment
from curious_jax.run import folder as runfolder
from curious_jax.run import policies
from curious_jax.show.recorder import Recorder, title
from curious_jax.types import Status


@pytest.fixture
def recording(tmp_path, small):
    config = configs.make_config(
        world="point", modules=("reach", "push"), num_envs=4, capacity=8, hidden_size=8, hidden_layers=1
    )
    env = environment.make_env(config)
    start = fit.begin(config, env)
    recorder = Recorder(config, env, runfolder.claim(config, str(tmp_path / "run")))

    def evaluated(episodes, success, status=Status.RUNNING):
        metrics = (row(episodes, success),)
        return recorder.record(dataclasses.replace(start, cycles=episodes // 4, metrics=metrics, status=status))

    with recorder:
        yield evaluated, tmp_path / "run"


def exported(run, name):
    return policies.find(run, name).info["episodes"]


def test_last_follows_and_best_stays(recording):
    evaluated, run = recording
    assert not evaluated(8, 0.5)
    assert not evaluated(20, 0.9)
    assert not evaluated(32, 0.7)
    assert (exported(run, "last"), exported(run, "best")) == (32, 20)
    evaluated(40, 0.9)  # as good and later
    assert exported(run, "best") == 40
    assert [r["episodes"] for r in runfolder.read_rows(run)] == [8, 20, 32, 40]


def test_a_diverged_policy_is_not_exported(recording):
    evaluated, run = recording
    evaluated(8, 0.5)
    evaluated(20, 0.0, Status.DIVERGED)
    assert exported(run, "last") == 8
    assert len(runfolder.read_rows(run)) == 2


def test_exports_are_small(recording):
    evaluated, run = recording
    evaluated(8, 0.5)
    assert sum(p.stat().st_size for p in (run / "policies" / "last").rglob("*") if p.is_file()) < 2**21


def test_titles_name_the_run():
    config = configs.make_config(world="point", modules=("reach", "push"), distractors=2, seed=4)
    assert title(config, environment.make_env(config)) == "curious on point: reach, push + 2 distractors; seed 4"
