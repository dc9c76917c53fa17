"""The plan of an experiment, and the table made of it."""

import json
import os

import numpy as np
import pytest
from helpers.experiments import condition, make_cell, records

from curious_jax import config as configs
from curious_jax.errors import ConfigError
from experiments.analysis import table
from experiments.engine import cells, evaluations, plan
from experiments.engine.cells import CellState
from experiments.engine.grid import Cell, Condition

CELL = Cell(condition(algorithm="curious"), 0, 2)


def planned(tmp_path, seeds, group):
    return [(p.cell.first, p.cell.count, p.state) for p in plan.plan([CELL.condition], seeds, group, tmp_path)]


def test_seeds_that_are_done_stay_done_whatever_the_groups(tmp_path):
    make_cell(Cell(CELL.condition, 2, 3), tmp_path)
    assert planned(tmp_path, range(10), 4) == [
        (0, 2, CellState.MISSING), (2, 3, CellState.DONE), (5, 4, CellState.MISSING), (9, 1, CellState.MISSING),
    ]  # fmt: skip
    assert planned(tmp_path, [3], 1) == [(2, 3, CellState.DONE)]
    assert planned(tmp_path, [7], 1) == [(7, 1, CellState.MISSING)]


def test_what_was_begun_stays_as_it_is_when_all_of_it_is_asked_for(tmp_path):
    make_cell(Cell(CELL.condition, 0, 3), tmp_path, status=None, states=["state-20"])
    make_cell(Cell(CELL.condition, 3, 2), tmp_path, status=None, rows=1)  # nothing to resume
    assert planned(tmp_path, range(6), 10) == [(0, 3, CellState.STARTED), (3, 3, CellState.MISSING)]
    assert planned(tmp_path, range(2), 10) == [(0, 2, CellState.MISSING)]


def test_a_group_is_lengthened_as_a_whole(tmp_path):
    make_cell(Cell(CELL.condition, 0, 4), tmp_path, states=["state-400"])
    longer = condition(**CELL.condition.labels, episodes=40)
    longer = Condition(CELL.condition.labels, longer.settings)
    (one,) = plan.plan([longer], range(4), 10, tmp_path)
    assert (one.cell.first, one.cell.count, one.state) == (0, 4, CellState.STARTED)
    with pytest.raises(
        ConfigError, match="--seeds: algorithm=curious/seeds-0-3 is one run and is lengthened as a whole"
    ):
        plan.plan([longer], range(2), 10, tmp_path)


def test_diverged_cells_count_as_ended_until_they_are_put_aside(tmp_path):
    folder = make_cell(CELL, tmp_path, status="diverged")
    assert planned(tmp_path, range(2), 1) == [(0, 2, CellState.DIVERGED)]
    cells.put_aside(folder, "diverged")
    assert planned(tmp_path, range(2), 1) == [(0, 1, CellState.MISSING), (1, 1, CellState.MISSING)]


def test_the_seeds_of_diverged_cells_that_were_put_aside_are_run_one_by_one_from_then_on(tmp_path):
    """Whatever the group: an interrupted command, and another shard, lay out the same cells."""
    cells.put_aside(make_cell(Cell(CELL.condition, 2, 2), tmp_path, status="diverged"), "diverged")
    singles = [(2, 1, CellState.MISSING), (3, 1, CellState.MISSING)]
    assert planned(tmp_path, range(6), 10) == [(0, 2, CellState.MISSING), *singles, (4, 2, CellState.MISSING)]
    make_cell(Cell(CELL.condition, 2, 1), tmp_path)
    assert planned(tmp_path, range(6), 10)[1:3] == [(2, 1, CellState.DONE), singles[1]]


@pytest.mark.parametrize(
    "values",
    [{"episodes": (10, 20)}, {"window_span": (None, 40)}, {"actor_lr": (0.00123456789, 0.002)}],
    ids=["a counter's name", "none", "many digits"],
)
def test_rows_are_found_again_by_their_labels(tmp_path, values):
    ((name, both),) = values.items()
    conditions = [condition(**{name: value}) for value in both]
    for one in conditions:
        make_cell(Cell(one, 0, 1), tmp_path)
    built = table.build(plan.plan(conditions, [0], 1, tmp_path), [0])
    table.write(built, tmp_path / "table.csv")
    for held in (built, table.read(tmp_path / "table.csv")):
        for one in conditions:
            expected = evaluations.list_due(one.config())
            assert list(table.select(held, **one.labels)["episodes"]) == expected
            assert len(table.select_rows(held, one.labels)) == len(expected)


def test_the_table_has_a_row_per_seed_and_evaluation_and_drops_nothing(tmp_path):
    make_cell(Cell(CELL.condition, 0, 2), tmp_path)
    make_cell(Cell(CELL.condition, 2, 1), tmp_path, status="diverged", rows=1)
    cells.note_failure(Cell(CELL.condition, 3, 1).folder(tmp_path), "killed by signal 9")
    seeds = range(5)
    built = table.build(plan.plan([CELL.condition], seeds, 1, tmp_path), seeds)
    rows = records(built)
    shown = [(r["seed"], r["status"], r.get("episodes"), r.get("eval/success")) for r in rows]
    assert shown == [
        (0, "done", 10, 0.1), (0, "done", 20, 0.2), (1, "done", 10, pytest.approx(0.2)),
        (1, "done", 20, pytest.approx(0.3)), (2, "diverged", 10, pytest.approx(0.3)),
        (3, "failed", None, None), (4, "missing", None, None),
    ]  # fmt: skip
    assert rows[0]["algorithm"] == "curious" and rows[0]["wall_s"] == 1.5 and "train/critic_loss" not in rows[0]
    table.write(built, tmp_path / "table.csv")
    names = (tmp_path / "table.csv").read_text().splitlines()[0]
    assert names == "algorithm,seed,status,reason,episodes,env_steps,updates,eval/success,p_module/reach,wall_s"
    assert records(table.read(tmp_path / "table.csv")) == [
        {k: pytest.approx(v) if isinstance(v, float) else v for k, v in r.items()} for r in rows
    ]
    assert list(table.select_finished(table.select(built, algorithm="curious"))["seed"]) == [0, 0, 1, 1]
    assert table.select(built, algorithm="muvfa").empty
    assert table.curves(table.select(built, algorithm="curious"), "eval/success")[1].to_dict() == pytest.approx(
        {10: 0.2, 20: 0.3}
    )
    table.write(built, tmp_path / table.PACKED)
    assert table.read(tmp_path / table.PACKED).equals(table.read(tmp_path / "table.csv"))


def test_a_table_says_the_same_before_it_is_written_and_after(tmp_path):
    """A competence of 27 of 30 is below 0.9 in float32; mastery must not depend on where the table was read."""
    metrics = make_cell(Cell(CELL.condition, 0, 1), tmp_path) / "metrics.jsonl"
    rows = [json.loads(line) | {"competence/reach": float(np.float32(27 / 30))} for line in metrics.open()]
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = table.build(plan.plan([CELL.condition], [0], 1, tmp_path), [0])
    table.write(built, tmp_path / "table.csv")
    assert list(built["competence/reach"]) == [0.9, 0.9]
    assert records(table.read(tmp_path / "table.csv")) == records(built)


def test_rows_and_tables_of_an_earlier_version_keep_their_invalid_episodes(tmp_path):
    line = b'{"episodes": 10, "env_steps": 10, "updates": 1, "wall_s": 1.0, "nan_episodes": 2}'
    ((row,), problem) = evaluations.parse_rows(line)
    assert row["invalid_episodes"] == 2 and not problem
    (tmp_path / "table.csv").write_text("episodes,nan_episodes\n10,2\n")
    assert records(table.read(tmp_path / "table.csv")) == [{"episodes": 10, "invalid_episodes": 2}]


def test_a_group_larger_than_what_is_asked_for_gives_those_seeds_alone(tmp_path):
    make_cell(CELL, tmp_path)
    rows = records(table.build(plan.plan([CELL.condition], [1], 1, tmp_path), [1]))
    assert [(r["seed"], r["episodes"]) for r in rows] == [(1, 10), (1, 20)]


def test_a_process_reads_ended_cells_again_only_where_their_files_changed(tmp_path, monkeypatch):
    """Every process checks each of them itself, and none is kept that has not ended."""
    ended, begun = Cell(CELL.condition, 0, 1), Cell(CELL.condition, 1, 1)
    make_cell(begun, tmp_path, status=None, rows=1, states=["state-20"])
    folder, read, inspect = make_cell(ended, tmp_path), [], cells.inspect
    monkeypatch.setattr(cells, "inspect", lambda cell, out: read.append(cell.first) or inspect(cell, out))
    seen = cells.Inspections()

    def look(seen):
        read.clear()
        found = plan.plan([CELL.condition], range(2), 1, tmp_path, seen=seen)
        return read.count(0), read.count(1) > 0, found[0].state, len(found[0].found.rows)

    assert look(seen) == (1, True, CellState.DONE, 2)
    assert look(seen) == (0, True, CellState.DONE, 2)
    cells.note_end(folder, CellState.DONE)
    assert look(seen) == (1, True, CellState.DONE, 2)
    metrics = folder / "metrics.jsonl"
    text, time = metrics.read_text(), metrics.stat().st_mtime_ns
    metrics.write_text(text.replace("0.5", "0.6"))  # as many bytes, later
    os.utime(metrics, ns=(time + 10, time + 10))
    assert look(seen)[2] is CellState.DAMAGED
    metrics.write_text(text)
    assert look(seen)[::2] == look(cells.Inspections())[::2] == (1, CellState.DONE)


def test_a_plan_of_many_cells_makes_few_configs(tmp_path, monkeypatch):
    for seed in range(4):
        make_cell(Cell(CELL.condition, seed, 1), tmp_path)
    made, make = [], configs.make_config
    monkeypatch.setattr(configs, "make_config", lambda *given, **named: made.append(1) or make(*given, **named))
    for preset in ("cpu", "auto"):
        asked = Condition(CELL.condition.labels, {**CELL.condition.settings, "preset": preset})
        made.clear()
        assert len(plan.plan([asked], range(20), 1, tmp_path)) == 20
        assert len(made) <= 4 + 2, preset  # one of each file that is read, and what they are compared with
    assert [asked.config(seed).seed for seed in (0, 3, 1)] == [0, 3, 1]


def test_cells_that_share_a_seed_give_it_once(tmp_path):
    for cell in (Cell(CELL.condition, 0, 3), Cell(CELL.condition, 2, 3)):
        make_cell(cell, tmp_path)
    planned = plan.plan([CELL.condition], range(5), 3, tmp_path)
    assert [one.seeds for one in planned] == [(0, 1, 2), (3, 4)]
    built = table.build(planned, range(5))
    assert built.groupby("seed").size().to_dict() == dict.fromkeys(range(5), 2)
    assert table.curves(built, "eval/success").shape == (2, 5)


def test_a_seed_is_judged_alike_whatever_its_group_and_its_lengthening(tmp_path):
    """A group trains until all its seeds have met the target; a run that was lengthened has an evaluation more."""
    one = condition(algorithm="curious", episodes=40, target_success=0.9)
    group = make_cell(Cell(one, 0, 2), tmp_path)
    lines = [json.loads(line) for line in (group / "metrics.jsonl").read_text().splitlines()]
    for row in lines:
        if (row["seed"], row["episodes"]) in ((0, 10), (0, 20), (1, 40)):
            row["eval/fresh"] = 0.8 if row["episodes"] == 10 else 0.92
    lines.insert(6, {**lines[4], "episodes": 35, "seed": 1})
    (group / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    built = table.build(plan.plan([one], [0, 1], 2, tmp_path), [0, 1])
    found = [(seed, list(own["episodes"])) for seed, own in built.groupby("seed")]
    assert found == [(0, [10, 20]), (1, [10, 20, 30, 40])]
    assert set(built["target"]) == {0.9}


def test_the_seeds_of_a_group_in_which_one_diverged_have_not_ended(tmp_path):
    """One seed ends its whole group: the others may be sound, and are told to be run by themselves."""
    make_cell(CELL, tmp_path, status="diverged", rows=1)
    make_cell(Cell(CELL.condition, 2, 1), tmp_path, status="diverged", rows=1)
    built = table.build(plan.plan([CELL.condition], range(3), 2, tmp_path), range(3))
    assert list(built["status"]) == ["unfinished", "unfinished", "diverged"]
    assert table.count(built, CELL.condition.labels) == table.Seeds(3, 1, 1)
    assert table.count(built).pending == 2 and "--retry-diverged" in built["reason"][0]
