"""What cannot be resumed is refused in a line that names it: other settings, damage, folders of others."""

import dataclasses
import fcntl
import json
import shutil

import jax
import numpy as np
import pytest
from helpers.parts import assert_same
from helpers.runs import saved

from curious_jax import train
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.run import checkpoints, files, manifest, resume, writer
from curious_jax.run import folder as runfolder


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
    assert resume.merge_settings(found, {"modules": ("reach", "push"), "hidden_size": 8}) == found.config
    assert resume.merge_settings(found, {"episodes": 40}).schedule.episodes == 40


def test_a_run_does_not_end_before_its_sensor_fails(run):
    found = resume.find(run)
    schedule = dataclasses.replace(found.config.schedule, episodes=40)
    fails = dataclasses.replace(found.config.perturbation, perturb_at=30)
    found = dataclasses.replace(found, config=dataclasses.replace(found.config, schedule=schedule, perturbation=fails))
    with pytest.raises(ConfigError, match="^--episodes 20: the sensor fails after 30; give as many or more$"):
        resume.merge_settings(found, {"episodes": 20})


def test_folders_without_a_checkpoint_are_refused(refuse, run, tmp_path):
    assert "no such folder" in refuse(train, *refused(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run" in refuse(train, *refused(tmp_path / "empty"))
    files.remove(run / "checkpoints" / "320")
    line = refuse(train, *refused(run))
    assert "holds no checkpoint" in line and f"--config {run / 'config.json'}" in line


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_info(run, change, step="320"):
    """Changes what the checkpoint says of itself, and its checksum with it."""
    checkpoint = run / "checkpoints" / step
    path = checkpoint / "info" / "metadata"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    manifest.seal(checkpoint, writer.PARTS)


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
