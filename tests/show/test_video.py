"""Videos: tiles in a grid, labels that say what is so, files that are whole or not there."""

import dataclasses
import importlib.util
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.parts import line_module
from PIL import Image

import envs
from curious_jax.errors import ConfigError
from curious_jax.show import video
from curious_jax.show.playback import Recording
from envs import modules

GREEN, PINK = (22, 150, 82), (204, 121, 167)


def plain(value, height=60, width=80):
    return np.full((height, width, 3), value, np.uint8)


def test_tiles_are_laid_out_row_by_row():
    whole = video.tile([plain(v) for v in (10, 20, 30)])  # 2 x 2 with one place left
    assert whole.shape == (60 + 4 + 60, 80 + 4 + 80, 3)
    assert (whole[:60, :80] == 10).all() and (whole[:60, 84:] == 20).all() and (whole[64:, :80] == 30).all()
    assert (whole[64:, 84:] == 255).all() and (whole[60:64] == 255).all() and (whole[:, 80:84] == 255).all()


def test_odd_sizes_become_even_as_video_wants_them():
    assert video.tile([plain(0, 61, 81)]).shape == (62, 82, 3)
    assert video.tile([plain(0, 61, 80)] * 2).shape == (62, 164, 3)


def test_a_label_has_the_module_s_colour_and_time_passes_below():
    shown = video.label(plain(0, 240, 320), "stack", PINK, solved=False, progress=0.5)
    assert (shown[238, 5:150] == PINK).all() and (shown[238, 170:] == 0).all()  # the bar is half full
    assert (shown[:30, :60] == PINK).all(axis=2).mean() > 0.3  # the chip with the name, on the left
    assert not (shown == GREEN).all(axis=2).any() and (shown[:30, 200:] == 0).all()


@pytest.mark.parametrize(("width", "height", "both"), [(320, 240, True), (150, 116, True), (64, 64, False)])
def test_a_long_name_leaves_room_for_the_end_or_stands_alone(width, height, both):
    shown = video.label(plain(0, height, width), "all modules at once", PINK, solved=True, progress=0.5)
    chips = shown[height // 20 : height // 12, 2:-2]  # inside the border, above the letters
    pink, green = ((chips == colour).all(axis=2).any(axis=0) for colour in (PINK, GREEN))
    assert pink.any() and green.any() == both
    assert not both or np.flatnonzero(pink).max() < np.flatnonzero(green).min()


def test_success_is_green_all_around():
    shown = video.label(plain(0, 240, 320), "stack", PINK, solved=True, progress=1.0)
    edges = [shown[0], shown[-1], shown[:, 0], shown[:, -1]]
    assert all((edge == GREEN).all() for edge in edges)
    assert (shown[:30, 250:] == GREEN).all(axis=2).mean() > 0.3  # and a chip on the right


def test_failure_is_said_at_the_end_only():
    before, after = (video.label(plain(0, 240, 320), "stack", PINK, False, 1.0, ended) for ended in (False, True))
    assert (before[:30, 200:] == 0).all() and (after[:30, 200:] != 0).any()
    assert not (after == GREEN).all(axis=2).any()


def test_a_gif_holds_its_pictures_and_the_labels_colours(tmp_path):
    pictures = [plain(0), plain(0), video.label(plain(0), "reach", PINK, True, 1.0)]
    with video.Writer(tmp_path / "a.gif") as file:
        for picture in pictures:
            file.append(picture)
    with Image.open(tmp_path / "a.gif") as found:
        assert found.size == (80, 60) and found.info["loop"] == 0
        total = 0
        for frame in range(found.n_frames):
            found.seek(frame)
            total += found.info["duration"]
        assert total == 3 * 40  # ms
        assert tuple(np.asarray(found.convert("RGB"))[0, 40]) == GREEN  # though the first picture had no green
    assert [p.name for p in tmp_path.iterdir()] == ["a.gif"]


def test_an_mp4_holds_its_pictures(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    with video.Writer(tmp_path / "a.mp4") as file:
        for value in (0, 100, 200, 250):
            file.append(plain(value))
    assert imageio_ffmpeg.count_frames_and_secs(str(tmp_path / "a.mp4"))[0] == 4
    pictures = imageio_ffmpeg.read_frames(str(tmp_path / "a.mp4"))
    assert next(pictures)["size"] == (80, 60)
    means = [np.frombuffer(picture, np.uint8).mean() for picture in pictures]
    np.testing.assert_allclose(means, [0, 100, 200, 250], atol=12)


@pytest.mark.parametrize("name", ["a:b.mp4", "a:b.gif", "x" * 251 + ".mp4", "é" * 125 + ".gif", "with 'quotes'.mp4"])
def test_any_name_that_a_file_can_have(tmp_path, name):
    pytest.importorskip("imageio_ffmpeg")
    with video.Writer(video.check(str(tmp_path / name))) as file:
        file.append(plain(0))
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_pictures_are_not_kept(tmp_path, monkeypatch):
    """A GIF of any length takes no more memory than its file."""
    pytest.importorskip("imageio_ffmpeg")
    resource = pytest.importorskip("resource")
    with video.Writer(tmp_path / "a.gif") as file:
        file.append(plain(0, 600, 800))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for value in range(100):
            file.append(plain(value, 600, 800))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB; the pictures are 140,000


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("name", ["a.gif", "a.mp4"])
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path, monkeypatch, name):
    pytest.importorskip("imageio_ffmpeg")
    monkeypatch.setattr(video.tempfile, "TemporaryFile", lambda dir: open("/dev/full", "wb"))
    with pytest.raises(OSError, match="No space left on device") as caught, video.Writer(tmp_path / name) as file:
        for _ in range(60):
            file.append(plain(0))
    assert caught.value.filename == str(tmp_path / name) and list(tmp_path.iterdir()) == []


def test_a_kill_leaves_nothing(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    code = f"""
import numpy as np, sys, time
from pathlib import Path
from curious_jax.show import video
with video.Writer(Path({str(tmp_path / "a.mp4")!r})) as file:
    for _ in range(60):
        file.append(np.zeros((240, 320, 3), np.uint8))
    print("half", flush=True)
    time.sleep(60)
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert program.stdout.readline() == b"half\n"
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.gif", "a.mp4"])
def test_what_breaks_leaves_nothing_and_what_was_there_stays(tmp_path, name):
    if name.endswith("mp4"):
        pytest.importorskip("imageio_ffmpeg")
    (tmp_path / name).write_text("earlier")
    with pytest.raises(RuntimeError), video.Writer(tmp_path / name) as file:
        file.append(plain(0))
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "earlier"


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    (tmp_path / "folder.mp4").mkdir()
    for name, says in [
        ("a.avi", "must end in .mp4 or .gif"),
        ("nowhere/a.mp4", "there is no folder"),
        ("folder.mp4", "is a folder"),
        ("x" * 252 + ".mp4", "File name too long"),
        ("a\0b.mp4", "null"),
        ("folder.mp4/file.txt/a.mp4", "there is no folder"),
    ]:
        with pytest.raises(ConfigError, match=says):
            video.check(str(tmp_path / name))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "imageio_ffmpeg" else object())
    with pytest.raises(ConfigError, match=r'pip install "curious_jax\[play\]"'):
        video.check(str(tmp_path / "a.mp4"))


def test_a_place_without_permission_is_refused(tmp_path, monkeypatch):
    def forbidden(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "lstat", forbidden)  # as in a folder that cannot be entered
    with pytest.raises(ConfigError, match="Permission denied; name another file"):
        video.check(str(tmp_path / "a.mp4"))


def test_a_good_name_is_taken(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    assert video.check(str(tmp_path / "a.gif")) == tmp_path / "a.gif"


def test_a_goal_is_marked_where_its_module_says(monkeypatch):
    monkeypatch.setattr(modules, "_REGISTRY", {})
    beside = dataclasses.replace(line_module("beside", 0), place=lambda goal, obs: obs[2:4] + goal)
    modules.register("beside", lambda layout: beside)
    table = envs.make("point", ("reach", "beside")).modules
    obs = np.zeros((2, 2, 6), np.float32)
    obs[1, :, 2:4] = 0.3, 0.1
    goal = np.tile(np.array([0.2, 0.4, 0.1], np.float32), (2, 2, 1))
    found = Recording(SimpleNamespace(obs=obs), goal, np.zeros((2, 2), bool), np.array([0, 1]))
    (reach,), (moved,) = (video.goals(table, found, 1, episode) for episode in (0, 1))
    np.testing.assert_allclose(reach[0], [0.2, 0.4])
    np.testing.assert_allclose(moved[0], [0.4, 0.2])
