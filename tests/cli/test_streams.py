"""Standard output that cannot show a character, is full, or has lost its reader."""

import errno
import io
import json
import os
import signal
import sys

import pytest

from curious_jax import train
from curious_jax.cli import program, streams
from curious_jax.run import resume


@pytest.mark.parametrize("encoding, shown", [("ascii", "##  --- 1.0 |oo e"), ("utf-8", "█▌  ─–— 1.0 ┤●○ é")])
def test_what_an_encoding_does_not_have_is_shown_by_a_likeness(encoding, shown, monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    with streams.guard():
        print("█▌  ─–— 1.0 ┤●○ é", end="")
    assert stream.buffer.getvalue().decode(encoding) == shown
    assert stream.errors == "strict"


def test_a_file_name_that_is_no_text_is_shown_as_its_bytes(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with streams.guard():
        print(os.fsdecode(b"run\xff"), end="")
    assert stream.buffer.getvalue() == b"run\xff"


class Broken(io.StringIO):
    """A stream on which nothing can be written."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("number, status", [(errno.EPIPE, 128 + signal.SIGPIPE), (errno.ENOSPC, 1), (errno.EIO, 1)])
def test_a_program_ends_well_whatever_becomes_of_its_output(number, status, within, monkeypatch, capsys):
    done = []

    def body():
        print("a line")
        print("another")
        done.append(streams.reader_left())
        return program.DONE

    monkeypatch.setattr(sys, "stdout", Broken(number))
    assert program.run(lambda: program.run(body) if within else body()) == status
    assert done == [number == errno.EPIPE]
    assert capsys.readouterr().err.count("\n") == (number != errno.EPIPE)


def test_bad_input_keeps_its_status_when_it_cannot_be_said(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken(errno.ENOSPC))
    assert program.run(lambda: program.fail("bad", program.BAD_INPUT)) == program.BAD_INPUT


def test_streams_that_are_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert program.run(lambda: print("nowhere") or program.DONE) == program.DONE


@pytest.mark.slow
def test_a_run_whose_last_lines_nobody_reads_loses_nothing(small, tmp_path, monkeypatch):
    reading, writing = os.pipe()
    run = tmp_path / "run"
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(train, "_success_line", lambda progress: os.close(reading))  # all is done, but not said
        assert train.main([*small, "--out", str(run)]) == 128 + signal.SIGPIPE
    assert json.loads((run / "summary.json").read_text())["status"] == "completed"
    found = resume.find(run)
    assert found.episodes == 16 and not found.damaged
