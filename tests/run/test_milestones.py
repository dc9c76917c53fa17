"""Policies kept on the way: which evaluations pass a mark, and what a run leaves, stopped and resumed or not."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest
from helpers.runs import assert_same_run, without_timings
from helpers.small import SMALL

from curious_jax import config as configs
from curious_jax import train
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.learner import trainer
from curious_jax.learner.state import policy_params
from curious_jax.run import folder as runfolder
from curious_jax.run import milestones, policies


@pytest.mark.parametrize(
    ("mean", "number", "passed"),
    [(-1.0, 5, -5), (0.0, 5, 0), (0.19, 5, 0), (0.2, 5, 1), (0.6, 5, 3), (0.29, 100, 29), (1.0, 5, 4), (0.7, 1, 0)],
)
def test_the_marks_are_at_even_shares_of_success(mean, number, passed):
    assert milestones.mark(mean, number) == passed


def test_an_evaluation_is_kept_when_it_is_the_first_to_pass_a_mark():
    best, kept = -1.0, []
    for episodes, mean in enumerate((0.1, 0.25, 0.2, 0.3, 0.7, 0.6, 0.9, 1.0)):
        kept += [episodes] if milestones.is_due(mean, best, 5) else []
        best = max(best, mean)
    assert kept == [1, 4, 6]  # 0.25 passes 0.2; 0.7 passes 0.4 and 0.6 at once; 0.9 passes 0.8
    assert not milestones.is_due(1.0, -1.0, 0) and not milestones.is_due(1.0, -1.0, 1)


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    """The folder of a small run that keeps policies: the untrained one, and those of two passed marks."""
    folder = tmp_path_factory.mktemp("runs") / "kept"
    assert train.main([*SMALL, *KEEP, "--out", str(folder)]) == 0
    return folder


KEEP = ("--keep-policies", "100", "--distractors", "1", "--episodes", "32")


def test_a_run_keeps_the_untrained_policy_and_those_that_pass_a_mark(kept_run):
    rows = runfolder.read_rows(kept_run)
    best, due = -1.0, [0]
    for row in rows:
        due += [row["episodes"]] if milestones.is_due(row["eval/success"], best, 100) else []
        best = max(best, row["eval/success"])
    assert milestones.find(kept_run) == due and len(due) > 1
    assert policies.find(kept_run, str(due[1])).info["mean_success"] == [rows[due[1] // 8 - 1]["eval/success"]]
    untrained = policies.load(kept_run, "0")
    config = dataclasses.replace(untrained.config, num_seeds=1)
    fresh = policy_params(trainer.init(config, environment.make_env(config)))
    jax.tree.map(np.testing.assert_array_equal, untrained.params, fresh)


def test_keeping_changes_no_figure_and_no_other_file(kept_run, finished_run):
    """finished_run has half as many episodes, and the same settings otherwise."""
    rows = [without_timings(runfolder.read_rows(run)) for run in (kept_run, finished_run)]
    assert rows[0][:2] == rows[1]
    assert milestones.find(finished_run) == []
    names = [{path.name for path in run.iterdir()} for run in (kept_run, finished_run)]
    assert names[0] == names[1]


@pytest.mark.slow
def test_a_resumed_run_keeps_the_same_policies(kept_run, small, tmp_path, capsys):
    half = tmp_path / "half"
    assert train.main([*small, *KEEP[:4], "--out", str(half)]) == 0
    shutil.copytree(kept_run / "policies" / "0", half / "policies" / "24")  # kept after the checkpoint, then killed
    assert train.main(["--resume", str(half), "--episodes", "32"]) == 0
    assert_same_run(kept_run, half)
    assert milestones.find(half) == milestones.find(kept_run)
    for number in milestones.find(half):
        pair = [policies.load(run, str(number)).params for run in (kept_run, half)]
        jax.tree.map(np.testing.assert_array_equal, *pair)


def test_what_is_kept_after_a_checkpoint_goes(tmp_path):
    config = configs.make_config(world="point")
    for name in ("0", "8", "24", "last"):
        policies.save(tmp_path / "policies" / name, {"w": np.zeros(2)}, config, {"episodes": 8})
    milestones.remove_later(tmp_path, 8)
    assert milestones.find(tmp_path) == [0, 8] and (tmp_path / "policies" / "last").is_dir()


def test_a_policy_that_was_not_kept_is_refused_with_those_that_were(kept_run, finished_run):
    with pytest.raises(ConfigError, match=r"no policy was kept after 7 episodes; there is 0, "):
        policies.find(kept_run, "7")
    with pytest.raises(ConfigError, match=r"there is none \(train with --keep-policies N\)"):
        policies.find(finished_run, "7")
