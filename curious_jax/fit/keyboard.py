"""Ctrl-C while a run trains: the first one ends it after the cycles under way, the second one at once."""

import signal
import sys
import threading
from typing import Any


class Keyboard:
    """A context manager in which the first Ctrl-C is kept in `pressed`; the second raises KeyboardInterrupt, as ever.

    Where somebody else looks after Ctrl-C, as the programs do, or outside the main thread, it does nothing.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> "Keyboard":
        main = threading.current_thread() is threading.main_thread()
        self._ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            signal.signal(signal.SIGINT, self._press)
        return self

    def _press(self, number: int, frame: Any) -> None:
        self.pressed = True
        print("stopping after this cycle; Ctrl-C again stops at once", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *raised: Any) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
