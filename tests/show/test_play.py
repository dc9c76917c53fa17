"""The play program: a video that shows the run's policy; bad input in one line with nothing written."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from curious_jax import play
from curious_jax.show import video
from envs.pictures import gl

ROOT = Path(__file__).parents[2]


def frames(path):
    with Image.open(path) as image:
        for index in range(image.n_frames):
            image.seek(index)
            yield np.asarray(image.convert("RGB")), image.info["duration"]


def test_a_gif_of_a_run(finished_run, empty_folder, capsys):
    argv = [str(finished_run), "--video", "out.gif", "--size", "120x100", "--rounds", "1", "--seed", "2"]
    assert play.main(argv) == 0
    shown = capsys.readouterr().out
    assert "playing 2 episodes" in shown and "solved at the last step: reach " in shown and "video: out.gif" in shown
    pictures = list(frames("out.gif"))
    assert pictures[0][0].shape == (100, 120 + 4 + 120, 3)  # reach and push; distractors are left out
    assert sum(duration for _, duration in pictures) == 40 * (20 + video.HOLD)
    assert [p.name for p in empty_folder.iterdir()] == ["out.gif"]


def test_the_goal_is_marked_in_the_module_s_colour(finished_run, empty_folder):
    argv = [str(finished_run), "--video", "out.gif", "--size", "200x200", "--rounds", "1"]
    assert play.main([*argv, "--modules", "push", "--episodes", "1"]) == 0
    picture = next(frames("out.gif"))[0].astype(int)
    paint = np.array([round(255 * part) for part in video.share(1)])  # push is the run's second module
    below_the_label = np.abs(picture[30:190] - paint).sum(axis=2) < 20
    assert below_the_label.any()


def test_the_video_stands_in_the_run_s_folder_unless_told(finished_run, monkeypatch, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    (tmp_path / "run").symlink_to(finished_run)
    monkeypatch.setattr(play, "_write", lambda path, *rest: found.append(path))
    monkeypatch.chdir(tmp_path)
    found = []
    assert play.main([str(tmp_path / "run"), "--rounds", "1"]) == 0
    copy = tmp_path / "copy"  # as docs/results/NAME: the policy, and no checkpoint
    shutil.copytree(
        finished_run, copy, ignore=lambda _, names: [n for n in names if n.removeprefix("state-").isdecimal()]
    )
    assert play.main([str(copy), "--rounds", "1"]) == 0
    assert found == [tmp_path / "run" / "video.mp4", Path("copy-video.mp4")]


@pytest.mark.parametrize(
    "argv, mentions",
    [
        (["--video", "out.avi"], "--video out.avi: must end in .mp4 or .gif"),
        (["--video", "no/out.gif"], "--video no/out.gif: there is no folder no"),
        (
            ["--modules", "stack"],
            "--modules stack: the run has no such module; choose from all, reach, push, distractor1",
        ),
        (["--modules", ""], "--modules '': must be names separated by commas"),
        (["--episodes", "0"], "--episodes 0: must be a whole number between 1 and 64"),
        (["--rounds", "x"], "--rounds x: must be a whole number"),
        (["--size", "640"], "--size 640: must be WIDTHxHEIGHT"),
        (["--size", "9x9"], "--size 9x9: must be WIDTHxHEIGHT"),
        (["--looks", "mesh"], "--looks mesh: the world point has one look only"),
        (["--viewer"], "--viewer: shows the arm's world, not point"),
        (["--seed-index", "1"], "--seed-index 1: must be 0"),
        (["--checkpoint", "first"], "--checkpoint first: must be one of last, best"),
        (["--movie", "a.gif"], "--movie: no such option"),
    ],
)
def test_bad_options(finished_run, refuse, argv, mentions):
    path = [] if {"--video", "--viewer"} & set(argv) else ["--video", "out.gif"]
    assert mentions in refuse(play, finished_run, *path, *argv)


def test_a_video_and_the_viewer_exclude_each_other(finished_run, refuse):
    assert "leave one of --viewer and --video out" in refuse(play, finished_run, "--viewer", "--video", "a.gif")


def test_a_missing_extra_is_named(finished_run, refuse, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n, *a: None if n == "imageio_ffmpeg" else found(n, *a))
    assert 'pip install "curious_jax[play]"' in refuse(play, finished_run, "--video", "out.mp4")


@pytest.mark.slow
def test_the_arm_stacks_on_a_machine_without_a_screen(tmp_path):
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    try:
        gl.choose()
    except ValueError as error:
        pytest.skip(str(error))
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "MUJOCO_GL", "PYOPENGL_PLATFORM")
    environment = {k: v for k, v in os.environ.items() if k not in hidden} | {"PYTHONPATH": str(ROOT)}
    options = ["--modules", "stack", "--episodes", "4", "--rounds", "1", "--size", "160x120", "--looks", "plain"]
    command = [sys.executable, "-m", "curious_jax.play", "pretrained/four-modules", "--video", "out.mp4", *options]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    solved = int(done.stdout.split("stack ")[1].split(" of 4")[0])
    assert solved >= 2, done.stdout  # a policy at 0.8 does worse in 3 of 100
    pictures = imageio_ffmpeg.read_frames(str(tmp_path / "out.mp4"))
    size = next(pictures)["size"]
    assert size == (324, 244)
    shown = [np.frombuffer(p, np.uint8).reshape(size[1], size[0], 3).astype(int) for p in pictures]
    assert len(shown) == 50 + video.HOLD
    green = [(np.abs(picture - [22, 150, 82]).sum(axis=2) < 60)[0].mean() for picture in (shown[0], shown[-1])]
    assert green[0] == 0  # no border at the start,
    tops = [(np.abs(shown[-1][row, at : at + 160] - [22, 150, 82]).sum(axis=1) < 90).mean() > 0.8
            for row in (0, 124) for at in (0, 164)]  # fmt: skip
    assert sum(tops) == solved  # and at the end one around each that is solved
    assert np.abs(shown[25] - shown[0]).mean() > 1  # the arm moves
