"""When checkpoints are written, how many stay, in which order things reach the disk, and what is left on failure."""

import dataclasses
import errno
import functools
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax import fit, train
from curious_jax.cli import environment
from curious_jax.learner import trainer
from curious_jax.learner.state import TrainState
from curious_jax.run import checkpoints, manifest, policies, writer
from curious_jax.run import folder as runfolder

ROOT = Path(__file__).parents[2]
SMALL_RUN = dict(world="point", modules=("reach", "push"), num_envs=4, capacity=8, hidden_size=8, hidden_layers=1)


@functools.cache
def beginning():
    """(config, env, state) before the first cycle."""
    config = configs.make_config(**SMALL_RUN)
    env = environment.make_env(config)
    return config, env, trainer.init(config, env)


def moment(cycles):
    """A run of 4 environments between two cycles."""
    config, env, state = beginning()
    return dataclasses.replace(fit.begin(config, env, state), cycles=cycles, train_s=2.0)


@pytest.fixture
def make(tmp_path):
    """make(**settings) -> (saver, its checkpoints folder, a list of notes)."""
    made = []

    def make(**settings):
        config, notes = configs.make_config(**SMALL_RUN, **settings), []
        run = runfolder.claim(config, str(tmp_path / "run"))
        made.append(checkpoints.Saver(run, config, beginning()[1], notes.append))
        return made[-1], tmp_path / "run" / "checkpoints", notes

    yield make
    for saver in made:
        saver.close()


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def full_disk(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# When.


def test_the_first_cycles_then_minutes_or_episodes(make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    saver, _, _ = make(checkpoint_minutes=2, checkpoint_episodes=40)
    assert saver.due(moment(1))
    saver.start(moment(1), 0.5)
    saver.close()
    assert not saver.due(moment(10)) and saver.due(moment(11))
    now[0] = 119.0
    assert not saver.due(moment(2))
    now[0] = 120.0
    assert saver.due(moment(2))


def test_minutes_can_be_switched_off(make, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now[0])
    saver, _, _ = make(checkpoint_minutes=0)
    saver.finish(moment(1), 0.5)
    now[0] = 1e9
    assert not saver.due(moment(1000))


def test_no_second_one_while_one_is_written(make, monkeypatch):
    saver, folder, _ = make(checkpoint_episodes=1)
    seal, going = manifest.seal, threading.Event()
    monkeypatch.setattr(manifest, "seal", lambda *args: (going.wait(60), seal(*args)))
    saver.start(moment(1), 0.5)
    assert not saver.due(moment(9))
    going.set()
    saver.close()
    assert saver.due(moment(9)) and names(folder) == ["80"]


# What.


@pytest.mark.parametrize("keep, left", [(1, ["480"]), (2, ["240", "480"])])
def test_the_last_ones_stay(make, keep, left):
    saver, folder, _ = make(keep_checkpoints=keep)
    for cycles in (1, 3, 6):
        saver.finish(moment(cycles), 0.5)
    assert names(folder) == left
    info = json.loads((folder / "480" / "info" / "metadata").read_text())
    assert (info["format"], info["best"], info["progress"]["cycles"]) == (checkpoints.FORMAT, 0.5, 6)


def test_what_is_written_is_the_state_at_that_time(make, monkeypatch):
    """Also when the next cycle overwrites the arrays while orbax writes."""
    seal, going = manifest.seal, threading.Event()
    monkeypatch.setattr(manifest, "seal", lambda *args: (going.wait(60), seal(*args)))
    saver, folder, _ = make()
    config = configs.make_config(**SMALL_RUN)
    state = trainer.init(config, beginning()[1])
    wanted = jax.tree.map(lambda x: np.array(jax.random.key_data(x) if x.dtype == state.key.dtype else x), state)
    saver.start(dataclasses.replace(moment(1), state=state), 0.5)

    @functools.partial(jax.jit, donate_argnums=0)
    def overwrite(state):
        return jax.tree.map(lambda x: x if x.dtype == state.key.dtype else jnp.ones_like(x), state)

    overwrite(overwrite(state))
    going.set()
    saver.close()
    like = jax.eval_shape(lambda: checkpoints.tree(trainer.init(config, beginning()[1]), moment(1).total))
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like)
    found = TrainState(**writer.read(folder / "80" / "state", like)["state"])
    found = jax.tree.map(lambda x: jax.random.key_data(x) if x.dtype == state.key.dtype else x, found)
    jax.tree.map(np.testing.assert_array_equal, found, wanted)


def test_steps_beyond_int32_name_a_checkpoint(make):
    saver, folder, _ = make()
    saver.finish(moment(26_843_545), 0.5)  # 4 environments, 20 steps each
    saver.finish(moment(26_843_546), 0.5)
    assert names(folder) == ["2147483680"]


@pytest.mark.parametrize("settings", [dict(learner="td3"), dict(algorithm="mgme")])
def test_keys_in_a_learner_s_state_are_no_numbers(settings):
    config = configs.make_config(**{**SMALL_RUN, **settings})
    assert checkpoints.not_finite(trainer.init(config, environment.make_env(config))) == []


def test_not_finite_names_the_arrays():
    learner = moment(1).state.learner
    assert checkpoints.not_finite(moment(1).state) == []
    broken = learner.replace(actor=jax.tree.map(lambda x: x * jnp.inf, learner.actor))
    found = checkpoints.not_finite(moment(1).state.replace(learner=broken))
    assert found and all(name.startswith(".actor") for name in found)
    assert not trainer.is_finite(moment(1).state.replace(learner=broken), moment(1).total)


# In which order.


@pytest.fixture
def record(monkeypatch):
    """The files and folders that are synced, renamed and removed, in that order."""
    events = []
    real = {name: getattr(os, name) for name in ("fsync", "rename", "replace")}
    monkeypatch.setattr(
        os, "fsync", lambda fd: (events.append(("sync", os.readlink(f"/proc/self/fd/{fd}"))), real["fsync"](fd))[1]
    )
    for name in ("rename", "replace"):
        monkeypatch.setattr(
            os, name, lambda a, b, name=name: (events.append(("rename", str(a), str(b))), real[name](a, b))[1]
        )
    return events


def assert_on_disk(events, new, final, parts):
    """Every file and folder was synced under its scratch name, then renamed, then its parent synced; events after."""
    renamed = events.index(("rename", str(new), str(final)))
    synced = {event[1] for event in events[:renamed] if event[0] == "sync"}
    for part in parts:
        for path in [final / part, *(final / part).rglob("*")]:
            assert str(new / path.relative_to(final)) in synced, path
    assert str(new) in synced
    assert any(name.startswith(f"{new}/.") for name in synced)  # the manifest, under its scratch name
    assert events[renamed + 1] == ("sync", str(final.parent))
    return events[renamed + 2 :]


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files come from /proc")
def test_a_checkpoint_is_on_the_disk_before_the_one_before_it_goes(make, record):
    saver, folder, _ = make()
    saver.finish(moment(1), 0.5)
    record.clear()
    saver.finish(moment(2), 0.5)
    assert record[0] == ("sync", str(folder.parent / "metrics.jsonl"))
    after = assert_on_disk(record, folder / "160.orbax-checkpoint-tmp", folder / "160", writer.PARTS)
    assert after[0][:2] == ("rename", str(folder / "80"))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="names of open files come from /proc")
def test_a_policy_is_on_the_disk_before_the_one_before_it_goes(tmp_path, record):
    config = configs.make_config(**SMALL_RUN)
    for _ in range(2):
        record.clear()
        policies.save(tmp_path / "last", {"x": np.ones(3)}, config, {"episodes": 1})
    assert_on_disk(record, tmp_path / ".last.new", tmp_path / "last", policies.PARTS)


# What is left when it fails.


def test_a_full_disk_leaves_the_checkpoint_before(make, monkeypatch):
    saver, folder, notes = make()
    saver.finish(moment(1), 0.5)
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "seal", full_disk)
        saver.start(moment(2), 0.5)
        saver.close()
        assert len(notes) == 1 and "No space left on device" in notes[0] and "tries again" in notes[0]
        with pytest.raises(checkpoints.SaveError, match="No space left on device.*--resume"):
            saver.finish(moment(3), 0.5)
        assert names(folder) == ["80"]
    saver.finish(moment(4), 0.5)
    assert names(folder) == ["320"]


def test_room_is_asked_for_before_writing(make, monkeypatch):
    saver, folder, _ = make()
    saver.finish(moment(1), 0.5)
    monkeypatch.setattr(writer.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(checkpoints.SaveError, match=r"No space left on device: 1.0 MiB wanted, 0.0 MiB free.*--resume"):
        saver.finish(moment(2), 0.5)
    assert names(folder) == ["80"]


def test_a_run_whose_last_checkpoint_fails_says_so(small, empty_folder, monkeypatch, capsys):
    monkeypatch.setattr(manifest, "seal", full_disk)
    assert train.main([*small, "--distractors", "1", "--out", "run"]) == 1
    error = capsys.readouterr().err
    assert (
        error.count("\n") == 1
        and "No space left on device" in error
        and error.endswith("start again with --config run/config.json\n")
    )
    assert json.loads((empty_folder / "run" / "summary.json").read_text())["status"] == "completed"


def test_the_way_on_is_one_that_resume_would_take(tmp_path):
    run = tmp_path / "a run"
    run.mkdir()
    assert checkpoints.way_on(run) == f"continue with --resume '{run}'"  # nothing is lost by beginning again
    (run / "metrics.jsonl").write_text("{}\n")
    assert checkpoints.way_on(run) == f"start again with --config '{run}/config.json'"
    (run / "checkpoints" / "160").mkdir(parents=True)
    assert checkpoints.way_on(run) == f"continue with --resume '{run}'"


def test_debris_is_no_checkpoint_and_goes(make):
    saver, folder, _ = make()
    saver.finish(moment(1), 0.5)
    for name in (".80.new", ".state-40.old", "160.orbax-checkpoint-tmp"):
        (folder / name).mkdir()
    assert [p.name for p in checkpoints.states(folder)] == ["80"]
    writer.clean(folder)
    assert names(folder) == ["80"]
