"""Signals: the first asks, the second ends; tried in small processes without JAX."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from curious_jax.cli import streams
from curious_jax.run.interruption import Interruption

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys, time
from curious_jax.run.interruption import Interruption
with Interruption(lambda text: print("note:", text, flush=True)) as signals:
    print("ready", flush=True)
    {wait}
sys.exit(signals.exit_status if signals.requested else 0)
"""
# Under nohup, which a test run may stand under, SIGHUP is ignored, and the program leaves it so.
DEFAULT_HANGUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
POLITE = "while not signals.requested: time.sleep(0.01)"
# One long C call that gives up the GIL but returns to Python only after a minute, as a compiled epoch does.
IN_C = "import ctypes; [ctypes.CDLL(None).poll(None, 0, 60000) for _ in range(9)]"


def start(wait):
    command = [sys.executable, "-c", DEFAULT_HANGUP + SCRIPT.format(wait=wait)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize(
    "number, status",
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGUSR1, 128 + signal.SIGUSR1)],
)
def test_the_first_signal_asks(number, status):
    process = start(POLITE)
    process.send_signal(number)
    assert "stopping after this cycle" in process.stdout.readline()
    assert process.wait(10) == status


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_the_program_even_in_a_long_call(number, status):
    process = start(IN_C)
    process.send_signal(number)
    assert "stopping after this cycle" in process.stdout.readline()
    process.send_signal(number)  # an echo of the first
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(10) == status


def test_a_job_s_warning_does_not_make_the_next_signal_end_the_program():
    process = start(IN_C)
    for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGTERM):
        process.send_signal(number)
        time.sleep(0.5)
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143


def test_nohup_is_respected(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruption(print) as signals:
            signal.raise_signal(signal.SIGHUP)
            time.sleep(0.05)
            assert not signals.requested
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_in_a_thread_there_are_no_handlers():
    found = []

    def body():
        with Interruption(print) as signals:
            found.append(signals.requested)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert found == [False]


def test_a_reader_that_left_asks_too(monkeypatch):
    with Interruption(print) as signals:
        assert not signals.requested
        monkeypatch.setattr(streams, "reader_left", lambda: True)
        assert signals.requested and signals.exit_status == 128 + signal.SIGPIPE


def test_without_a_signal_nothing_changes():
    assert start("pass").wait(10) == 0


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption(print):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_at_a_prompt_the_second_signal_ends_the_call_and_not_python():
    at_a_prompt = "import sys; sys.ps1 = '>>> '\n"
    call = f"    {POLITE.replace('not signals.requested', 'True')}".replace("    while", "    try:\n      while")
    caught = "\n    except KeyboardInterrupt: print('caught', flush=True)\n"
    script = DEFAULT_HANGUP + at_a_prompt + SCRIPT.format(wait="{wait}").replace("    {wait}\n", call + caught)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert "stopping after this cycle" in process.stdout.readline()
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[0] == "caught\n" and process.returncode == 130
