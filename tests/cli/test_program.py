"""What the programs share: errors in one line, and hints that can be typed."""

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import curious_jax
from curious_jax.cli import program
from envs.errors import ArgumentError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "number, status", [(errno.ENOSPC, 1), (errno.EMFILE, 1), (errno.EACCES, 2), (errno.ENAMETOOLONG, 2)]
)
def test_what_the_system_refuses_is_said_in_one_line(number, status, capsys):
    def body():
        raise OSError(number, os.strerror(number), "some/place")

    assert program.run(body) == status
    line = capsys.readouterr().err
    assert line.startswith(f"error: some/place: {os.strerror(number)}; ") and line.count("\n") == 1


def test_no_memory_is_said_in_one_line(capsys):
    def body():
        raise MemoryError

    assert program.run(body) == program.FAILED
    assert capsys.readouterr().err.startswith("error: memory ran out")


def test_no_memory_on_a_device_is_said_in_one_line_and_other_errors_are_not_hidden(capsys):
    def body():
        raise RuntimeError(message)

    message = "RESOURCE_EXHAUSTED: Out of memory allocating 34359738368 bytes.\nmore"
    assert program.run(body) == program.FAILED
    line = capsys.readouterr().err
    assert line.startswith("error: the device's memory ran out (RESOURCE_EXHAUSTED: Out of memory")
    assert "ask for fewer worlds" in line
    message = "INTERNAL: something else"
    with pytest.raises(RuntimeError, match="something else"):
        program.run(body)


def test_another_packages_thread_that_meets_a_full_disk_says_one_line(capsys):
    def write():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def body():
        thread = threading.Thread(target=write, name="events")
        thread.start()
        thread.join()
        return program.DONE

    assert program.run(body) == program.DONE
    assert capsys.readouterr().err == "note: events: [Errno 28] No space left on device\n"


def test_ctrl_c_in_a_callback_that_swallows_it_comes_again():
    """JAX hangs such a callback into the garbage collector, and most of a program's start is spent there."""

    def callback(*_):
        if not sent:
            sent.append(True)
            signal.raise_signal(signal.SIGINT)

    def body():
        gc.callbacks.append(callback)
        gc.collect()
        for _ in range(1000):
            threading.Event().wait(0.01)
        return program.DONE

    sent = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the workers of pytest-xdist ignore it
    try:
        assert program.run(body) == program.INTERRUPTED
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        gc.callbacks.remove(callback)
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_a_weak_reference_s_callback_comes_again():
    """Python swallows what such a callback raises, as it does in __del__."""

    class Held:
        pass

    def body():
        held = Held()
        found = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGINT))
        del held
        assert found() is None
        for _ in range(1000):
            threading.Event().wait(0.01)
        return program.DONE

    before, hook = signal.signal(signal.SIGINT, signal.default_int_handler), sys.unraisablehook
    try:
        assert program.run(body) == program.INTERRUPTED
        assert sys.unraisablehook is hook
    finally:
        signal.signal(signal.SIGINT, before)


CTRL_C_AT_AN_IMPORT = """
import os, signal, sys, time
class CtrlC:
    def find_spec(name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
sys.meta_path.insert(0, CtrlC)
"""

HEED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # jobs in the background ignore it
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize("module", ["curious_jax", "curious_jax.train", "curious_jax.evaluate", "experiments.sweep"])
def test_ctrl_c_while_a_program_is_imported_prints_nothing(module, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(CTRL_C_AT_AN_IMPORT.format(name="curious_jax.errors"))
    command = [sys.executable, "-c", HEED, "-m", module, "--help"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize(
    "called, words, expected",
    [
        ("-m", ["python", "-X", "dev", "-m", "curious_jax.play"], True),
        ("/usr/bin/curious-train", ["python", "/usr/bin/curious-train"], True),
        ("-m", ["python", "-m", "mine"], False),
        ("mine.py", ["python", "mine.py", "-m", "curious_jax"], False),
    ],
)
def test_only_programs_change_what_ctrl_c_does_on_import(called, words, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", [called])
    monkeypatch.setattr(sys, "orig_argv", words)
    assert curious_jax._is_program() == expected


def test_a_program_runs_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(program.run(lambda: 3)))
    thread.start()
    thread.join()
    assert found == [3]


def test_hints_are_quoted_and_call_what_was_called(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert program.command("play", "a b").endswith("python -m curious_jax.play 'a b'")
    script = tmp_path / "curious-train"
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program.command("play", "x") == f"{tmp_path}/curious-play x"
    (tmp_path / "curious-play").write_text("#!/bin/sh\n")
    (tmp_path / "curious-play").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.command("play", "x") == "curious-play x"


def test_the_python_to_call_is_named_so_that_it_is_this_one(tmp_path, monkeypatch):
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.python() == "python"
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert program.python() == str(tmp_path / "python")


def test_an_argument_that_a_world_refuses_is_named_as_an_option(capsys):
    def body():
        raise ArgumentError("physics", "must be one of auto, c", "x")

    assert program.run(body) == program.BAD_INPUT
    assert capsys.readouterr().err == "error: --physics x: must be one of auto, c\n"


def test_other_value_errors_are_faults_of_the_program():
    def body():
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault"):
        program.run(body)
