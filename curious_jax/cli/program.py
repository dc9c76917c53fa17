"""Holds what the programs share: exit statuses, errors in one line, and the hints that they print.

Ctrl-C (SIGINT) has one holder at a time. While a program's modules are imported it ends the process without a word
(curious_jax/__init__.py). From `run` on it raises KeyboardInterrupt, which `run` answers with status 130
(_interruptible). While `train` trains, the first one asks for the end after the cycle and for a checkpoint, with the
other signals that end programs (run/interruption.py); where an experiment runs, it is passed on to its trainings
(experiments/engine/runner.py, Stop). Where nobody holds it, as `curious_jax.fit` is called from Python, fit takes it
for its own time (fit/keyboard.py). Each gives it back to the one before.
"""

import contextlib
import errno
import functools
import gc
import os
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from curious_jax.cli import start, streams
from curious_jax.cli.environment import name_option
from curious_jax.errors import ConfigError, OverflowedBuffers, first_line

LESS = "close its other programs, or ask for fewer worlds, episodes or seeds"
DONE, FAILED, BAD_INPUT, DIVERGED, INTERRUPTED = 0, 1, 2, 3, 130  # exit statuses
# What the machine is short of, rather than what the user asked for.
SHORTAGES = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EIO: "look at the disk",
    errno.EMFILE: "raise the limit of open files, as by ulimit -n 1024",
    errno.ENFILE: "close other programs",
    errno.ENOMEM: "close other programs",
    errno.EPIPE: "start it again",
}


# What XLA and Warp say when a device has no memory left.
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "Failed to allocate")


def run(body: Callable[[], int]) -> int:
    """Runs a program; returns its exit status.

    That is the program's own, 2 after one line on standard error for bad input, 1 after one line when the machine
    failed, 130 after Ctrl-C, 141 when whoever reads standard output left early.
    """
    with streams.guard(), start.restored(), _quiet_threads(), _interruptible():
        try:
            status = body()
        except ConfigError as error:
            return fail(error.on_command_line, BAD_INPUT)
        except ValueError as error:
            if not hasattr(error, "argument"):  # envs.errors.ArgumentError
                raise
            return fail(name_option(error), BAD_INPUT)
        except OverflowedBuffers as error:
            return fail(str(error), FAILED)
        except MemoryError as error:
            return fail(f"memory ran out ({error or 'Python'}); close other programs, or ask for less", FAILED)
        except OSError as error:
            return _fail_of_system(error)
        except KeyboardInterrupt:
            return INTERRUPTED
        except RuntimeError as error:  # Warp's, or jax.errors.JaxRuntimeError, of a JAX that may not be imported yet
            if not any(words in str(error) for words in OUT_OF_MEMORY):
                raise
            return fail(f"the device's memory ran out ({first_line(error)}); {LESS}", FAILED)
        return _status_of_output() if status == DONE else status


def entry(body: Callable[[Sequence[str] | None], int]) -> Callable[..., int]:
    """Makes a program's `main` of a function of its arguments (None: the command line's)."""

    @functools.wraps(body)
    def main(argv: Sequence[str] | None = None) -> int:
        return run(lambda: body(argv))

    return main


def fail(message: str, status: int) -> int:
    """Says what is wrong in one line on standard error; returns the status."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.split()))  # no escape sequences
    print("error: " + (line if len(line) <= 1000 else f"{line[:500]} ... {line[-500:]}"), file=sys.stderr)
    return status


def _fail_of_system(error: OSError) -> int:
    """One line for what the operating system refused; 1 when it is short of something, 2 for a wrong place."""
    name = error.filename if error.filename is not None else "a file"
    why = error.strerror or str(error)
    move = SHORTAGES.get(error.errno or 0)
    return fail(f"{os.fsdecode(name)}: {why}; {move or 'name another place'}", FAILED if move else BAD_INPUT)


def _status_of_output() -> int:
    """The exit status of a program that is done: 0, unless what it printed could not be written."""
    error = streams.problem()
    if error is None:
        return DONE
    if streams.reader_left():
        return 128 + signal.SIGPIPE
    return fail(f"standard output: cannot be written to ({error.strerror}); all else is done", FAILED)


@contextlib.contextmanager
def _quiet_threads() -> Iterator[None]:
    """Says in one line that another package's thread met a full disk or the like, in place of a traceback."""

    def hook(caught: threading.ExceptHookArgs) -> None:
        if isinstance(caught.exc_value, OSError):
            streams.note(f"{caught.thread.name if caught.thread else 'a thread'}: {caught.exc_value}")
        else:
            before(caught)

    before, threading.excepthook = threading.excepthook, hook
    try:
        yield
    finally:
        threading.excepthook = before


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Makes Ctrl-C raise KeyboardInterrupt where that ends the program; leaves handlers of others alone."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    if not in_main or before not in (signal.default_int_handler, signal.SIG_DFL):
        yield
        return

    def hook(swallowed: "sys.UnraisableHookArgs") -> None:
        """Lets a KeyboardInterrupt come again that __del__ or a callback swallowed, in place of a traceback."""
        if swallowed.exc_type is KeyboardInterrupt:
            _send_again(signal.SIGINT)
        else:
            unraisable(swallowed)

    signal.signal(signal.SIGINT, _interrupt)
    unraisable, sys.unraisablehook = sys.unraisablehook, hook
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt, later when Python is within a callback that swallows it or an import that it breaks."""
    swallowing = {getattr(callback, "__code__", None) for callback in gc.callbacks}
    while frame is not None and frame.f_code is not run.__code__:
        if frame.f_code in swallowing or frame.f_code.co_name in ("__del__", "_find_and_load"):
            _send_again(number)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _send_again(number: int) -> None:
    """Sends this process the signal again, in a moment."""
    again = threading.Timer(0.05, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def command(name: str, *arguments: object) -> str:
    """A call of a program as it can be typed here: `curious-NAME` when that is how this one was called."""
    called = Path(sys.argv[0])
    if called.name.startswith("curious-"):
        script = f"curious-{name}"
        words = [script if shutil.which(script) else str(called.with_name(script))]
    else:
        words = [python(), "-m", f"curious_jax.{name}"]
    return shlex.join([*words, *map(str, arguments)])


def python() -> str:
    """Returns how to call this Python: `python`, unless that is another or none."""
    named = shutil.which("python")
    same = named is not None and Path(named).parent == Path(sys.executable).parent
    return "python" if same else sys.executable
