"""Terminal view: plain lines off a terminal, one live picture on one, and numbers that fit its width."""

import io

import pytest
from helpers.rows import row
from helpers.screen import Screen
from rich.console import Console

from curious_jax.show import terminal


class Now:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def view(is_terminal, total=100, width=110, file=None, **options):
    console = Console(
        file=file or io.StringIO(), force_terminal=is_terminal, width=width, height=40, color_system=None, markup=False,
        emoji=False,
    )  # fmt: skip
    now = Now()
    return terminal.TerminalView("a run", total, console=console, get_time=now, **options), console, now


def test_numbers_of_one_and_of_several_seeds():
    assert terminal.number([{"x": 0.5}], "x") == "0.50"
    assert terminal.number([{"x": 0.5}, {"x": 1.0}], "x") == "0.75 [0.50 1.00]"
    assert terminal.number([{"x": None}], "x") == "–"
    assert terminal.number([{"x": float("nan")}, {"x": 1.0}], "x") == "1.00 [1.00 1.00]"
    assert terminal.number([{}], "x") == "–"


def test_the_remaining_time_is_that_of_cycles_alone():
    shown, console, now = view(False, total=1000)
    shown.open()
    now.seconds = 60.0  # compilation
    shown.cycle(10, 1.0)
    now.seconds = 90.0  # with a checkpoint
    shown.cycle(20, 2.0)  # ten episodes a second
    shown.evaluation([row(20)])
    assert console.file.getvalue().splitlines()[-1].startswith("20/1,000 episodes  0:01:30 (ETA 0:01:38)  success")


def test_a_resumed_run_does_not_count_what_was_done_before():
    shown, console, now = view(False, total=1000, done=800)
    shown.open()
    for now.seconds, episodes in ((30.0, 810), (31.0, 820)):
        shown.cycle(episodes, 500.0 + now.seconds)
    shown.evaluation([row(820)])
    assert "820/1,000 episodes  0:00:31 (ETA 0:00:18)" in console.file.getvalue()


def test_plain_lines_off_a_terminal():
    shown, console, _ = view(False)
    shown.open()
    shown.evaluation([row(50, 0.5)])
    shown.note("memory: little")
    shown.close()
    title, compiling, line, note = console.file.getvalue().splitlines()
    assert (title, note) == ("a run", "memory: little") and compiling.startswith("compiling")
    assert line.startswith("50/100 episodes") and "\x1b" not in line
    assert "success 0.25: reach 0.50 (p 0.70)  push 0.00 (p 0.20)  distractor1 – (p 0.10)" in line
    assert "2,000 env steps/s, 150 updates/s" in line


def test_a_pipe_gets_a_line_after_the_first_cycle_and_then_now_and_again():
    shown, console, now = view(False, total=1000)
    shown.open()
    for second in range(1, 100):
        now.seconds = float(second)
        shown.cycle(second, float(second))
    counted = [line.split("/")[0] for line in console.file.getvalue().splitlines()[2:]]
    assert counted == ["1", "31", "61", "91"]


def test_a_run_with_a_target_says_so():
    shown, console, now = view(False, total=1000, target=0.95)
    shown.open()
    for now.seconds, episodes in ((1.0, 10), (40.0, 400)):
        shown.cycle(episodes, now.seconds)
    text = console.file.getvalue()
    assert "a run; stops at mean success 0.95" in text and "400/1,000 episodes  0:00:40 (at most 0:01:00)" in text


def test_live_picture_on_a_terminal():
    shown, console, _ = view(True)
    shown.open()
    shown.cycle(10, 1.0)
    shown.cycle(50, 2.0)
    shown.evaluation([row(50, 0.5, invalid_episodes=3)])
    shown.close()
    text = console.file.getvalue()
    for part in ("a run", "50/100 episodes", "ETA", "competence", "-0.25", "distractor1", "mean success 0.25"):
        assert part in text
    assert "3 invalid episodes, which were discarded" in text


def test_the_bar_moves_before_the_first_evaluation():
    shown, console, _ = view(True)
    shown.open()
    assert "compiling" in console.file.getvalue()
    shown.cycle(7, 1.0)
    shown.close()
    assert "7/100 episodes" in console.file.getvalue()


@pytest.mark.parametrize("width", [45, 60, 80, 120])
@pytest.mark.parametrize("seeds", [1, 3])
def test_a_module_takes_one_line_and_its_success_can_be_read(width, seeds):
    screen = Screen(width)
    shown, _, _ = view(True, width=width, file=screen)
    shown.open()
    names = {"reach": 0.25, "push": 0.0}
    shown.evaluation([row(50, 0.25, seed=s if seeds > 1 else None) for s in range(seeds)])
    shown.close()
    for name, rate in names.items():
        (line,) = [line for line in screen.lines if f" {name} " in line]
        assert f"{rate:.2f}" in line and "…" not in line


@pytest.mark.parametrize("width", [60, 120])
def test_redrawing_leaves_no_copies_behind(width):
    screen = Screen(width)
    shown, console, _ = view(True, width=width, file=screen)
    shown._title = "curious on fetch: " + ", ".join(f"module{i}" for i in range(20))  # longer than a line
    shown.open()
    for step in range(1, 5):
        shown.note("a note that is longer than a line of sixty characters, as the memory's is " * 2)
        shown.evaluation([row(10 * step)])
    shown.close()
    text = "\n".join(screen.lines)
    assert text.count("curious on fetch") == text.count("mean success") == text.count("episodes") == 1
    assert text.count("a note that is") == 8


def test_a_resized_terminal_is_drawn_again_without_the_old_picture(monkeypatch):
    screen = Screen(100)
    shown, console, _ = view(True, width=100, file=screen)
    shown.open()
    shown.note("memory: little")
    shown.evaluation([row(10)])
    console.width = screen.width = 60
    screen.lines = [part for line in screen.lines for part in (line[:60], line[60:]) if part]  # as terminals wrap
    screen.row = len(screen.lines) - 1
    shown.cycle(20, 1.0)
    shown.close()
    text = "\n".join(screen.lines)
    assert text.count("a run") == text.count("competence") == text.count("memory: little") == 1


def test_several_seeds_show_mean_and_range():
    shown, console, _ = view(True)
    shown.open()
    shown.evaluation([row(50, 0.25, seed=0), row(50, 0.75, seed=1)])
    shown.close()
    assert "0.50 [0.25 0.75]" in console.file.getvalue()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_names_are_shown_as_they_are(is_terminal):
    """Neither emoji nor markup nor escape sequences."""
    shown, console, _ = view(is_terminal)
    shown.open()
    shown.note("run folder: run:key:1 [red]x[/] \x1b[31m")
    shown.close()
    assert "run folder: run:key:1 [red]x[/] ?[31m" in console.file.getvalue()


def test_of_many_modules_those_are_shown_for_which_there_are_lines():
    """Success, speeds and losses stay on the screen; the last picture has all modules."""
    many = {f"{key}/push{k}": 0.5 for k in range(1, 58) for key in ("eval/success", "p_module")}  # with row's: 60
    shown, console, now = view(True)
    shown.open()
    now.seconds = 1.0
    shown.cycle(50, 1.0)
    shown.evaluation([row(50, **many)])
    live = console.file.getvalue()
    assert "push30" in live and "push31" not in live and "+ 27 more" in live and "mean success" in live
    shown.close()
    assert "push57" in console.file.getvalue().removeprefix(live)
