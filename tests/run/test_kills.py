"""Runs killed at any moment are resumed and end as undisturbed ones; many short runs in one process all end."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.runs import assert_same_run

from curious_jax import train
from curious_jax.run import checkpoints as saver

ROOT = Path(__file__).parents[2]
DEADLINE = 300  # seconds for a process that takes about ten
COMMAND = [sys.executable, "-m", "curious_jax.train"]
# Cycles of 4 episodes, a checkpoint after each of them: most kills fall into a save.
PROBE = ["--distractors", "1", "--episodes", "1200", "--evaluation-interval", "200", "--checkpoint-episodes", "4"]
FETCH = [
    *("--modules", "reach", "--preset", "cpu", "--num-envs", "4", "--updates-per-cycle", "2", "--batch-size", "8"),
    *("--capacity", "32", "--evaluation-interval", "8", "--evaluation-episodes", "4", "--hidden-size", "8"),
    *("--hidden-layers", "1"),
]
KILLS = [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]


def run(*argv):
    done = subprocess.run([*COMMAND, *map(str, argv)], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr


def wait_until(process, condition):
    end = time.monotonic() + DEADLINE
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "nothing was written in time"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """(folder of the whole run, seconds that its cycles and evaluations take)."""
    from helpers.small import SMALL

    folder = tmp_path_factory.mktemp("whole") / "run"
    process = subprocess.Popen([*COMMAND, *SMALL, *PROBE, "--out", str(folder)], cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_until(process, lambda: saver.states(folder / "checkpoints"))
    started = time.monotonic()
    assert process.wait(DEADLINE) == 0
    return folder, time.monotonic() - started


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(20))
def test_a_killed_run_goes_on_to_the_same_end(undisturbed, small, tmp_path, attempt):
    whole, seconds = undisturbed
    number, random = KILLS[attempt % 3], np.random.default_rng(attempt)
    folder = tmp_path / "run"
    checkpoints = folder / "checkpoints"
    process = subprocess.Popen(
        [*COMMAND, *small, *PROBE, "--out", str(folder)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if attempt < 3:  # while it compiles or writes its first checkpoint
        wait_until(process, (folder / "config.json").exists)
        time.sleep(random.uniform(0, 2))
    else:
        wait_until(process, lambda: saver.states(checkpoints))
        time.sleep(random.uniform(0, 0.8 * seconds))
        if attempt % 2:  # inside a save
            wait_until(process, lambda: list(checkpoints.glob("*.orbax-checkpoint-tmp")))
    process.send_signal(number)
    status = process.wait(DEADLINE)
    # -number: SIGKILL, or a signal that came while the program still read its settings, or after the run had ended.
    summary = folder / "summary.json"
    ended = summary.exists() and json.loads(summary.read_text())["status"] == "completed"
    plain = attempt < 3 or ended or number == signal.SIGKILL
    assert status in {0, -number if plain else 128 + number, 128 + number}, process.stderr.read()
    run("--resume", folder)
    assert_same_run(whole, folder)
    assert not list(folder.rglob(".*")), "debris"


@pytest.mark.slow
def test_two_epochs_and_two_more_on_fetch_are_four(tmp_path):
    run(*FETCH, "--episodes", 32, "--out", tmp_path / "a")
    run(*FETCH, "--episodes", 16, "--out", tmp_path / "b")
    run("--resume", tmp_path / "b", "--episodes", 32)
    assert_same_run(tmp_path / "a", tmp_path / "b")


TWENTY = """
import faulthandler, sys
faulthandler.dump_traceback_later(int(sys.argv[1]), exit=True)  # says where it hung
from curious_jax import train
for number in range(20):
    assert train.main([*sys.argv[3:], "--seed", str(number), "--out", f"{sys.argv[2]}/{number}"]) == 0
print("all done")
"""


@pytest.mark.slow
def test_twenty_runs_with_evaluation_in_one_process(tmp_path):
    """On the arm, whose physics calls back to the host: none hangs."""
    seconds = 1800
    argv = [sys.executable, "-c", TWENTY, str(seconds), str(tmp_path), *FETCH, "--episodes", "16"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0 and done.stdout.endswith("all done\n"), done.stderr
    assert len(list(tmp_path.glob("*/summary.json"))) == 20


def test_a_run_killed_before_its_first_checkpoint_begins_anew(small, tmp_path, monkeypatch, capsys):
    class Killed(BaseException):
        pass

    def killed(*args):
        raise Killed

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("curious_jax.fit.fit", killed)
        with pytest.raises(Killed):
            train.main([*small, "--distractors", "1", "--out", str(folder)])
    assert not saver.states(folder / "checkpoints") and (folder / "metrics.jsonl").read_text() == ""
    assert train.main(["--resume", str(folder)]) == 0
    assert "from the beginning, since nothing was saved yet" in capsys.readouterr().out
    assert train.main([*small, "--distractors", "1", "--out", str(tmp_path / "whole")]) == 0
    assert_same_run(tmp_path / "whole", folder)
