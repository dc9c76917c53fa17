"""MuJoCo's own viewer: a window in which the arm's states are shown, one after the other, in real time."""

from __future__ import annotations

import time
from typing import Any

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.pictures import fetch, gl, looks
from envs.pictures.protocol import Goal


class Window:
    """A window of the viewer. Leaving it as a context, or `close`, closes it.

    Raises:
      ArgumentError: when no window can be opened.
    """

    period = c.CONTROL_PERIOD  # s of a control step

    def __init__(self, num_cubes: int, look: str = "auto"):
        import mujoco.viewer

        gl.check_screen()
        self._model = looks.build_model(num_cubes, look)
        self._data = mujoco.MjData(self._model)
        try:
            self._window = mujoco.viewer.launch_passive(
                self._model, self._data, show_left_ui=False, show_right_ui=False
            )
        except Exception as error:  # no OpenGL, or macOS without mjpython: GLFW's and MuJoCo's own words
            raise ArgumentError("viewer", f"no window could be opened ({error}); make a video instead") from None
        with self._window.lock():
            fetch.aim(self._window.cam)
        self._next = time.monotonic()

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def is_open(self) -> bool:
        """False once the user has closed it."""
        return self._window.is_running()

    def show(self, state: Any, goals: list[Goal], seconds: float = c.CONTROL_PERIOD) -> None:
        """Shows one environment's state with these goals, for so long in all that it is in real time."""
        time.sleep(max(0.0, self._next - time.monotonic()))
        with self._window.lock():
            fetch.place(self._model, self._data, state)
            self._window.user_scn.ngeom = 0
            fetch.add_marks(self._window.user_scn, state, goals)
        self._window.sync()
        self._next = time.monotonic() + seconds

    def close(self) -> None:
        """Closes the window."""
        self._window.close()
