"""Terminal view: plain lines off a terminal, a live picture on one."""

import io

import pytest
from helpers.rows import row
from rich.console import Console

from curious_jax.show import terminal


def view(is_terminal, total=100):
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=110, color_system=None)
    return terminal.TerminalView("a run", total, console), console


@pytest.mark.parametrize("value, text", [(0.0, "    "), (1.0, "████"), (0.5, "██  "), (0.3125, "█▎  "), (7, "████")])
def test_bar(value, text):
    assert terminal.bar(value, 4) == text


def test_bar_of_nan_is_empty():
    assert terminal.bar(float("nan"), 3) == "   "


@pytest.mark.parametrize("seconds, text", [(5, "0:05"), (75.9, "1:15"), (3675, "1:01:15"), (float("nan"), "–:––")])
def test_clock(seconds, text):
    assert terminal.clock(seconds) == text


def test_figures_of_one_and_of_several_seeds():
    assert terminal.figure([{"x": 0.5}], "x") == "0.50"
    assert terminal.figure([{"x": 0.5}, {"x": 1.0}], "x") == "0.75 [0.50 1.00]"
    assert terminal.figure([{"x": None}], "x") == "–"
    assert terminal.figure([{"x": float("nan")}, {"x": 1.0}], "x") == "1.00 [1.00 1.00]"
    assert terminal.figure([{}], "x") == "–"


def test_remaining_time_follows_the_recent_rate(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    clock = terminal.Clock()
    assert clock.remaining(100) != clock.remaining(100)  # NaN: nothing known yet
    now[0] = 10.0
    clock.mark(10)
    assert clock.remaining(100) == pytest.approx(90.0)
    now[0] = 15.0
    clock.mark(20)  # 2 per second since the last mark
    assert clock.remaining(100) == pytest.approx(40.0)
    now[0] = 17.0
    assert clock.remaining(100) == pytest.approx(38.0)


def test_plain_lines_off_a_terminal():
    shown, console = view(False)
    shown.open()
    shown.evaluation([row(50, 0.5)])
    shown.note("memory: little")
    shown.close()
    title, line, note = console.file.getvalue().splitlines()
    assert (title, note) == ("a run", "memory: little")
    assert line.startswith("50/100 episodes") and "\x1b" not in line
    assert "success 0.25: reach 0.50 (p 0.70)  push 0.00 (p 0.20)  distractor1 – (p 0.10)" in line
    assert "2,000 env steps/s, 150 updates/s" in line


def test_live_picture_on_a_terminal():
    shown, console = view(True)
    shown.open()
    shown.evaluation([row(50, 0.5, nan_episodes=3)])
    shown.close()
    text = console.file.getvalue()
    for part in ("a run", "50/100 episodes", "ETA", "competence", "-0.25", "distractor1", "mean success 0.25"):
        assert part in text
    assert "3 episodes left the finite range" in text


def test_several_seeds_show_mean_and_range():
    shown, console = view(True)
    shown.open()
    shown.evaluation([row(50, 0.25, seed=0), row(50, 0.75, seed=1)])
    shown.close()
    assert "0.50 [0.25 0.75]" in console.file.getvalue()
