"""A cell's way to its end, whatever happens to its trainings."""

import json
import os
import signal
import subprocess
import sys

import pytest
from helpers.experiments import condition, make_cell

from experiments.engine import cells, runner
from experiments.engine.cells import CellState
from experiments.engine.grid import Cell, Condition
from experiments.engine.runner import Effort, Place, Stop
from experiments.engine.watch import Watch

CELL = Cell(condition(algorithm="curious"), 0, 2)


class Trainings:
    """Stands in for the training process: each does the next of the things given and ends with its status."""

    def __init__(self, monkeypatch, out, *goes):
        self.out, self.goes, self.resumed = out, list(goes), []
        monkeypatch.setattr(runner, "_train", self)

    def __call__(self, arguments, log, *rest):
        self.resumed.append(arguments[0] == "--resume")
        log.write_text("memory: enough\nerror: it went wrong\n\n")
        do, status = self.goes.pop(0)
        do(self.out)
        return status


def begins(out):
    make_cell(CELL, out, status=None, rows=1, states=["state-200"])


def completes(out):
    folder = CELL.folder(out)
    if folder.exists():  # resumed
        folder.rename(folder.with_name("resumed"))
    make_cell(CELL, out, states=["state-400"])


def diverges(out):
    make_cell(CELL, out, status="diverged", rows=1)


def nothing(out):
    pass


def run(tmp_path, **effort):
    said = []
    return runner.run_cell(CELL, tmp_path, Effort(**effort), said.append, Stop()), said


def failure(tmp_path):
    return cells.inspect(CELL, tmp_path).reason


def test_a_cell_runs_once_and_is_then_skipped(tmp_path, monkeypatch):
    trainings = Trainings(monkeypatch, tmp_path, (completes, 0))
    result, said = run(tmp_path)
    assert (result.done, result.attempts) == (True, 1)
    assert said == [f"{CELL}: begins; log: {CELL.folder(tmp_path)}.log"]
    assert list((CELL.folder(tmp_path) / "checkpoints").iterdir()) == []  # the whole state went
    again, _ = run(tmp_path)
    assert (again.done, again.attempts) == (True, 0) and trainings.resumed == [False]


def test_a_shorter_run_goes_on_to_more_episodes(tmp_path, monkeypatch):
    Trainings(monkeypatch, tmp_path, (completes, 0))
    run(tmp_path, keep_states=True)
    longer = Cell(condition(algorithm="curious", episodes=40), 0, 2)
    longer = Cell(Condition(CELL.condition.labels, longer.condition.settings), 0, 2)
    folder, given = CELL.folder(tmp_path), []

    def trains(arguments, *rest):
        given.extend(arguments)
        assert not cells.note_path(folder).exists()  # else a kill from here on would look like damage
        folder.rename(folder.with_name("shorter"))
        make_cell(longer, tmp_path)
        return 0

    monkeypatch.setattr(runner, "_train", trains)
    assert runner.run_cell(longer, tmp_path, Effort(), print, Stop()).done
    assert given == ["--resume", str(folder), "--episodes", "40"]


def test_whole_states_stay_when_asked_for(tmp_path, monkeypatch):
    Trainings(monkeypatch, tmp_path, (completes, 0))
    run(tmp_path, keep_states=True)
    assert [p.name for p in (CELL.folder(tmp_path) / "checkpoints").iterdir()] == ["state-400"]


def test_a_killed_training_is_resumed_from_its_checkpoint(tmp_path, monkeypatch):
    trainings = Trainings(monkeypatch, tmp_path, (begins, -9), (nothing, 1), (completes, 0))
    result, said = run(tmp_path)
    assert trainings.resumed == [False, True, True]
    assert (result.done, result.attempts) == (True, 3)
    assert "killed by signal 9" in said[1] and "exit status 1: error: it went wrong" in said[2]
    assert failure(tmp_path) == ""


def test_a_cell_that_fails_too_often_says_why_until_it_is_tried_again(tmp_path, monkeypatch):
    Trainings(monkeypatch, tmp_path, (nothing, 1), (nothing, -11), (completes, 0))
    result, _ = run(tmp_path, retries=1)
    assert (result.done, result.interrupted, result.attempts) == (False, False, 2)
    assert result.reason == failure(tmp_path) == "killed by signal 11"
    assert run(tmp_path)[0].done and failure(tmp_path) == ""


def test_bad_input_and_divergence_are_not_tried_again(tmp_path, monkeypatch):
    Trainings(monkeypatch, tmp_path, (nothing, 2))
    assert run(tmp_path)[0].reason == "exit status 2: error: it went wrong"
    Trainings(monkeypatch, tmp_path, (diverges, 3))
    result, _ = run(tmp_path)
    assert (result.reason, result.attempts) == ("diverged", 1)
    assert (run(tmp_path)[0].reason, run(tmp_path)[0].attempts) == ("diverged", 0)


def test_a_run_that_the_code_of_today_cannot_read_is_not_made_again(tmp_path, monkeypatch):
    def completes_as_later_code_would(out):
        completes(out)
        config = CELL.folder(out) / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "of_later_code": 1}))

    trainings = Trainings(monkeypatch, tmp_path, (completes_as_later_code_would, 0))
    result, said = run(tmp_path)
    assert (result.done, result.attempts) == (False, 1) and len(said) == 1 and trainings.goes == []
    assert result.reason.endswith("if curious_jax was changed meanwhile, the same command continues")
    monkeypatch.setattr(cells, "read_config", lambda folder: CELL.condition.config(CELL.first, CELL.count))
    again, _ = run(tmp_path)
    assert (again.done, again.attempts) == (True, 0)


def test_a_refused_resume_leaves_a_begun_cell_as_it_is(tmp_path, monkeypatch):
    """A full disk, short memory, another program at work in it: the cell is not to pay for it."""
    begins(tmp_path)
    before = contents(CELL.folder(tmp_path))
    trainings = Trainings(monkeypatch, tmp_path, (nothing, 2))
    result, _ = run(tmp_path)
    assert (result.done, result.reason) == (False, "exit status 2: error: it went wrong")
    assert trainings.resumed == [True] and contents(CELL.folder(tmp_path)) == before
    assert cells.inspect(CELL, tmp_path).state is CellState.STARTED


def test_a_cell_whose_checkpoints_are_all_damaged_is_kept_and_run_again(tmp_path, monkeypatch):
    folder = make_cell(CELL, tmp_path, status=None, rows=1, states=["200", "400"])
    for name in ("200", "400"):
        data = folder / "checkpoints" / name / "data"
        data.write_text("whole")
        data.with_name("manifest.json").write_text(json.dumps({"sha256": {"data": cells.sha256(data)}}))
    (folder / "checkpoints" / "400" / "data").write_text("not so")
    Trainings(monkeypatch, tmp_path, (nothing, 2))
    assert not run(tmp_path)[0].done and folder.is_dir()  # the other one is whole
    (folder / "checkpoints" / "200" / "manifest.json").write_text("")
    trainings = Trainings(monkeypatch, tmp_path, (nothing, 2), (completes, 0))
    result, said = run(tmp_path)
    assert result.done and trainings.resumed == [True, False]
    assert "is damaged: " in said[1] and "kept as damaged-1-seeds-0-1, and run again" in said[1]
    assert (folder.with_name("damaged-1-seeds-0-1") / "metrics.jsonl").is_file()


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_a_damaged_cell_is_kept_and_run_again(tmp_path, monkeypatch):
    completes(tmp_path)
    folder = CELL.folder(tmp_path)
    cells.note_end(folder, CellState.DONE)
    (folder / "metrics.jsonl").write_text("{}\n")
    Trainings(monkeypatch, tmp_path, (completes, 0))
    result, said = run(tmp_path)
    assert result.done and "line 1 of metrics.jsonl cannot be read; kept as damaged-1-seeds-0-1" in said[0]
    assert (folder.with_name("damaged-1-seeds-0-1") / "metrics.jsonl").read_text() == "{}\n"


def test_results_without_a_checkpoint_are_kept_and_run_again(tmp_path, monkeypatch):
    make_cell(CELL, tmp_path, status=None, rows=1)
    trainings = Trainings(monkeypatch, tmp_path, (completes, 0))
    assert run(tmp_path)[0].done and trainings.resumed == [False]
    assert (CELL.folder(tmp_path).with_name("damaged-1-seeds-0-1") / "metrics.jsonl").is_file()


def test_a_full_disk_is_a_reason_of_one_line(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "somewhere")

    Trainings(monkeypatch, tmp_path, (completes, 0))
    monkeypatch.setattr(cells, "note_end", full)
    assert run(tmp_path)[0].reason == "somewhere: No space left on device"


def test_an_interrupted_cell_is_left_as_it_is(tmp_path, monkeypatch):
    for status in (130, 143, 129, -15):
        Trainings(monkeypatch, tmp_path, (nothing, status))
        result, _ = run(tmp_path)
        assert (result.done, result.interrupted) == (False, True)
        assert failure(tmp_path) == ""


def test_two_never_work_in_one_cell(tmp_path, monkeypatch):
    """A training holds its cell after the sweep that began it is gone; the next sweep comes back later."""
    monkeypatch.setattr(runner, "BUSY_S", 0.01)
    with cells.hold(CELL.folder(tmp_path)) as lock:
        orphan = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=(lock,), stdin=subprocess.PIPE)
    Trainings(monkeypatch, tmp_path)
    assert run(tmp_path) == (None, [])
    completes(tmp_path)  # the orphan's work
    orphan.communicate(b"\n")
    assert run(tmp_path)[0].attempts == 0


def test_signals_reach_the_trainings(tmp_path):
    """Those under way when the signal comes, and one that begins just then."""
    script = (
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)); print(1, flush=True); input()"
    )

    def training():
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        return process

    first, second = training(), training()
    with Stop() as stop, stop.passing_on(first):
        signal.raise_signal(signal.SIGTERM)
        with stop.passing_on(second):
            assert first.wait() == second.wait() == 143
    assert stop.signal == signal.SIGTERM and not stop.trainings


def test_thousands_of_cells_are_not_all_waited_for_at_once(tmp_path, monkeypatch):
    todo = [Cell(CELL.condition, seed, 1) for seed in range(300)]
    busy, ran, waited, wait = {7, 8}, [], [], runner.concurrent.futures.wait

    def run_cell(cell, *rest):
        if cell.first in busy:
            return busy.remove(cell.first)
        ran.append(cell.first)
        return runner.CellResult(str(cell), True)

    def counted(waiting, *rest):
        waited.append(len(waiting))
        return wait(waiting, *rest)

    monkeypatch.setattr(runner, "run_cell", run_cell)
    monkeypatch.setattr(runner.concurrent.futures, "wait", counted)
    with Watch(todo, tmp_path) as watch:
        monkeypatch.setattr(watch, "say", lambda text: None)
        results, stopped = runner.run(todo, tmp_path, Effort(), watch, jobs=2)
    assert max(waited) <= 4 and not stopped
    assert sorted(ran) == [*range(300)] and len(results) == 300 and set(ran[-2:]) == {7, 8}  # after the others


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system keeps no process on a core")
def test_jobs_share_out_the_cores():
    mine = os.sched_getaffinity(0)
    assert [place.cores for place in runner.places(1)] == [frozenset()]  # all
    assert [place.cores for place in runner.places(len(mine) + 1)] == [frozenset()] * (len(mine) + 1)
    assert [place.cores for place in runner.places(2, ["0", "1"])] == [frozenset()] * 2
    for jobs in range(2, len(mine) + 1):
        shares = [place.cores for place in runner.places(jobs)]
        assert frozenset().union(*shares) == mine and sum(map(len, shares)) == len(mine)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system keeps no process on a core")
def test_a_training_stays_on_its_cores(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    mine = os.sched_getaffinity(0)
    core = max(mine)
    with open(tmp_path / "lock", "w") as lock:
        status = runner._train([], tmp_path / "log", lock.fileno(), Stop(), Place(cores=frozenset({core})))
    assert status == 0
    assert (tmp_path / "log").read_text().split() == ["Cpus_allowed_list:", str(core)]
    assert os.sched_getaffinity(0) == mine


def test_a_closed_terminal_is_ignored_where_nohup_says_so():
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
        assert stop.signal == 0 and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, earlier)


def test_a_run_that_is_not_the_cell_s_is_a_failed_cell(tmp_path, monkeypatch):
    """The other cells go on, and the table is written."""

    def trains_another(out):
        folder = make_cell(CELL, out)
        config = json.loads((folder / "config.json").read_text())
        config["network"]["hidden_size"] = 16
        (folder / "config.json").write_text(json.dumps(config))

    Trainings(monkeypatch, tmp_path, (trains_another, 0))
    result, _ = run(tmp_path)
    assert not result.done and "its run has --hidden-size 16" in result.reason


def test_what_is_no_setting_goes_to_every_training(tmp_path, monkeypatch):
    given = []

    def train(arguments, log, lock, stop, place):
        given.append((arguments[-4:], place.environment["WANDB_RUN_GROUP"]))
        completes(tmp_path)
        return 0

    monkeypatch.setattr(runner, "_train", train)
    run(tmp_path, passed_on=("--cache", "none", "--wandb", "mine"))
    assert given == [(["--cache", "none", "--wandb", "mine"], CELL.condition.name)]
