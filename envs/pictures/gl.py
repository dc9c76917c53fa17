"""Chooses the OpenGL that MuJoCo draws with without a screen: EGL, or else OSMesa; MUJOCO_GL wins where it is set.

mujoco.Renderer takes what MUJOCO_GL said when mujoco was first imported, which is too late to choose for programs that
have imported it already, such as a Gymnasium trainer's. Python's OpenGL stays with the platform it was first loaded
for, so each is tried in a process of its own.
"""

import functools
import importlib
import os
import subprocess
import sys
from typing import Any

from envs.errors import ArgumentError

PLATFORMS = ("egl", "osmesa")
NAMES = (*PLATFORMS, "glfw")
SECONDS = 60  # that a trial may take
PACKAGES = "sudo apt-get install libegl1 libgl1 (for EGL) or libosmesa6 (for OSMesa)"
_TRIAL = """
import importlib, sys, mujoco
context = importlib.import_module("mujoco." + sys.argv[1]).GLContext(8, 8)
context.make_current()
mujoco.MjrContext(mujoco.MjModel.from_xml_string("<mujoco/>"), 100).free()
context.free()
"""


@functools.cache
def choose() -> str:
    """Returns the first platform that works here: egl or osmesa; glfw if MUJOCO_GL says so; "" where none is needed.

    The one that MUJOCO_GL names is also taken when its trial takes too long to tell.

    Raises:
      ValueError: when none works, or the one that MUJOCO_GL names does not; one line with what to do or install.
    """
    given = os.environ.get("MUJOCO_GL", "").strip().lower()
    if sys.platform != "linux":
        return ""
    if given and given not in NAMES:
        raise ValueError(f"MUJOCO_GL={given}: must be one of {', '.join(NAMES)}, or not set at all")
    slow = []
    for platform in [given] if given else PLATFORMS:
        answer = works(platform)
        if answer or (answer is None and given):
            return platform
        slow += [platform] if answer is None else []
    if slow:
        raise ValueError(
            f"the trial of OpenGL by {' and '.join(slow)} took more than {SECONDS} s; try again when the machine is "
            f"less busy, or set MUJOCO_GL to one of {', '.join(NAMES)}, which is then taken however long its trial is"
        )
    if given:
        raise ValueError(f"MUJOCO_GL={given}: does not work here; leave it unset, or install what it needs: {PACKAGES}")
    raise ValueError(f"this machine has no OpenGL that draws without a screen: {PACKAGES}")


def works(platform: str) -> bool | None:
    """Tells whether MuJoCo gets a drawing context from this platform; None where that takes more than SECONDS.

    It takes half a second where the machine is not busy.
    """
    environment = {key: value for key, value in os.environ.items() if key not in ("MUJOCO_GL", "PYOPENGL_PLATFORM")}
    command = [sys.executable, "-c", _TRIAL, platform]
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return None


def context(width: int, height: int) -> Any:
    """Makes a drawing context of the chosen platform, and makes it current; `free` it when done."""
    import mujoco

    platform = choose()
    module = importlib.import_module(f"mujoco.{platform}") if platform else mujoco
    result = module.GLContext(width, height)
    result.make_current()
    return result


def check_screen() -> None:
    """Refuses a window where there is no screen for it. Raises ArgumentError, saying what to do instead."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ArgumentError("viewer", "needs a screen, and DISPLAY is not set; make a video instead")
