"""Runs resumed from a checkpoint equal undisturbed ones bit for bit; what cannot be resumed is refused in a line."""

import dataclasses
import fcntl
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
from curious_jax.errors import ConfigError
from curious_jax.learner import perturbation, trainer
from curious_jax.learner.state import no_metrics
from curious_jax.run import checkpoints, files, manifest, resume
from curious_jax.run import folder as runfolder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of the finished run: 16 episodes, an evaluation at 8 and 16."""
    return shutil.copytree(finished_run, tmp_path / "copy")


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
def test_guidance_and_mirror_images_resume_bit_for_bit(small, tmp_path, capsys):
    options = [*small, "--modules", "reach,drag", "--guide", "0.7", "--mirror", "on", "--distractors", "1"]
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


# Refusals.


def refused(run, *argv):
    return ["--resume", str(run), *argv]


@pytest.mark.parametrize(
    "argv, mentions",
    [
        (["--modules", "reach"], "--modules reach: the run in {run} has reach,push"),
        (["--hidden-size", "16"], "--hidden-size 16: the run in {run} has 8"),
        (["--distractors", "3"], "--distractors 3: the run in {run} has 1"),
        (["--discount", "0.5"], "--discount 0.5: the run in {run} has 0.98"),
        (["--episodes", "8"], "--episodes 8: {run} has done 16"),
        (["--episodes", "x"], "--episodes x: must be a whole number"),
        (["--out", "other"], "--out other: a resumed run stays in its folder"),
    ],
    ids=lambda x: x[0].lstrip("-") if isinstance(x, list) else "",
)
def test_changed_options_are_refused(refuse, finished_run, argv, mentions):
    line = refuse(train, *refused(finished_run, *argv))
    assert mentions.format(run=finished_run) in line


def test_options_that_change_nothing_may_be_given(run):
    found = resume.find(run)
    assert resume.asked(found, {"modules": ("reach", "push"), "hidden_size": 8}) == found.config
    assert resume.asked(found, {"episodes": 40}).schedule.episodes == 40


def test_folders_without_a_checkpoint_are_refused(refuse, run, tmp_path):
    assert "no such folder" in refuse(train, *refused(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run" in refuse(train, *refused(tmp_path / "empty"))
    files.remove(run / "checkpoints" / "320")
    line = refuse(train, *refused(run))
    assert "holds no checkpoint" in line and f"--config {run / 'config.json'}" in line


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_info(run, change, step="320"):
    """Changes what the checkpoint says of itself, and its checksum with it."""
    checkpoint = run / "checkpoints" / step
    path = checkpoint / "info" / "metadata"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    manifest.seal(checkpoint, checkpoints.PARTS)


def test_newer_formats_are_refused(refuse, run):
    edit_info(run, lambda info: info | {"format": 3})
    line = refuse(train, *refused(run))
    assert "has format 3" in line and "reads 2; install a newer one" in line


@pytest.mark.parametrize("changes, both", [
    ({"modules": ["reach", "push2"]}, ("--modules reach,push2", "has reach,push;")),
    ({"distractors": 4}, ("--distractors 4", "has 1;")),
    ({"network": {"hidden_size": 9, "hidden_layers": 1}}, ("--hidden-size 9", "has 8;")),
])  # fmt: skip
def test_a_checkpoint_of_another_run_is_refused_naming_both(refuse, run, changes, both):
    edit(run / "config.json", **changes)
    line = refuse(train, *refused(run))
    assert all(part in line for part in both) and "320" in line


def second_checkpoint(run):
    """Trains on to 24 episodes and puts the checkpoint of 16 episodes back beside the new one."""
    first = shutil.copytree(run / "checkpoints" / "320", run.parent / "320")
    assert train.main(["--resume", str(run), "--episodes", "24"]) == 0
    shutil.copytree(first, run / "checkpoints" / "320")


def test_a_damaged_checkpoint_is_refused_in_one_line(refuse, run):
    array = max((run / "checkpoints" / "320" / "state").rglob("*"), key=lambda p: p.stat().st_size)
    flip(array, 100)
    line = refuse(train, *refused(run))
    assert "320: the checkpoint is damaged (state/" in line and "is not what was written" in line
    assert line.endswith(f"start again with --config {run / 'config.json'}")


def test_a_damaged_checkpoint_gives_way_to_the_one_before(run, capsys):
    second_checkpoint(run)
    (run / "checkpoints" / "480" / "manifest.json").unlink()
    capsys.readouterr()
    assert train.main(["--resume", str(run)]) == 0
    out = capsys.readouterr().out
    assert "from checkpoint 320" in out and "checkpoint 480 is damaged (manifest.json" in out
    assert [row["episodes"] for row in runfolder.read_rows(run)] == [8, 16, 24]
    assert [p.name for p in checkpoints.states(run / "checkpoints")] == ["480"]
    assert saved(run)[0].episodes == 24


@pytest.mark.parametrize(
    "change",
    [
        lambda info: info | {"progress": info["progress"] | {"cycles": 2}},
        lambda info: info | {"progress": info["progress"] | {"cycles": "x"}},
        lambda info: info | {"progress": None},
        lambda info: {k: v for k, v in info.items() if k != "best"},
        lambda info: {k: v for k, v in info.items() if k != "physics"},
        lambda info: [],
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_refused(refuse, run, change):
    edit_info(run, change)
    line = refuse(train, *refused(run))
    assert "320" in line and ("contradict" in line or "is damaged" in line)


# What an earlier version left.


@pytest.fixture
def old_run(run):
    """The finished run as an earlier version wrote it."""
    import orbax.checkpoint as ocp

    found, progress = saved(run)
    tree = checkpoints.tree(progress.state, progress.total)
    tree = jax.tree.map(lambda x: np.asarray(jax.random.key_data(x) if resume.is_key(x) else x), tree)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(run / "checkpoints" / "state-320" / "state", tree)
    info = {k: v for k, v in found.info.items() if k != "metrics"} | {"format": 1}
    (run / "checkpoints" / "state-320" / "run.json").write_text(json.dumps(info))
    shutil.rmtree(found.path)
    shutil.rmtree(run / "policies")
    return run


def test_an_old_run_continues(old_run, finished_run, capsys):
    assert_same(saved(old_run)[1].state, saved(finished_run)[1].state)
    assert train.main(["--resume", str(old_run), "--episodes", "24"]) == 0
    assert [p.name for p in checkpoints.states(old_run / "checkpoints")] == ["480"]
    assert [row["episodes"] for row in runfolder.read_rows(old_run)] == [8, 16, 24]


def test_a_damaged_old_checkpoint_is_refused(refuse, old_run):
    for file in (old_run / "checkpoints" / "state-320" / "state").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    assert "cannot be read" in refuse(train, *refused(old_run))
    (old_run / "checkpoints" / "state-320" / "run.json").write_text("{")
    assert "run.json is missing or damaged" in refuse(train, *refused(old_run))


# metrics.jsonl.


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: flip(path, 30),
        lambda path: path.write_text(path.read_text().split("\n")[1] + "\n"),
        lambda path: path.write_text(path.read_text().split("\n")[0] + "\n"),
        lambda path: path.write_bytes(path.read_bytes()[:-5]),
        lambda path: path.write_text("\n" + path.read_text()),
        lambda path: path.write_bytes(b"\0" * 50),
        lambda path: path.write_bytes(b"\xff" + path.read_bytes()),
    ],
    ids=["bit", "first row lost", "last row lost", "cut", "blank line", "zeros", "not UTF-8"],
)
def test_damaged_rows_before_the_checkpoint_are_refused(refuse, run, damage):
    damage(run / "metrics.jsonl")
    before = (run / "metrics.jsonl").read_bytes()
    line = refuse(train, *refused(run))
    assert "metrics.jsonl: rows before the checkpoint are damaged or missing" in line
    assert (run / "metrics.jsonl").read_bytes() == before


def test_a_lost_metrics_file_is_reported(run, capsys):
    (run / "metrics.jsonl").unlink()
    assert train.main(["--resume", str(run), "--episodes", "24"]) == 0
    assert "metrics.jsonl was empty: the rows up to 16 episodes are lost" in capsys.readouterr().out
    assert [row["episodes"] for row in runfolder.read_rows(run)] == [24]
    assert train.main(["--resume", str(run), "--episodes", "32"]) == 0


def test_a_run_that_is_under_way_is_refused(refuse, run):
    with open(run / "metrics.jsonl") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "a program is at work in it" in refuse(train, *refused(run))


def test_keys_of_another_kind_are_refused(run, monkeypatch):
    found = resume.find(run)
    found.info["key_impl"] = "rbg"
    with pytest.raises(ConfigError, match="JAX_DEFAULT_PRNG_IMPL=rbg"):
        resume.load(found, found.config, environment.make_env(found.config))


# Numbers that are no longer finite.


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
