"""Videos of a run under way: made at every Nth evaluation, into its folder; the run is worth more than any of them."""

import dataclasses
import importlib.util
from typing import NamedTuple

import jax
import numpy as np
import pytest
from helpers.rows import row
from helpers.runs import without_timings

from curious_jax import config as configs
from curious_jax import fit, train
from curious_jax.cli import environment
from curious_jax.learner.state import policy_params
from curious_jax.run import folder as runfolder
from curious_jax.show import page, playback, recordings
from curious_jax.types import Status

CONFIG = configs.make_config(
    **{"world": "point", "num_envs": 4, "capacity": 8, "hidden_size": 8, "hidden_layers": 1, "num_seeds": 2},
    **{"evaluation_interval": 8, "record_every": 2},
)


class Painter:
    """A renderer of grey pictures, which counts how often it was made and closed."""

    made = closed = 0

    def __init__(self):
        Painter.made += 1

    def frame(self, state, goals):
        return np.full((64, 80, 3), 120, np.uint8)

    def close(self):
        Painter.closed += 1


class Seen(NamedTuple):
    """All that a video takes from an environment's state besides what its renderer draws."""

    obs: np.ndarray


@pytest.fixture(scope="module")
def begun():
    env = environment.make_env(CONFIG)
    return env, fit.begin(CONFIG, env)


@pytest.fixture
def videos(begun, tmp_path, monkeypatch):
    """(videos, report, lines to the user, what was logged); an episode has three states, all alike."""
    env, start = begun
    notes, logged = [], []
    states = Seen(np.zeros((3, 2, env.obs_size)))
    found = playback.Recording(states, np.zeros((3, 2, 8)), np.zeros((3, 2), bool), np.arange(2))
    monkeypatch.setattr(playback, "recorder", lambda loaded, module: lambda one, key: found)
    Painter.made = Painter.closed = 0

    def log(path, episodes):
        logged.append((path.name, episodes))

    made = recordings.Videos(CONFIG, env, tmp_path, Painter, lambda *mark: mark, notes.append, log)

    def report(cycles, metrics=True, status=Status.RUNNING):
        rows = (row(4 * cycles),) if metrics else ()
        return made(dataclasses.replace(start, cycles=cycles, metrics=rows, status=status))

    return made, report, notes, logged


def test_every_second_evaluation_has_its_video(videos, tmp_path):
    made, report, notes, logged = videos
    for cycles in range(1, 10):  # an evaluation every second cycle
        report(cycles, metrics=cycles % 2 == 0)
    report(12, status=Status.DIVERGED)
    made.close()
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == ["16.mp4", "32.mp4"]
    assert logged == [("16.mp4", 16), ("32.mp4", 32)] and not notes
    assert (Painter.made, Painter.closed) == (1, 1)


def test_a_video_that_fails_is_told_once_and_ends_nothing(videos, tmp_path, monkeypatch):
    _, report, notes, logged = videos

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recordings.video, "Writer", full)
    report(4)
    report(8)
    assert len(notes) == 1 and "No space left on device; the run continues without videos" in notes[0]
    assert not logged


def test_the_page_shows_the_last_of_them(tmp_path):
    (tmp_path / "videos").mkdir()
    for number in (8, 128, 16):
        (tmp_path / "videos" / f"{number}.mp4").write_bytes(b"%d" % number)
    assert "MTI4" in page._video(tmp_path)  # 128 in base64
    (tmp_path / "video.mp4").write_bytes(b"own")
    assert "b3du" in page._video(tmp_path)  # what play made comes first


def test_a_missing_extra_is_named_before_anything_is_written(small, refuse, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install "curious_jax[play]"' in refuse(train, *small, "--record-every", "1")


@pytest.mark.slow
def test_recording_changes_no_figure(small, finished_run, tmp_path, capsys):
    argv = [*small, "--distractors", "1", "--record-every", "1", "--out", str(tmp_path / "run")]
    assert train.main(argv) == 0
    rows = [without_timings(runfolder.read_rows(run)) for run in (tmp_path / "run", finished_run)]
    assert rows[0] == rows[1]
    assert sorted(path.name for path in (tmp_path / "run" / "videos").iterdir()) == ["16.mp4", "8.mp4"]
    assert "without videos" not in capsys.readouterr().out


def test_of_several_seeds_the_first_is_played(begun, monkeypatch, tmp_path):
    env, start = begun
    seen = []
    monkeypatch.setattr(playback, "recorder", lambda loaded, module: lambda one, key: seen.append((one, module)))
    made = recordings.Videos(CONFIG, env, tmp_path, Painter, None, lambda line: None)
    made(dataclasses.replace(start, cycles=4, metrics=(row(16),)))
    one, module = seen[0]
    for leaf, both in zip(jax.tree.leaves(one.params), jax.tree.leaves(policy_params(start.state)), strict=True):
        np.testing.assert_array_equal(leaf, both[0])
    assert one.config.num_seeds == 1 and module.tolist() == [0, 1]
