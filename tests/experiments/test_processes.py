"""Whole experiments in processes of their own: killed, interrupted, on Ray, and in CI size on Fetch."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.experiments import TINY, records

from experiments.analysis import table as tables
from experiments.engine import cells, evaluations

ROOT = Path(__file__).parents[2]


def start(name, *argv, out, **options):
    """An experiment's own command, in a process (group) of its own."""
    argv = [sys.executable, "-m", f"experiments.{name}", *argv, "--out", str(out)]
    return subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            start_new_session=True, **options)  # fmt: skip


def finish(process, status=0):
    output, _ = process.communicate()
    assert process.returncode == status, output
    return output


def without_times(out):
    return [{k: v for k, v in r.items() if k != tables.TIME} for r in records(tables.read(out / "table.csv"))]


@pytest.mark.slow
def test_a_sweep_killed_three_times_gives_the_undisturbed_table(tmp_path):
    """SIGKILL at random moments: twice to the sweep and its training, once to the sweep alone."""
    grid = [*TINY, "--algorithm", "curious,muvfa", "--seeds", "0-2", "--group", "2"]
    grid += ["--episodes", "400", "--checkpoint-episodes", "80"]  # the last of an option given twice counts
    began = time.monotonic()
    finish(start("sweep", *grid, out=tmp_path / "calm"))
    whole = time.monotonic() - began
    rng = random.Random(0)
    for alone in (False, True, False):
        process = start("sweep", *grid, out=tmp_path / "killed")
        time.sleep(whole * rng.uniform(0.1, 0.4))
        groups = [process.pid, *([] if alone else children_groups(process.pid))]
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        process.communicate()
    finish(start("sweep", *grid, out=tmp_path / "killed"))
    assert without_times(tmp_path / "killed") == without_times(tmp_path / "calm")
    assert {r["status"] for r in without_times(tmp_path / "killed")} == {"done"}
    assert (tmp_path / "killed" / "summary.md").read_text().split("\n", 3)[3:] == (
        (tmp_path / "calm" / "summary.md").read_text().split("\n", 3)[3:])  # fmt: skip


@pytest.mark.slow
def test_a_sweep_that_is_lengthened_is_the_longer_one(tmp_path):
    """Its end before, at 18 episodes in cycles of four, lies between two evaluations."""
    grid = [*TINY, "--algorithm", "curious", "--seeds", "0-2", "--group", "2", "--keep-states"]
    finish(start("sweep", *grid, "--episodes", "32", out=tmp_path / "whole"))
    finish(start("sweep", *grid, "--episodes", "18", out=tmp_path / "parts"))
    output = finish(start("sweep", *grid, "--episodes", "32", "--report-only", out=tmp_path / "parts"), status=2)
    assert "--episodes 32: the cells in " in output and " have 18;" in output
    finish(start("sweep", *grid, "--episodes", "32", out=tmp_path / "parts"))
    parts = without_times(tmp_path / "parts")
    assert parts == without_times(tmp_path / "whole"), "the evaluation at 20 is no part of the longer run's grid"
    assert finish(start("sweep", *grid, "--episodes", "32", out=tmp_path / "parts")).startswith("2 cells in ")
    output = finish(start("sweep", *grid, "--episodes", "18", out=tmp_path / "parts"), status=2)
    assert "--episodes 18: the cells in " in output and " have 32;" in output


def children_groups(pid):
    """The process groups of a process's children (each training has its own)."""
    listed = subprocess.run(["ps", "-o", "pgid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(line) for line in listed.split()]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_ctrl_c_saves_and_the_same_command_resumes(tmp_path, engine):
    if engine == "ray":
        pytest.importorskip("ray")
    grid = [*TINY, "--algorithm", "curious", "--seeds", "0", "--episodes", "1e6", "--engine", engine]
    process = start("sweep", *grid, out=tmp_path)
    metrics = tmp_path / "cells" / "algorithm=curious" / "seed-0" / "metrics.jsonl"
    while not metrics.exists() or not metrics.read_text():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert "stopped; the same command resumes it" in finish(process, 130)
    (checkpoint,) = cells.checkpoints(metrics.parent)
    rows, _ = evaluations.read_rows(metrics)
    assert int(checkpoint.name.removeprefix("state-")) >= rows[-1]["env_steps"]  # it was saved when it was stopped
    assert set(tables.read(tmp_path / "table.csv")["status"]) == {"unfinished"}


FETCH = (
    *("--preset", "cpu", "--num-envs", "4", "--episodes", "8", "--evaluation-interval", "4", "--capacity", "8"),
    *("--updates-per-cycle", "2", "--batch-size", "16", "--evaluation-episodes", "10"),
    *("--hidden-size", "8", "--hidden-layers", "1", "--seeds", "0"),
)
CI_SIZE = {
    "ablation": ["--variants", "guide=0;replay=uniform", "--target-success", "1"],
    "architectures": [],
    "distractors": ["--distractors", "0,2"],
    "learning_progress": [],
    "perturbation": ["--perturb-at", "4"],
    "scaling": [],
    "curricula": ["--estimators", "bayes", "--samplers", "mega", "--distractors", "1", "--cvar-goals", "10"],
    "sweep": ["--modules", "reach", "--algorithm", "curious,muvfa"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CI_SIZE)
def test_two_epochs_on_fetch(name, tmp_path):
    finish(start(name, *FETCH, *CI_SIZE[name], out=tmp_path))
    rows = tables.read(tmp_path / "table.csv")
    assert set(rows["status"]) == {"done"} and set(rows["episodes"]) == {4, 8}
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000 and (tmp_path / f"{name}.pdf").exists()


@pytest.mark.slow
def test_ray_goes_on_when_a_worker_is_killed(tmp_path):
    ray = pytest.importorskip("ray")
    psutil = pytest.importorskip("psutil")
    assert ray.__version__
    grid = [*TINY, "--algorithm", "curious,muvfa", "--seeds", "0-1", "--group", "1", "--episodes", "400"]
    grid += ["--checkpoint-episodes", "40"]
    finish(start("sweep", *grid, out=tmp_path / "calm"))
    process = start("sweep", *grid, "--engine", "ray", "--cpus", "1", out=tmp_path / "ray")
    cell = tmp_path / "ray" / "cells" / "algorithm=curious" / "seed-0"
    while not [p for p in cell.glob("checkpoints/*") if p.name.isdecimal()]:
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.05)
    (training,) = [p for p in psutil.process_iter(["cmdline"]) if str(cell) in (p.info["cmdline"] or [])]
    worker = training.parent()
    assert "ray" in worker.name().lower()
    worker.kill()
    training.kill()
    output = finish(process)
    assert without_times(tmp_path / "ray") == without_times(tmp_path / "calm"), output
