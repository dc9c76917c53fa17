"""Signals ask a run to stop after its cycle and to save; a second Ctrl-C or SIGTERM ends the program at once.

In a notebook, or at Python's prompt, a second Ctrl-C ends the call after its cycle, without a checkpoint, and not
Python.

Python runs signal handlers between bytecodes only, and compiled cycles are one long call. So a thread reads
the signals from the wake-up pipe that Python's C handler fills at once. Who holds Ctrl-C when: cli/program.py.
"""

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType, TracebackType
from typing import Any

from curious_jax.cli import streams

URGENT = (signal.SIGINT, signal.SIGTERM)
SIGNALS = (*URGENT, signal.SIGHUP, signal.SIGUSR1)  # a terminal that is closed, a job whose time is nearly over
AT_ONCE = "Ctrl-C or SIGTERM again stops at once"
ECHO = 0.3  # seconds: coreutils' timeout, for one, signals a process and then its whole group


def is_interactive() -> bool:
    """Tells whether a person works in this Python: a notebook, or a prompt."""
    return "ipykernel" in sys.modules or hasattr(sys, "ps1")


def drop_ignored(signals: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Leaves SIGHUP out where it is ignored, which is nohup's wish."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else set()
    return [number for number in signals if number not in ignored]


class Interruption:
    """A context manager; `number` is the first signal's once one arrived, else None.

    Outside a program's main thread, where Python allows no signal handlers, it waits for nothing. A standard output
    whose reader has left counts as SIGPIPE.

    Args:
      notify: called with one line of text, from another thread, when the first signal arrives.
    """

    def __init__(self, notify: Callable[[str], None]):
        self.number: int | None = None
        self._notify = notify
        self._handlers: dict[int, Any] = {}
        self._again = False  # a person at a prompt asked a second time
        self._asking = threading.Lock()  # held while that is brought to the main thread

    @property
    def requested(self) -> bool:
        """Has something asked the run to stop?"""
        if self.number is None and streams.reader_left():
            self.number = signal.SIGPIPE
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """128 + the signal's number: 130 after SIGINT, 143 after SIGTERM."""
        return 128 + (self.number or signal.SIGINT)

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is not threading.main_thread():
            return self
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._handlers = {s: signal.signal(s, self._handle) for s in drop_ignored(SIGNALS)}
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._handlers:
            return
        with self._asking:
            signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Keeps Python's default away; the thread does the work, but for ending the call at a prompt."""
        if self._again:
            self._again = False
            raise KeyboardInterrupt

    def _watch(self) -> None:
        last, urgent = -ECHO, False
        while data := os.read(self._read, 1):
            number, now = data[0], time.monotonic()
            if number not in self._handlers or now - last < ECHO:
                continue
            if urgent and number == signal.SIGINT and is_interactive():  # what else the user has there must not end
                last = now
                with self._asking:
                    self._again = True
                    _thread.interrupt_main(signal.SIGINT)  # the handler may have run before this
                continue
            if urgent and number in URGENT:
                with contextlib.suppress(OSError):
                    os.write(2, b"\x1b[?25h\nstopped at once\n" if os.isatty(2) else b"stopped at once\n")
                os._exit(128 + number)
            last, urgent = now, urgent or number in URGENT
            if self.number is None:
                self.number = number
                again = "Ctrl-C again ends the call without one" if is_interactive() else AT_ONCE
                self._notify(f"stopping after this cycle and a checkpoint; {again}")
