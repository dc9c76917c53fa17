"""When checkpoints are written, how many stay, and what is left when writing fails."""

import dataclasses
import errno
import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax import fit, train
from curious_jax.cli import program
from curious_jax.learner import trainer
from curious_jax.run import checkpoints

ROOT = Path(__file__).parents[2]


SMALL_RUN = dict(world="point", modules=("reach", "push"), num_envs=4, capacity=8, hidden_size=8, hidden_layers=1)


@functools.cache
def beginning():
    """(env, state, total) before the first cycle."""
    config = configs.make_config(**SMALL_RUN)
    env = program.make_env(config)
    return env, trainer.init(config, env), trainer.no_metrics(config)


def make(tmp_path, **settings):
    """(saver, its folder, a list of notes, moment(cycles)) of a run of 4 environments."""
    config, notes = configs.make_config(**SMALL_RUN, **settings), []
    env, state, total = beginning()

    def moment(cycles):
        return fit.Moment(state, total, fit.Progress(cycles, [0], [None], 1.0, 2.0, 3.0, 0.5))

    folder = tmp_path / "run" / "checkpoints"
    return checkpoints.Saver(folder, config, env, notes.append), folder, notes, moment


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_first_cycles_then_minutes_or_episodes(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    kept, _, _, moment = make(tmp_path, checkpoint_minutes=2, checkpoint_episodes=40)
    assert kept.due(moment(1))
    kept.start(moment(1), 0.5)
    kept.close()
    assert not kept.due(moment(10)) and kept.due(moment(11))
    now[0] = 119.0
    assert not kept.due(moment(2))
    now[0] = 120.0
    assert kept.due(moment(2))


def test_minutes_can_be_switched_off(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    kept, _, _, moment = make(tmp_path, checkpoint_minutes=0)
    kept.finish(moment(1), 0.5)
    now[0] = 1e9
    assert not kept.due(moment(1000))


def test_no_second_one_while_one_is_written(tmp_path, monkeypatch):
    kept, folder, _, moment = make(tmp_path, checkpoint_episodes=1)
    write = checkpoints.write
    monkeypatch.setattr(checkpoints, "write", lambda *args: (time.sleep(0.5), write(*args)))
    kept.start(moment(1), 0.5)
    assert not kept.due(moment(9))
    kept.close()
    assert kept.due(moment(9)) and names(folder) == ["state-80"]


@pytest.mark.parametrize("keep, left", [(1, ["state-480"]), (2, ["state-240", "state-480"])])
def test_the_last_ones_stay(tmp_path, keep, left):
    kept, folder, _, moment = make(tmp_path, keep_checkpoints=keep)
    for cycles in (1, 3, 6):
        kept.finish(moment(cycles), 0.5)
    assert names(folder) == left
    info = json.loads((folder / "state-480" / "run.json").read_text())
    assert (info["format"], info["best"], info["progress"]["cycles"]) == (checkpoints.FORMAT, 0.5, 6)


def test_what_is_written_is_the_state_at_that_time(tmp_path):
    x = jnp.arange(4.0)
    tree = checkpoints.to_host({"x": x, "key": jax.random.key(3)})
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(tree["x"], np.arange(4.0))
    np.testing.assert_array_equal(tree["key"], [0, 3])


def full_disk(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    kept, folder, notes, moment = make(tmp_path)
    kept.finish(moment(1), 0.5)
    monkeypatch.setattr(checkpoints.runfolder, "write_json", full_disk)
    kept.start(moment(2), 0.5)
    kept.close()
    assert len(notes) == 1 and "No space left on device" in notes[0] and "tries again" in notes[0]
    with pytest.raises(checkpoints.SaveError, match="No space left on device.*--resume"):
        kept.finish(moment(3), 0.5)
    assert names(folder) == ["state-80"]


def test_room_is_asked_for_before_writing(tmp_path, monkeypatch):
    kept, folder, notes, moment = make(tmp_path)
    kept.finish(moment(1), 0.5)
    monkeypatch.setattr(checkpoints.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(checkpoints.SaveError, match=r"No space left on device: 1.0 MiB wanted, 0.0 MiB free.*--resume"):
        kept.finish(moment(2), 0.5)
    assert names(folder) == ["state-80"]


def test_a_run_whose_last_checkpoint_fails_says_so(small, empty_folder, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "write", full_disk)
    assert train.main([*small, "--distractors", "1", "--out", "run"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "No space left on device" in error and error.endswith("begin anew\n")
    assert json.loads((empty_folder / "run" / "summary.json").read_text())["status"] == "completed"


def test_debris_is_no_checkpoint_and_goes(tmp_path):
    kept, folder, _, moment = make(tmp_path)
    kept.finish(moment(1), 0.5)
    for name in (".state-160.new", ".state-40.old", ".diverged.new"):
        (folder / name).mkdir()
    assert [p.name for p in checkpoints.states(folder)] == ["state-80"]
    checkpoints.clean(folder)
    assert names(folder) == ["state-80"]


def test_steps_beyond_int32_name_a_checkpoint(tmp_path):
    kept, folder, _, moment = make(tmp_path)
    kept.finish(moment(26_843_545), 0.5)  # 4 environments, 20 steps each
    kept.finish(moment(26_843_546), 0.5)
    assert names(folder) == ["state-2147483680"]


def test_not_finite_names_the_arrays(tmp_path):
    _, _, _, moment = make(tmp_path)
    learner = moment(1).state.learner
    assert checkpoints.not_finite(moment(1).state) == []
    broken = learner.replace(actor=jax.tree.map(lambda x: x * jnp.inf, learner.actor))
    found = checkpoints.not_finite(moment(1).state.replace(learner=broken))
    assert found and all(name.startswith(".actor") for name in found)
    assert not trainer.finite(dataclasses.replace(moment(1)).state.replace(learner=broken), moment(1).total)


WRITING = """
import itertools, sys, numpy as np
from pathlib import Path
from curious_jax import saver
for number in itertools.count(1):
    tree = {"x": np.full((1000, 1000), float(number)), "y": [np.full(100, number)] * 20}
    print(number, flush=True)
    saver.write(Path(sys.argv[1]) / f"state-{number}", tree, {"number": number})
    for old in saver.states(Path(sys.argv[1]))[:-1]:
        saver._remove(old)
"""


@pytest.mark.slow
def test_a_kill_while_writing_leaves_a_whole_checkpoint(tmp_path):
    import orbax.checkpoint as ocp

    random = np.random.default_rng(1)
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        while int(process.stdout.readline()) < 3:
            pass
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.wait()
        checkpoints.clean(folder)
        assert names(folder) == [p.name for p in checkpoints.states(folder)]
        last = checkpoints.states(folder)[-1]
        number = json.loads((last / "run.json").read_text())["number"]
        with ocp.StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore(last / "state")
        assert last.name == f"state-{number}" and number >= 2
        assert np.all(tree["x"] == number) and all(np.all(y == number) for y in tree["y"])


@pytest.mark.slow
def test_kills_at_any_moment_never_cost_the_run(small, tmp_path):
    """SIGKILL, SIGINT and SIGTERM at random moments, most of them while a checkpoint is written."""
    options = [*small, "--distractors", "1", "--episodes", "2000"]
    options += ["--evaluation-interval", "200", "--checkpoint-episodes", "4"]
    command = [sys.executable, "-m", "curious_jax.train"]
    assert subprocess.run([*command, *options, "--out", str(tmp_path / "a")], cwd=ROOT).returncode == 0
    run, random = tmp_path / "b", np.random.default_rng(0)
    more = [*options, "--out", str(run)]
    for number in [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]:
        process = subprocess.Popen([*command, *more], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        before = checkpoints.states(run / "checkpoints")
        while process.poll() is None and checkpoints.states(run / "checkpoints") == before:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.5))
        process.send_signal(number)
        status, error = process.wait(120), process.stderr.read()
        assert status in (0, -signal.SIGKILL, 130, 143), error
        more = ["--resume", str(run)]
    assert subprocess.run([*command, *more], cwd=ROOT).returncode == 0
    from test_resume import assert_same_run

    assert_same_run(tmp_path / "a", run)
