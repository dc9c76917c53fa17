"""A cell's way to its end, whatever happens on it, and the plan and table made of many."""

import contextlib
import subprocess
import sys
import threading
import time

import pytest
from helpers.experiments import condition, make_run

from curious_jax.errors import ConfigError
from experiments.analysis import table
from experiments.engine import cells, plan
from experiments.engine.cells import Stage
from experiments.engine.grid import Cell

CELL = Cell(condition(algorithm="curious"), 0, 2)


@pytest.fixture
def folder(tmp_path):
    return CELL.folder(tmp_path)


class Trainings:
    """Stands in for the training process: each go does the next of the things given and ends with its status."""

    def __init__(self, monkeypatch, *goes):
        self.goes, self.stages = list(goes), []
        monkeypatch.setattr(cells, "_train", self)

    def __call__(self, cell, folder, lock, environment, cores, started, at):
        self.stages.append(at)
        cells.log_path(folder).write_text("memory: enough\nerror: it went wrong\n\n")
        do, status = self.goes.pop(0)
        do(folder)
        return status


def begins(folder):
    make_run(folder, num_seeds=2, status=None, rows=1, states=["state-200"])


def completes(folder):
    if folder.exists():
        (folder / "summary.json").write_text('{"status": "completed"}')
    else:
        make_run(folder, num_seeds=2, states=["state-400"])


def diverges(folder):
    make_run(folder, num_seeds=2, status="diverged", rows=1)


def nothing(folder):
    pass


def run(tmp_path, **options):
    said = []
    return cells.run(CELL, tmp_path, say=said.append, **options), said


def test_stages(tmp_path):
    assert cells.stage(tmp_path / "none") is Stage.MISSING
    assert cells.stage(make_run(tmp_path / "a", status=None)) is Stage.MISSING  # no checkpoint to go on from
    assert cells.stage(make_run(tmp_path / "b", status=None, states=["state-20"])) is Stage.STARTED
    assert cells.stage(make_run(tmp_path / "c", status="interrupted", states=["state-20"])) is Stage.STARTED
    assert cells.stage(make_run(tmp_path / "d", status="completed")) is Stage.DONE
    assert cells.stage(make_run(tmp_path / "e", status="target_reached")) is Stage.DONE
    assert cells.stage(make_run(tmp_path / "f", status="diverged", states=["state-20"])) is Stage.DIVERGED
    (tmp_path / "c" / "summary.json").write_text("{")
    assert cells.stage(tmp_path / "c") is Stage.STARTED


def test_a_cell_runs_once_and_is_then_skipped(tmp_path, folder, monkeypatch):
    trainings = Trainings(monkeypatch, (completes, 0))
    outcome, said = run(tmp_path)
    assert (outcome.ok, outcome.attempts, said) == (True, 1, [])
    assert list((folder / "checkpoints").iterdir()) == []  # the whole state went
    again, _ = run(tmp_path)
    assert (again.ok, again.attempts) == (True, 0) and trainings.stages == [Stage.MISSING]


def test_whole_states_stay_when_asked_for(tmp_path, folder, monkeypatch):
    Trainings(monkeypatch, (completes, 0))
    run(tmp_path, keep_states=True)
    assert [p.name for p in (folder / "checkpoints").iterdir()] == ["state-400"]


def test_a_killed_training_goes_on_from_its_checkpoint(tmp_path, folder, monkeypatch):
    trainings = Trainings(monkeypatch, (begins, -9), (nothing, 1), (completes, 0))
    outcome, said = run(tmp_path)
    assert trainings.stages == [Stage.MISSING, Stage.STARTED, Stage.STARTED]
    assert (outcome.ok, outcome.attempts) == (True, 3)
    assert "killed by signal 9" in said[0] and "exit status 1: error: it went wrong" in said[1]
    assert cells.failure(folder) == ""


def test_a_cell_that_fails_too_often_says_why_until_it_is_tried_again(tmp_path, folder, monkeypatch):
    Trainings(monkeypatch, (nothing, 1), (nothing, -11), (completes, 0))
    outcome, _ = run(tmp_path, retries=1)
    assert (outcome.ok, outcome.interrupted, outcome.attempts) == (False, False, 2)
    assert outcome.reason == cells.failure(folder) == "killed by signal 11"
    assert run(tmp_path)[0].ok and cells.failure(folder) == ""


def test_bad_input_and_divergence_are_not_tried_again(tmp_path, folder, monkeypatch):
    Trainings(monkeypatch, (nothing, 2))
    assert run(tmp_path)[0].reason == "exit status 2: error: it went wrong"
    Trainings(monkeypatch, (diverges, 3))
    outcome, _ = run(tmp_path)
    assert (outcome.reason, outcome.attempts) == ("diverged", 1)
    assert (run(tmp_path)[0].reason, run(tmp_path)[0].attempts) == ("diverged", 0)


def test_a_checkpoint_that_cannot_be_used_is_begun_anew(tmp_path, folder, monkeypatch):
    begins(folder)
    trainings = Trainings(monkeypatch, (nothing, 2), (completes, 0))
    outcome, said = run(tmp_path)
    assert outcome.ok and trainings.stages == [Stage.STARTED, Stage.MISSING] and "begun anew" in said[0]


def test_an_interrupted_cell_is_left_as_it_is(tmp_path, folder, monkeypatch):
    for status in (130, 143, -15):
        Trainings(monkeypatch, (nothing, status))
        outcome, _ = run(tmp_path)
        assert (outcome.ok, outcome.interrupted) == (False, True)
        assert cells.failure(folder) == ""


def test_two_never_work_in_one_cell(tmp_path, folder, monkeypatch):
    """A child that inherited the lock keeps it after its supervisor is gone; who comes next waits for its end."""
    monkeypatch.setattr(cells, "LOCK_POLL_S", 0.01)
    with cells.held(folder) as lock:
        orphan = subprocess.Popen([sys.executable, "-c", "input()"], pass_fds=(lock,), stdin=subprocess.PIPE)
    Trainings(monkeypatch)
    asked = []
    gave_up, _ = run(tmp_path, stopping=lambda: asked.append(1) or len(asked) > 2)
    assert gave_up.interrupted
    completes(folder)  # the orphan's work
    timer = threading.Timer(0.3, orphan.communicate, (b"\n",))
    timer.start()
    began = time.monotonic()
    outcome, said = run(tmp_path)
    assert outcome.ok and outcome.attempts == 0 and time.monotonic() - began > 0.2
    assert "another process is at work" in said[0] and len(said) == 1
    timer.join()


def test_settings_are_noted_and_others_refused(tmp_path):
    cells.write_condition(tmp_path, CELL.condition, dry=True)
    assert list(tmp_path.iterdir()) == []
    cells.write_condition(tmp_path, CELL.condition)
    cells.write_condition(tmp_path, CELL.condition)
    other = condition(algorithm="curious")
    other.settings["hidden_size"] = 8
    with pytest.raises(ConfigError, match="--hidden-size 8: the cells in .*algorithm=curious have its default; ask"):
        cells.write_condition(tmp_path, other)
    del other.settings["hidden_size"], other.settings["preset"]
    with pytest.raises(ConfigError, match="--preset its default: the cells in .* have cpu"):
        cells.write_condition(tmp_path, other)


# The plan


def planned(tmp_path, seeds, group):
    return [(p.cell.first, p.cell.count, p.stage) for p in plan.plan([CELL.condition], seeds, group, tmp_path)]


def test_seeds_that_are_done_stay_done_whatever_the_groups(tmp_path):
    make_run(Cell(CELL.condition, 2, 3).folder(tmp_path), 2, 3)
    assert planned(tmp_path, range(10), 4) == [
        (0, 2, Stage.MISSING), (2, 3, Stage.DONE), (5, 4, Stage.MISSING), (9, 1, Stage.MISSING),
    ]  # fmt: skip
    assert planned(tmp_path, [3], 1) == [(2, 3, Stage.DONE)]
    assert planned(tmp_path, [7], 1) == [(7, 1, Stage.MISSING)]


def test_what_was_begun_goes_on_when_all_of_it_is_asked_for(tmp_path):
    make_run(Cell(CELL.condition, 0, 3).folder(tmp_path), 0, 3, status=None, states=["state-20"])
    make_run(Cell(CELL.condition, 3, 2).folder(tmp_path), 3, 2, status=None)  # nothing to go on from
    assert planned(tmp_path, range(6), 10) == [(0, 3, Stage.STARTED), (3, 3, Stage.MISSING)]
    assert planned(tmp_path, range(2), 10) == [(0, 2, Stage.MISSING)]


def test_diverged_cells_count_as_ended_until_they_are_put_aside(tmp_path):
    make_run(CELL.folder(tmp_path), 0, 2, status="diverged")
    assert planned(tmp_path, range(2), 1) == [(0, 2, Stage.DIVERGED)]
    assert plan.retry_diverged(plan.plan([CELL.condition], range(2), 1, tmp_path), tmp_path)
    assert planned(tmp_path, range(2), 1) == [(0, 1, Stage.MISSING), (1, 1, Stage.MISSING)]
    assert CELL.folder(tmp_path).with_name("diverged-seeds-0-1").is_dir()


# The table


def test_the_table_has_a_row_per_seed_and_evaluation_and_drops_nothing(tmp_path):
    make_run(Cell(CELL.condition, 0, 2).folder(tmp_path), 0, 2)
    make_run(Cell(CELL.condition, 2, 1).folder(tmp_path), 2, 1, status="diverged", rows=1)
    failed = Cell(CELL.condition, 3, 1).folder(tmp_path)
    cells.failure_path(failed).write_text("killed by signal 9\n")
    seeds = range(5)
    rows = table.build(plan.plan([CELL.condition], seeds, 1, tmp_path), seeds, tmp_path)
    shown = [(r["seed"], r["status"], r.get("episodes"), r.get("eval/success")) for r in rows]
    assert shown == [
        (0, "done", 10, 0.1), (0, "done", 20, 0.2), (1, "done", 10, pytest.approx(0.2)),
        (1, "done", 20, pytest.approx(0.3)), (2, "diverged", 10, pytest.approx(0.3)),
        (3, "failed", None, None), (4, "missing", None, None),
    ]  # fmt: skip
    assert rows[0]["algorithm"] == "curious" and rows[0]["wall_s"] == 1.5 and "train/critic_loss" not in rows[0]
    table.write(rows, tmp_path / "table.csv")
    names = (tmp_path / "table.csv").read_text().splitlines()[0]
    assert names == "algorithm,seed,status,episodes,env_steps,updates,eval/success,p_module/reach,reason,wall_s"
    assert table.read(tmp_path / "table.csv") == [
        {k: pytest.approx(v) if isinstance(v, float) else v for k, v in r.items()} for r in rows
    ]
    assert [r["seed"] for r in table.finished(table.select(rows, algorithm="curious"))] == [0, 0, 1, 1]
    assert table.select(rows, algorithm="muvfa") == []


def test_a_group_larger_than_what_is_asked_for_gives_those_seeds_alone(tmp_path):
    make_run(CELL.folder(tmp_path), 0, 2)
    rows = table.build(plan.plan([CELL.condition], [1], 1, tmp_path), [1], tmp_path)
    assert [(r["seed"], r["episodes"]) for r in rows] == [(1, 10), (1, 20)]


def test_a_child_ends_with_its_parent(tmp_path):
    """SIGTERM reaches it when the process that started it is killed."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells a process of its parent's death")
    script = (
        "import signal, sys, time; from experiments.engine.child import end_with_parent; "
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(tmp_path / 'told')!r}, 'w').close(), sys.exit())); "
        "end_with_parent(); print('ready', flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {script!r}]).wait()"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.kill()
    with contextlib.suppress(StopIteration):
        next(i for i in range(600) if (tmp_path / "told").exists() or time.sleep(0.1))
    assert (tmp_path / "told").exists()
