"""Runs resumed from a checkpoint equal undisturbed ones bit for bit; one that diverges keeps its last good state."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_same
from helpers.runs import assert_same_run, saved, without_timings

from curious_jax import config as configs
from curious_jax import fit, train
from curious_jax.cli import environment, parser
from curious_jax.config.fields import ESTIMATORS, GOALS
from curious_jax.learner import perturbation, trainer
from curious_jax.learner.state import no_metrics
from curious_jax.run import checkpoints, files, resume
from curious_jax.run import folder as runfolder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def setting(finished_run):
    """(config, env) of the finished run, with epochs of 4 cycles and 8 cycles in all."""
    config = configs.make_config(**parser.read_config(finished_run / "config.json"))
    schedule = dataclasses.replace(config.schedule, evaluation_interval=16, episodes=32)
    config = dataclasses.replace(config, schedule=schedule)
    return config, environment.make_env(config)


@pytest.mark.slow
def test_two_epochs_and_two_more_in_a_new_process_are_four_epochs(small, run, tmp_path, capsys):
    assert train.main([*small, "--distractors", "1", "--episodes", "32", "--out", str(tmp_path / "a")]) == 0
    with open(run / "metrics.jsonl", "a") as file:  # what an interrupted run may have left behind its checkpoint
        file.write(json.dumps({"episodes": 24, "eval/success": 9}) + '\n{"episodes": 3')
    (run / "checkpoints" / "999.orbax-checkpoint-tmp").mkdir()
    command = [sys.executable, "-m", "curious_jax.train", "--resume", str(run), "--episodes", "32"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_same_run(tmp_path / "a", run)
    assert [p.name for p in checkpoints.states(run / "checkpoints")] == ["640"]
    assert not list(run.rglob(".*"))
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (tmp_path / "a", run)]
    for key in ("status", "mean_success", "success", "episodes", "env_steps", "updates"):
        assert summaries[0][key] == summaries[1][key]
    assert (tmp_path / "a" / "config.json").read_text() == (run / "config.json").read_text()


def assert_halves_are_the_whole(options, tmp_path):
    """A run of 32 episodes, and one of 16 resumed to 32, have the same state and rows, bit for bit."""
    assert train.main([*options, "--episodes", "32", "--out", str(tmp_path / "whole")]) == 0
    assert train.main([*options, "--episodes", "16", "--out", str(tmp_path / "halves")]) == 0
    assert train.main(["--resume", str(tmp_path / "halves"), "--episodes", "32"]) == 0
    _, whole = saved(tmp_path / "whole")
    _, halves = saved(tmp_path / "halves")
    assert_same((whole.state, whole.total), (halves.state, halves.total))
    rows = [without_timings(runfolder.read_rows(tmp_path / name)) for name in ("whole", "halves")]
    assert rows[0] == rows[1] and len(rows[0]) == 4


@pytest.mark.slow
def test_guidance_mirror_images_and_the_average_policy_resume_bit_for_bit(small, tmp_path, capsys):
    options = [*small, "--modules", "reach,drag", "--guide", "0.7", "--mirror", "on", "--distractors", "1"]
    options += ["--policy-average", "0.3"]
    assert_halves_are_the_whole(options, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [("--estimator", name) for name in ESTIMATORS[1:]] + [("--goals", name) for name in GOALS[1:]],
    ids=lambda choice: choice[1],
)
def test_every_curriculum_resumes_bit_for_bit(small, choice, tmp_path, capsys):
    options = [*small, *choice, "--distractors", "1", "--self-evaluation", "0.5", "--window", "4"]
    assert_halves_are_the_whole(options, tmp_path)


@pytest.mark.slow
def test_several_seeds_go_on_too(two_seed_run, tmp_path, capsys):
    run = shutil.copytree(two_seed_run, tmp_path / "two")
    before, _ = saved(run)
    assert train.main(["--resume", str(run), "--episodes", "24"]) == 0
    after, progress = saved(run)
    assert (before.episodes, after.episodes) == (16, 24)
    assert progress.state.key.shape == (2,)
    assert [(r["episodes"], r["seed"]) for r in runfolder.read_rows(run)[-2:]] == [(24, 5), (24, 6)]


def test_an_interruption_within_an_epoch_changes_nothing(setting, tmp_path, monkeypatch):
    config, env = setting
    whole = fit.fit(config, env)
    monkeypatch.setattr(fit, "SLICE_S", 0.0)  # a cycle at a time
    folder = runfolder.claim(config, str(tmp_path / "run"))
    kept = checkpoints.Saver(folder, config, env, print)

    def stop_within_the_epoch(progress):
        if progress.cycles == 3:
            kept.finish(progress, 0.5)
        return progress.cycles == 3

    first = fit.fit(config, env, stop_within_the_epoch)
    assert (first.status, first.cycles, first.rows) == ("interrupted", 3, ())
    kept.close()
    _, kept_progress = saved(tmp_path / "run")
    assert float(kept_progress.total.critic_loss) > 0 and kept_progress.train_s > 0
    second = fit.fit(config, env, start=kept_progress)
    assert_same(whole.state, second.state)
    assert without_timings(second.rows) == without_timings(whole.rows)
    assert [row["episodes"] for row in second.rows] == [16, 32]
    assert (second.status, second.mean_success) == (whole.status, whole.mean_success)


def test_a_checkpoint_holds_the_types_and_structure_of_a_run(run):
    found, progress = saved(run)
    like = jax.eval_shape(lambda: trainer.init(found.config, environment.make_env(found.config)))
    assert jax.tree.structure(like) == jax.tree.structure(progress.state)
    shapes = [[(x.shape, x.dtype) for x in jax.tree.leaves(tree)] for tree in (like, progress.state)]
    assert shapes[0] == shapes[1]
    assert jnp.issubdtype(progress.state.key.dtype, jax.dtypes.prng_key)
    assert int(progress.state.cycle) == 4 == progress.cycles


@pytest.mark.slow
def test_env_steps_go_on_beyond_int32(small, tmp_path, capsys):
    """A run of 10 environments and 20 steps is set to 2,147,483,000 steps; an epoch of 4 cycles has 800."""
    options = ["--num-envs", "10", "--evaluation-interval", "40", "--distractors", "1"]
    run, cycles = tmp_path / "run", 2_147_483_000 // (10 * 20)
    assert train.main([*small, *options, "--out", str(run)]) == 0
    found, progress = saved(run)
    state = progress.state.replace(cycle=jnp.int32(cycles))
    files.remove(found.path)
    folder = runfolder.reopen(run)
    schedule = dataclasses.replace(found.config.schedule, episodes=10 * cycles + 40)
    shifted = dataclasses.replace(found.config.perturbation, perturb_at=107374160, perturb_cube=1)
    config = dataclasses.replace(found.config, schedule=schedule, perturbation=shifted)
    folder.go_on(config, 0)
    saver = checkpoints.Saver(folder, config, environment.make_env(config), print)
    nothing = no_metrics(found.config)
    saver.finish(dataclasses.replace(progress, config=config, state=state, total=nothing, cycles=cycles), 0.0)
    saver.close()
    folder.close()
    assert train.main(["--resume", str(run)]) == 0
    assert [p.name for p in checkpoints.states(run / "checkpoints")] == ["2147483800"]
    row = runfolder.read_rows(run)[-1]
    assert (row["env_steps"], row["episodes"]) == (2_147_483_800, 107_374_190)
    assert json.loads((run / "summary.json").read_text())["env_steps"] == 2_147_483_800
    found, progress = saved(run)
    assert int(progress.state.cycle) == progress.cycles == cycles + 4
    shift = perturbation.offset(
        found.config.perturbation, environment.make_env(found.config), progress.state.cycle * 10
    )
    assert float(jnp.abs(shift).max()) == pytest.approx(0.05)


def test_a_finished_run_has_nothing_left_to_do(run, capsys):
    before = runfolder.read_rows(run)
    (run / "summary.json").unlink()  # as if it was killed just before
    assert train.main(["--resume", str(run)]) == 0
    assert "all 16 episodes are done: --episodes N goes further" in capsys.readouterr().out
    assert runfolder.read_rows(run) == before
    assert json.loads((run / "summary.json").read_text())["status"] == "completed"


def test_a_run_that_reached_its_target_stays_there(small, tmp_path, capsys):
    run = tmp_path / "run"
    assert train.main([*small, "--distractors", "1", "--target-success", "0", "--out", str(run)]) == 0
    first = json.loads((run / "summary.json").read_text())
    assert train.main(["--resume", str(run)]) == 0
    second = json.loads((run / "summary.json").read_text())
    for key in ("status", "mean_success", "success", "episodes", "reached"):
        assert first[key] == second[key]


def test_a_run_that_reached_its_target_continues_to_another(small, tmp_path, capsys):
    run = tmp_path / "run"
    assert train.main([*small, "--distractors", "1", "--target-success", "0", "--out", str(run)]) == 0
    before = json.loads((run / "summary.json").read_text())["episodes"]
    capsys.readouterr()
    assert train.main(["--resume", str(run)]) == 0
    assert "the target of 0 was reached: --target-success X, or none, goes further" in capsys.readouterr().out
    assert train.main(["--resume", str(run), "--target-success", "none"]) == 0
    after = json.loads((run / "summary.json").read_text())
    assert after["status"] == "completed" and after["episodes"] > before and "reached" not in after


def test_a_run_that_diverges_keeps_its_last_good_checkpoint_and_a_dump(run, monkeypatch, capsys):
    def load_with_a_nan(*args):
        progress = load(*args)
        learner = progress.state.learner
        critic = jax.tree.map(lambda x: x.at[(0,) * x.ndim].set(jnp.nan), learner.critic)
        return dataclasses.replace(progress, state=progress.state.replace(learner=learner.replace(critic=critic)))

    load = resume.load
    monkeypatch.setattr(resume, "load", load_with_a_nan)
    exported = (run / "policies" / "last" / "policy.json").read_text()
    assert train.main(["--resume", str(run), "--episodes", "32"]) == 3
    assert json.loads((run / "summary.json").read_text())["status"] == "diverged"
    assert [p.name for p in checkpoints.states(run / "checkpoints")] == ["320"]
    assert (run / "policies" / "last" / "policy.json").read_text() == exported
    (dumped,) = (run / "checkpoints" / "diverged").iterdir()
    report = json.loads((dumped / "info" / "metadata").read_text())["diverged"]
    assert any("critic" in name for name in report["not_finite"])
    assert report["last_good"] == "320" and report["reproduce"].endswith(f"--resume {run}")
    good = resume.find(run)
    dump = dataclasses.replace(good, path=dumped, info=resume.read_info(dumped))
    broken = load(dump, dump.config, environment.make_env(dump.config))
    assert not trainer.is_finite(broken.state, broken.total) and int(broken.state.cycle) > 4

    monkeypatch.setattr(resume, "load", load)
    assert train.main(["--resume", str(run)]) == 0  # config.json asks for the 32 episodes now
    _, progress = saved(run)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(progress.state.learner))
