"""What a cell's files say, and that none is taken on trust."""

import json
import re

import pytest
from helpers.experiments import condition, make_cell, records

from curious_jax import config as configs
from curious_jax.errors import ConfigError
from curious_jax.run.rows import FRESH
from experiments.analysis import table
from experiments.engine import cells, plan
from experiments.engine.cells import CellState
from experiments.engine.grid import Cell, Condition

CELL = Cell(condition(algorithm="curious"), 0, 2)


@pytest.fixture
def folder(tmp_path):
    return CELL.folder(tmp_path)


def state(tmp_path, cell=CELL):
    return cells.inspect(cell, tmp_path).state


def test_a_run_that_ended_at_fewer_episodes_goes_on_from_its_checkpoint(tmp_path):
    longer = Cell(condition(algorithm="curious", episodes=40), 0, 2)
    shorter = Cell(Condition(longer.condition.labels, {**longer.condition.settings, "episodes": 25}), 0, 2)
    folder = make_cell(shorter, tmp_path, states=["30"])  # in whole cycles
    cells.note_end(folder, CellState.DONE)
    assert state(tmp_path, shorter) is CellState.DONE
    assert state(tmp_path, longer) is CellState.STARTED
    metrics = folder / "metrics.jsonl"
    sound = metrics.read_bytes()
    metrics.write_bytes(sound.replace(b"0.1,", b"0.9,", 1))
    assert state(tmp_path, longer) is state(tmp_path, shorter) is CellState.DAMAGED  # before anything goes on from it
    metrics.write_bytes(sound)
    cells.checkpoints(folder)[0].rmdir()
    with pytest.raises(ConfigError, match="--episodes 40: .* ended after 25 and kept no checkpoint .*--keep-states"):
        state(tmp_path, longer)
    with pytest.raises(ConfigError, match="--episodes 30 and this cell asks for 20"):
        longest = Cell(Condition(longer.condition.labels, {**longer.condition.settings, "episodes": 30}), 0, 2)
        (folder / "config.json").write_text(json.dumps(configs.to_dict(longest.condition.config(0, 2))))
        state(tmp_path, Cell(Condition(longer.condition.labels, {**longer.condition.settings, "episodes": 20}), 0, 2))


def test_the_evaluation_where_a_run_ended_before_it_was_lengthened_is_no_damage(tmp_path):
    cell = Cell(condition(algorithm="curious", episodes=40), 0, 1)
    folder = make_cell(cell, tmp_path)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    more = lines[1].replace('"episodes": 20', '"episodes": 25')
    (folder / "metrics.jsonl").write_text("".join([*lines[:2], more, *lines[2:]]))
    assert state(tmp_path, cell) is CellState.DONE
    (folder / "metrics.jsonl").write_text("".join([lines[0], more, *lines[2:]]))
    assert state(tmp_path, cell) is CellState.DAMAGED


def test_a_run_that_met_its_target_is_not_trained_on(tmp_path):
    longer = Cell(condition(algorithm="curious", episodes=40, target_success=0.9), 0, 1)
    shorter = Cell(Condition(longer.condition.labels, {**longer.condition.settings, "episodes": 20}), 0, 1)
    folder = make_cell(shorter, tmp_path)
    metrics = folder / "metrics.jsonl"
    assert lacks_checkpoint(tmp_path, longer)  # it ended below its target
    first, last = metrics.read_text().splitlines()
    metrics.write_text(first + "\n" + json.dumps(json.loads(last) | {FRESH: 0.93}) + "\n")
    assert state(tmp_path, longer) is CellState.DONE


def lacks_checkpoint(tmp_path, cell):
    with pytest.raises(ConfigError, match="kept no checkpoint"):
        state(tmp_path, cell)
    return True


def test_states(tmp_path):
    numbers = iter(range(0, 100, 2))

    def made(**files):
        cell = Cell(CELL.condition, next(numbers), 2)
        make_cell(cell, tmp_path, **files)
        return state(tmp_path, cell)

    assert state(tmp_path) is CellState.MISSING
    assert made(status=None, rows=1) is CellState.MISSING  # results, and no checkpoint to resume
    assert made(status=None, rows=0) is CellState.STARTED  # nothing is lost by starting where nothing was saved
    assert made(status=None, rows=1, states=["state-20"]) is CellState.STARTED
    assert made(status="interrupted", rows=1, states=["20"]) is CellState.STARTED
    assert made(status="completed") is CellState.DONE
    assert made(status="diverged", rows=1, states=["state-20"]) is CellState.DIVERGED


# Files that cannot be trusted


def edit(name, change):
    def do(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return do


DAMAGE = {
    "deleted": lambda folder: (folder / "metrics.jsonl").unlink(),
    "emptied": edit("metrics.jsonl", lambda data: b""),
    "cut": edit("metrics.jsonl", lambda data: data[: len(data) // 2]),
    "a row less": edit("metrics.jsonl", lambda data: data[data.index(b"\n") + 1 :]),
    "a bad byte": edit("metrics.jsonl", lambda data: data.replace(b'"env', b"\xff'env", 1)),
    "NULs": edit("metrics.jsonl", lambda data: data + b"\0" * 600),
    "{}": edit("metrics.jsonl", lambda data: b"{}\n" + data),
    "a number": edit("metrics.jsonl", lambda data: data + b"5\n"),
    "a list": edit("metrics.jsonl", lambda data: data + b"[]\n"),
    "nested": edit("metrics.jsonl", lambda data: data + b"[" * 100_000 + b"\n"),
    "no config": lambda folder: (folder / "config.json").unlink(),
    "a config of {}": edit("config.json", lambda data: b"{}"),
    "a config of null": edit("config.json", lambda data: b"null"),
    "a config of no UTF-8": edit("config.json", lambda data: b"\xff\xfe\0"),
}


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "before notes"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_finished_cell_with_damaged_files_is_named_and_gives_no_rows(tmp_path, damage, noted):
    folder = make_cell(CELL, tmp_path)
    if noted:
        cells.note_end(folder, CellState.DONE)
    DAMAGE[damage](folder)
    found = cells.inspect(CELL, tmp_path)
    assert found.state is CellState.DAMAGED and found.rows == [] and re.match(r"(line \d+ of )?\w+\.json", found.reason)
    planned = plan.plan([CELL.condition], range(2), 2, tmp_path)
    assert [(r["seed"], r["status"], r["reason"]) for r in records(table.build(planned, range(2)))] == [
        (seed, "damaged", found.reason) for seed in range(2)
    ]


def test_one_changed_bit_is_found_by_its_checksum(tmp_path):
    folder = make_cell(CELL, tmp_path)
    cells.note_end(folder, CellState.DONE)
    assert state(tmp_path) is CellState.DONE
    edit("metrics.jsonl", lambda data: data.replace(b'"eval/success": 0.1', b'"eval/success": 0.3', 1))(folder)
    assert cells.inspect(CELL, tmp_path).reason == "metrics.jsonl is not what was written"


@pytest.mark.parametrize("summary", [None, b"", b"\xff\0", b"null", b"[]", b'{"status": []}', b"{}"], ids=str)
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "before notes"])
def test_a_finished_cell_without_its_summary_is_done(tmp_path, summary, noted):
    folder = make_cell(CELL, tmp_path)
    if noted:
        cells.note_end(folder, CellState.DONE)
    (folder / "summary.json").unlink()
    if summary is not None:
        (folder / "summary.json").write_bytes(summary)
    found = cells.inspect(CELL, tmp_path)
    assert found.state is CellState.DONE and len(found.rows) == 4


@pytest.mark.parametrize("note", [b"", b"{}", b"5", b"\xff", b'{"state": 7, "sha256": [1]}', b'{"state": "done"}'])
def test_a_damaged_note_is_no_note(tmp_path, note):
    folder = make_cell(CELL, tmp_path)
    cells.note_path(folder).write_bytes(note)
    assert state(tmp_path) is CellState.DONE


def test_the_run_of_another_condition_is_refused(tmp_path):
    other = condition(algorithm="muvfa")
    make_cell(Cell(other, 0, 2), tmp_path)
    (tmp_path / "cells" / other.name).rename(tmp_path / "cells" / CELL.condition.name)
    with pytest.raises(ConfigError, match="its run has --algorithm muvfa and this cell asks for curious; move it away"):
        plan.plan([CELL.condition], range(2), 2, tmp_path)


def test_a_run_of_other_seeds_is_refused(tmp_path):
    make_cell(Cell(CELL.condition, 2, 2), tmp_path).rename(CELL.folder(tmp_path))
    with pytest.raises(ConfigError, match="has --seed 2 and this cell asks for 0"):
        cells.inspect(CELL, tmp_path)


def test_what_the_machine_decided_is_no_other_condition(tmp_path):
    auto = condition(algorithm="curious")
    auto.settings["preset"] = "auto"
    folder = make_cell(CELL, tmp_path)
    held = json.loads((folder / "config.json").read_text())
    held["devices"], held["checkpoint"]["keep_checkpoints"] = 2, 5
    (folder / "config.json").write_text(json.dumps(held))
    assert state(tmp_path, Cell(auto, 0, 2)) is CellState.DONE


def test_a_run_that_reached_its_target_may_end_early(tmp_path):
    cell = Cell(condition(algorithm="curious", target_success=0.5), 0, 2)
    make_cell(cell, tmp_path, status="target_reached", rows=1)
    assert state(tmp_path, cell) is CellState.DONE


@pytest.mark.parametrize(("fresh", "expected"), [
    (None, CellState.MISSING), ((0.5, 0.4), CellState.MISSING), ((0.5, 0.6), CellState.DONE)])  # fmt: skip
def test_without_a_summary_a_run_with_a_target_is_done_when_every_seed_met_it(tmp_path, fresh, expected):
    """Its checkpoints gone as well, rows alone must tell a run that was cut off from one that ended early."""
    cell = Cell(condition(algorithm="curious", target_success=0.5), 0, 2)
    path = make_cell(cell, tmp_path, status=None, rows=1) / "metrics.jsonl"
    rows = [json.loads(line) for line in path.open()]
    if fresh:
        rows = [row | {"eval/fresh": value} for row, value in zip(rows, fresh, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert state(tmp_path, cell) is expected


def test_nothing_is_deleted_when_a_cell_is_put_aside(tmp_path):
    for number in (1, 2):
        folder = make_cell(CELL, tmp_path)
        cells.note_end(folder, CellState.DONE)
        aside = cells.put_aside(folder, "damaged")
        assert aside.name == f"damaged-{number}-seeds-0-1" and (aside / "metrics.jsonl").is_file()
        assert state(tmp_path) is CellState.MISSING


def test_a_run_on_another_platform_is_still_the_cell_s(tmp_path):
    """A TPU's run has packed off where its preset has it on; asked for by the condition, it counts."""
    plain = condition(algorithm="curious", preset="gpu")
    on_tpu = configs.make_config("tpu", **plain.settings)
    assert not configs.value(on_tpu, "packed") and configs.value(plain.config(), "packed")
    cells.check_config(Cell(plain, 0, 1), on_tpu, tmp_path)
    asked = condition(algorithm="curious", preset="gpu", packed=True)
    with pytest.raises(ConfigError, match="its run has --packed off and this cell asks for on"):
        cells.check_config(Cell(asked, 0, 1), on_tpu, tmp_path)
