"""What a sweep shows while it runs."""

import pytest
from helpers.experiments import condition, make_cell

from experiments.engine import watch
from experiments.engine.grid import Cell
from experiments.engine.watch import Look, Watch

CONDITION = condition(algorithm="curious")


def test_a_cells_last_evaluation(tmp_path, monkeypatch):
    cell = Cell(CONDITION, 0, 2)
    assert watch.look(cell, tmp_path) == Look(0, 20, None)
    folder = make_cell(cell, tmp_path)
    monkeypatch.setattr(watch, "TAIL", 700)  # the file's last rows alone
    whole = (folder / "metrics.jsonl").read_bytes()
    for data in (whole, whole + b'{"episodes": 30, "env'):  # a row that is being written
        (folder / "metrics.jsonl").write_bytes(data)
        found = watch.look(cell, tmp_path)
        assert (found.episodes, found.share, found.success) == (20, 1.0, pytest.approx(0.25))
    assert str(found) == "20 of 20 episodes, success 0.25"


def test_lines_where_there_is_no_terminal(tmp_path, monkeypatch, capsys):
    todo = [Cell(CONDITION, seed, 1) for seed in range(4)]
    clock = [100.0]
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    with Watch(todo, tmp_path) as shown:
        make_cell(todo[0], tmp_path, status=None, rows=1)
        shown.show()
        assert capsys.readouterr().out == ""  # not yet
        clock[0] += 60
        shown.show()
        assert capsys.readouterr().out.splitlines() == [
            "0 of 4 cells, 12 %, ETA 0:07:00",
            "  algorithm=curious/seed-0: 10 of 20 episodes, success 0.10",
        ]
        shown.end(todo[0], "algorithm=curious/seed-0: done after 60 s")
        shown.wait_for(todo[1])
        shown.wait_for(todo[1])
        clock[0] += 60
        shown.show()
        assert capsys.readouterr().out.splitlines() == [
            "algorithm=curious/seed-0: done after 60 s; 1 of 4 cells",
            "algorithm=curious/seed-1: another process is at work in it; waiting for its end",
            "1 of 4 cells, 25 %, ETA 0:06:00",
        ]


def test_only_cells_with_new_evaluations_are_read(tmp_path, monkeypatch):
    todo = [Cell(CONDITION, seed, 1) for seed in range(20)]
    folder, read, look = make_cell(todo[3], tmp_path, status=None, rows=1), [], watch.look
    monkeypatch.setattr(watch, "look", lambda cell, out: read.append(cell.first) or look(cell, out))
    monkeypatch.setattr(watch, "LINES_S", 0.0)
    with Watch(todo, tmp_path) as shown:
        shown.show()
        shown.show()
        assert read == [3]
        make_cell(todo[5], tmp_path, status=None, rows=1)
        with open(folder / "metrics.jsonl", "a") as file:
            file.write("{")
        shown.show()
        assert read == [3, 3, 5]


def test_a_reader_that_went_away_does_not_stop_a_sweep(tmp_path, monkeypatch):
    shown = Watch([], tmp_path)

    def gone(*_):
        raise BrokenPipeError

    monkeypatch.setattr(shown._console, "print", gone)
    shown.say("nobody reads this")
