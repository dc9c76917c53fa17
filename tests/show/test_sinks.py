"""Sinks: each takes rows and none needs what is not installed."""

import importlib.util
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.rows import row

import curious_jax
from curious_jax import config as configs
from curious_jax import train
from curious_jax.errors import ConfigError
from curious_jax.show import page, sinks


def events(folder):
    """Reads the events of a folder's one event file."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    (path,) = folder.iterdir()
    data, found = path.read_bytes(), []
    while data:  # length, its checksum, event, its checksum
        size = int.from_bytes(data[:8], "little")
        found.append(event_pb2.Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    return found


def tensorboard_scalars(tmp_path, rows, after=None):
    """Returns {(tag, step): value} of what a sink writes of the rows, and its events."""
    pytest.importorskip("tensorboardX")
    sink = sinks.TensorBoard(tmp_path / "tensorboard", after)
    sink.evaluation(rows)
    sink.close()
    found = events(tmp_path / sinks.TENSORBOARD)
    return {(v.tag, event.step): v.simple_value for event in found for v in event.summary.value}, found


def test_tensorboard_gets_finite_numbers_against_episodes(tmp_path):
    scalars, _ = tensorboard_scalars(tmp_path, [row(10, 0.5, **{"train/q_mean": float("nan")})])
    assert scalars["eval/success/reach", 10] == 0.5
    assert ("train/q_mean", 10) not in scalars
    assert not any(tag in sinks.COUNTERS for tag, _ in scalars)


def test_tensorboard_leaves_pytorch_alone(tmp_path):
    """Importing it takes seconds, and ends the process where the current folder is gone."""
    pytest.importorskip("tensorboardX")
    (tmp_path / "torch.py").write_text("raise SystemExit('torch is imported')")
    program = (
        "import pathlib, sys; from curious_jax.show import sinks; "
        f"sinks.TensorBoard(pathlib.Path({str(tmp_path / 'made')!r})).close(); assert 'torch' not in sys.modules"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {program}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_tensorboard_keeps_seeds_apart(tmp_path):
    scalars, _ = tensorboard_scalars(tmp_path, [row(10, 0.5, seed=3), row(10, 1.0, seed=4)])
    assert scalars["seed3/eval/success/reach", 10] == 0.5
    assert scalars["seed4/eval/success/reach", 10] == 1.0


def test_tensorboard_hides_what_a_resumed_run_does_again(tmp_path):
    _, found = tensorboard_scalars(tmp_path, [row(20)], after=10)
    assert [event.step for event in found if event.session_log.status] == [11]


def test_a_full_disk_ends_tensorboard_in_the_caller_and_without_a_wait(tmp_path):
    pytest.importorskip("tensorboardX")
    (tmp_path / sinks.TENSORBOARD).mkdir()
    sink = sinks.TensorBoard(tmp_path / "tensorboard")
    sink._file._py_recordio_writer._writer = open("/dev/full", "wb", buffering=0)
    threads = threading.active_count()
    for _ in range(20):
        with pytest.raises(OSError, match="No space left"):
            sink.evaluation([row(10)])
    assert threading.active_count() == threads


def test_curves_are_drawn_at_first_then_rarely_and_at_the_end(monkeypatch, tmp_path):
    now, drawn = [0.0], []

    def png(rows, title):
        drawn.append(len(rows))
        now[0] += 1.0  # a second to draw
        return b""

    monkeypatch.setattr(sinks.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sinks.curves, "png", png)
    sink = sinks.Curves(tmp_path / "curves.png", "", share=0.1)
    sink.evaluation([row(10)])
    sink.evaluation([row(20)])
    assert drawn == [1]
    now[0] = 11.5  # ten times the drawing later
    sink.evaluation([row(30)])
    assert drawn == [1, 3]
    sink.close()
    assert drawn == [1, 3]
    sink.evaluation([row(40)])
    sink.close()
    assert drawn == [1, 3, 4]


def test_a_run_that_was_killed_before_its_last_picture_is_drawn_when_it_is_resumed(tmp_path):
    sinks.Curves(tmp_path / "curves.png", "", earlier=[row(10)]).close()
    assert (tmp_path / "curves.png").exists()


def test_the_page_is_written_at_the_end_even_when_nothing_is_left_to_train(tmp_path):
    pytest.importorskip("plotly")
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row(10)) + "\n")
    sinks.Report(tmp_path).close()
    assert (tmp_path / page.REPORT).exists()


class Broken:
    def __init__(self, when):
        self.when, self.calls = when, []

    def evaluation(self, rows):
        self.calls.append("evaluation")
        if self.when == "evaluation":
            raise RuntimeError("the disk\nis full")

    def close(self):
        self.calls.append("close")
        if self.when == "close":
            raise OSError("gone")


def test_an_optional_sink_that_fails_says_so_once_and_is_left_alone():
    notes, broken = [], Broken("evaluation")
    sink = sinks.Optional("tensorboard", broken, notes.append)
    for _ in range(3):
        sink.evaluation([row(10)])
    sink.close()
    assert notes == ["tensorboard: the disk is full; the run continues without it"]
    assert broken.calls == ["evaluation"]
    sinks.Optional("wandb", Broken("close"), notes.append).close()
    assert notes[1:] == ["wandb: gone; the run continues without it"]


def test_a_sink_that_cannot_begin_does_not_end_the_run(monkeypatch, tmp_path):
    def broken():
        raise OSError("no room")

    monkeypatch.setattr(sinks, "makers", lambda *args: {"tensorboard": broken})
    notes = []
    assert sinks.optional(tmp_path, configs.make_config(), notes.append) == []
    assert notes == ["tensorboard: no room; the run continues without it"]


class Kept:
    """Keeps what it is made with and told."""

    def __init__(self, folder, config, after):
        self.made, self.rows = (folder, config, after), []

    def evaluation(self, rows):
        self.rows += rows

    def close(self):
        self.rows.append("closed")


def test_a_registered_sink_gets_plain_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(sinks, "_OWN", {})
    monkeypatch.setattr(page, "available", lambda: False)
    kept, config, notes = [], configs.make_config(), []
    curious_jax.register_sink("mine", lambda *given: kept.append(Kept(*given)) or kept[0])
    found = sinks.optional(tmp_path, config, notes.append, 30)
    for sink in found:
        sink.evaluation([row(40) | {"train/q_mean": np.float32(0.5), "train/loss": np.float32("nan")}])
        sink.close()
    assert notes == [] and kept[0].made == (tmp_path, config, 30)
    told, closed = kept[0].rows
    assert json.loads(json.dumps(told))["train/q_mean"] == 0.5 and told["train/loss"] is None and closed == "closed"


@pytest.mark.parametrize("name", ["", "a b", "tensorboard", "wandb"])
def test_names_that_sinks_cannot_have(name):
    with pytest.raises(ConfigError, match=f"sink {name}: "):
        sinks.register(name, Kept)


def test_nothing_optional_is_needed(monkeypatch, tmp_path):
    for name in ("tensorboardX", "tensorboard", "tensorboard.summary"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(page, "available", lambda: False)
    notes = []
    assert not {"tensorboard", page.REPORT, "wandb"} & sinks.makers(tmp_path, configs.make_config(), None, None).keys()
    sinks.optional(tmp_path, configs.make_config(), notes.append)
    assert notes == []
    assert not (tmp_path / sinks.TENSORBOARD).exists()


def test_wandb_is_refused_where_it_is_not_installed(small, refuse, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "wandb" else found(n, *a))
    assert 'pip install "curious_jax[wandb]"' in refuse(train, *small, "--wandb")


def test_wandb_projects_that_cannot_be(small, refuse, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda *a: object())
    assert "--wandb a/b: a project's name has" in refuse(train, *small, "--wandb", "a/b")


class FakeWandB:
    """Stands in for the package and for its run: a server that keeps what is logged by the run's id."""

    def __init__(self):
        self.made, self.logged, self.summary = [], [], {}

    def init(self, **given):
        self.made.append((given["id"], given["resume"]))
        return self

    def Settings(self, **given):
        return given

    def define_metric(self, *given, **named):
        pass

    def log(self, row):
        self.logged.append(row["episodes"])
        self.summary.update(row)


def test_a_resumed_run_logs_no_evaluation_twice(monkeypatch, tmp_path):
    """It begins at its last checkpoint, before what it had logged when it was killed."""
    server = FakeWandB()
    monkeypatch.setitem(sys.modules, "wandb", server)
    config = configs.make_config()
    first = sinks.WandB(tmp_path, config, "mine")
    for episodes in (10, 20, 30):
        first.evaluation([row(episodes)])
    (tmp_path / "wandb" / "run-20260101_120000-my-own-id").mkdir(parents=True)
    (tmp_path / "wandb" / "latest-run").mkdir()
    again = sinks.WandB(tmp_path, config, "mine")
    for episodes in (20, 30, 40):
        again.evaluation([row(episodes)])
    assert server.logged == [10, 20, 30, 40]
    assert server.made == [(None, None), ("my-own-id", "allow")]
    server.summary = {}  # of a run without network
    (tmp_path / "wandb" / "offline-run-20260101_130000-my-own-id").mkdir()
    sinks.WandB(tmp_path, config, "mine").evaluation([row(40)])
    assert server.logged[-2:] == [40, 40] and server.made[-1] == ("my-own-id", "allow")


@pytest.mark.slow
def test_wandb_offline_gets_the_run_and_goes_on_with_it(small, tmp_path):
    pytest.importorskip("wandb")
    homes = {f"WANDB_{name}_DIR": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **homes, "WANDB_MODE": "offline", "PYTHONPATH": str(Path(__file__).parents[2])}
    run = tmp_path / "run"
    for options in (
        [*small, "--out", str(run), "--wandb", "mine"],
        ["--resume", str(run), "--episodes", "24", "--wandb"],
    ):
        command = [sys.executable, "-m", "curious_jax.train", *options]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0 and "continues without it" not in done.stdout, done.stdout + done.stderr
    files = sorted((run / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2 and len({path.name for path in files}) == 1  # two programs, one run
    text = files[0].read_bytes()
    for word in (b"eval/success/reach", b"p_module/push", b"mine", b"hindsight_probability"):
        assert word in text
    assert sorted(p.name for p in tmp_path.iterdir() if p.is_dir() and p.name.startswith("wandb")) == []
