"""Keeps what a program prints from ending it: characters that cannot be shown, a full disk, a reader that has left."""

import codecs
import contextlib
import errno
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any, TextIO

PLAIN = dict(zip("●■◆▲▼○□◇△▽│┤└─–—…×→±²°", "o#xAvo#xAv||+---.x>+2o", strict=True))
BLOCKS = range(0x2580, 0x25A0)  # the parts of bars


class Guarded:
    """A text stream whose first failed write is kept in `error`; from then on what is written goes nowhere."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Writes as far as that is possible."""
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        """Hands over what is written."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except OSError as error:
            self.error = self.error or error
            with contextlib.suppress(OSError, ValueError):  # so that what Python still holds back has somewhere to go
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """Guards standard output and standard error while a program runs, and once when it runs another."""
    if isinstance(sys.stdout, Guarded) or isinstance(sys.stderr, Guarded):
        yield
        return
    for number in range(3):  # a closed one would become the number of the next file, into which C code then prints
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error("plain", plain)
    before = sys.stdout, sys.stderr
    errors = [getattr(stream, "errors", None) for stream in before]
    guarded = [stream and Guarded(stream) for stream in before]
    try:
        for stream in before:
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="plain")
        sys.stdout, sys.stderr = guarded  # type: ignore[assignment]
        yield
    finally:
        for stream in guarded:
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before
        for stream, was in zip(before, errors, strict=True):
            if hasattr(stream, "reconfigure"):
                with contextlib.suppress(OSError, ValueError):
                    stream.reconfigure(errors=was)


def problem() -> OSError | None:
    """Why standard output cannot be written to, once a write has failed."""
    if sys.stdout is not None:
        sys.stdout.flush()
    return getattr(sys.stdout, "error", None)


def reader_left() -> bool:
    """Has the program at the other end of the pipe ended, as `head` does when it has enough?"""
    error = getattr(sys.stdout, "error", None)
    return error is not None and error.errno == errno.EPIPE


def plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """A codec's error handler that shows a likeness in ASCII of what the encoding does not have."""
    assert isinstance(error, UnicodeEncodeError)
    part = error.object[error.start : error.end]
    if all(0xDC80 <= ord(c) <= 0xDCFF for c in part):  # the bytes of a file's name
        return part.encode("ascii", "surrogateescape"), error.end
    return "".join(map(_likeness, part)), error.end


def _likeness(character: str) -> str:
    if character in PLAIN:
        return PLAIN[character]
    if ord(character) in BLOCKS:
        return "#"
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"


def note(message: str) -> None:
    """Says on standard error, in one line, what is done otherwise than asked for."""
    print("note: " + " ".join(message.split()), file=sys.stderr)
