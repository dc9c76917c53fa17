"""SIGINT and SIGTERM: the first asks a run to stop after its cycle, the second ends the program at once.

Python runs signal handlers between bytecodes only, and compiled cycles are one long call. So a thread reads
the signals from the wake-up pipe that Python's C handler fills at once.
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ECHO = 0.3  # seconds: coreutils' timeout, for one, signals a process and then its whole group


class Interruption:
    """A context manager; `number` is the first signal's once one arrived, else None.

    Only a program's main thread may enter it.

    Args:
      notify: called with one line of text, from another thread, when the first signal arrives.
    """

    def __init__(self, notify: Callable[[str], None]):
        self.number: int | None = None
        self._notify = notify

    @property
    def requested(self) -> bool:
        """Has a signal arrived?"""
        return self.number is not None

    @property
    def exit_status(self) -> int:
        """128 + the signal's number: 130 after SIGINT, 143 after SIGTERM."""
        return 128 + (self.number or signal.SIGINT)

    def __enter__(self) -> "Interruption":
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._handlers = {s: signal.signal(s, self._handle) for s in SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Keeps Python's default away; the thread does the work."""

    def _watch(self) -> None:
        first = 0.0
        while data := os.read(self._read, 1):
            number, now = data[0], time.monotonic()
            if number not in SIGNALS or (self.requested and now - first < ECHO):
                continue
            if self.requested:
                os.write(2, b"\x1b[?25h\nstopped at once\n" if os.isatty(2) else b"stopped at once\n")
                os._exit(128 + number)
            self.number, first = number, now
            self._notify("stopping after this cycle and a checkpoint; the same signal again stops at once")
