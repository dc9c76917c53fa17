"""Signals: the first asks, the second ends; tried in small processes without JAX."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys, time
from curious_jax.run.interruption import Interruption
with Interruption(lambda text: print("note:", text, flush=True)) as signals:
    print("ready", flush=True)
    {wait}
sys.exit(signals.exit_status if signals.requested else 0)
"""
POLITE = "while not signals.requested: time.sleep(0.01)"
# One long C call that gives up the GIL but returns to Python only after a minute, as a compiled epoch does.
IN_C = "import ctypes; [ctypes.CDLL(None).poll(None, 0, 60000) for _ in range(9)]"


def start(wait):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(wait=wait)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_asks(number, status):
    process = start(POLITE)
    process.send_signal(number)
    assert "stops at once" in process.stdout.readline()
    assert process.wait(10) == status


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_the_program_even_in_a_long_call(number, status):
    process = start(IN_C)
    process.send_signal(number)
    assert "stops at once" in process.stdout.readline()
    process.send_signal(number)  # an echo of the first
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(10) == status


def test_without_a_signal_nothing_changes():
    assert start("pass").wait(10) == 0


def test_handlers_are_put_back():
    from curious_jax.run.interruption import Interruption

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interruption(print):
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
