"""Recorded episodes in MuJoCo's own viewer, in a window, over and over until it is closed."""

import functools
import time
from collections.abc import Callable
from typing import Any

from envs.fetch import constants as c
from envs.pictures import fetch as render
from envs.pictures import looks
from envs.pictures.door import Goal

_PAUSE = 1.0  # s, after an episode


def show(table: Any, num_cubes: int, recording: Any, goals: Callable[..., list], look: str = "auto") -> None:
    """Opens the viewer and plays the episodes in real time.

    Args:
      table: the environment's module table.
      recording: curious_jax.show.playback.Recording.
      goals: (table, recording, time, episode) -> (goal, colour, solved) of each goal.
    Raises:
      ValueError: when no window can be opened.
    """
    import mujoco.viewer

    model = looks.build_model(num_cubes, look)
    data = mujoco.MjData(model)
    try:
        window = mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
    except Exception as error:  # no screen, no OpenGL, or macOS without mjpython: GLFW's and MuJoCo's own words
        raise ValueError(f"--viewer: no window could be opened ({error}); use --video FILE") from None
    with window:
        with window.lock():
            render.aim(window.cam)
        while window.is_running():
            for episode in range(len(recording.module)):
                _play(window, model, data, recording, episode, functools.partial(goals, table, recording))


def _play(window: Any, model: Any, data: Any, recording: Any, episode: int, goals_at: Callable[..., list]) -> None:
    """One episode, at the speed it had."""
    for step in range(recording.length):
        if not window.is_running():
            return
        started = time.monotonic()
        state = recording.state(step, episode)
        with window.lock():
            render.place(model, data, state)
            window.user_scn.ngeom = 0
            render.add_marks(window.user_scn, state, [Goal(*mark) for mark in goals_at(step, episode)])
        window.sync()
        last = step == recording.length - 1
        time.sleep(max(0.0, (_PAUSE if last else c.CONTROL_PERIOD) - (time.monotonic() - started)))
