"""Lets a program live in a process of its own, forked from one that has imported everything, and ends it anywhere."""

import contextlib
import importlib
import itertools
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

PROGRAMS = ("train", "evaluate", "play", "report", "export")
_SHARED = (
    "orbax.checkpoint",
    "matplotlib.pyplot",
    "tensorboardX",
    "plotly.subplots",
    "plotly.graph_objects",
    "PIL.Image",
    "scipy.stats",
)
_OURS = (
    "learner.trainer",
    "run.resume",
    "run.acting",
    "show.recorder",
    "show.playback",
    "show.video",
    "cli.environment",
)
_WRITES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree", "subprocess.Popen")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["envs", *_SHARED, *(f"curious_jax.{name}" for name in (*PROGRAMS, *_OURS))])


def begin(program: str, argv: list[Any], log: Path, at: int | None = None, number: int = signal.SIGKILL) -> Any:
    """Starts a program; returns its process (multiprocessing's).

    Args:
      log: takes what it prints.
      at: the count of files opened for writing, renamed or removed at which it sends itself the signal; None for never.
      number: the signal's.
    """
    process = _context.Process(target=_live, args=(program, [str(a) for a in argv], str(log), at, number))
    process.start()
    return process


def whole(program: str, argv: list[Any], log: Path, patience: float) -> tuple[int | None, int]:
    """Lets a program live to its end; returns its status and how often it wrote."""
    process = begin(program, argv, log)
    process.join(patience)
    if process.is_alive():
        process.kill()
    return process.exitcode, int((log.read_text().splitlines() or ["0"])[-1]) if process.exitcode == 0 else 0


def kill(process: Any, number: int) -> None:
    """Sends a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _live(program: str, argv: list[str], log: str, at: int | None, number: int) -> None:
    taken = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(taken, 1)
    os.dup2(taken, 2)
    writes, count = itertools.count(1), [0]

    def watch(event: str, arguments: tuple) -> None:
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in _WRITES or opens:
            count[0] = next(writes)
            if count[0] == at:
                os.kill(os.getpid(), number)

    sys.addaudithook(watch)
    status = importlib.import_module(f"curious_jax.{program}").main(argv)
    print(f"\n{count[0]}", flush=True)
    sys.exit(status)
