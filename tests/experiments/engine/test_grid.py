"""Grids: seeds, groups, shards, folders' names, and settings as they are typed."""

import pytest
from helpers.experiments import condition

from curious_jax import config as configs
from curious_jax import train
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from experiments.engine import grid
from experiments.engine.grid import Cell, Condition


def test_seeds():
    assert grid.parse_seeds("0-3,7") == (0, 1, 2, 3, 7)
    assert grid.parse_seeds("5,5,4-5") == (4, 5)
    for text in ("", "3-1", "a", "-1", "1,", "1.5", "0-200000"):
        with pytest.raises(ConfigError, match="--seeds"):
            grid.parse_seeds(text)


def test_groups_are_runs_of_consecutive_seeds():
    assert grid.groups(range(10), 4) == [(0, 4), (4, 4), (8, 2)]
    assert grid.groups([5, 0, 1, 3], 10) == [(0, 2), (3, 1), (5, 1)]
    assert grid.groups([], 3) == []
    left = set(range(10)) - {4, 5, 6, 7}  # what is left when one group is done are the other groups
    assert grid.groups(left, 4) == [(0, 4), (8, 2)]


def test_shards_are_all_cells_once():
    cells = [Cell(condition(algorithm="curious"), k, 1) for k in range(7)]
    parts = [grid.shard(cells, i, 3) for i in range(3)]
    assert [len(p) for p in parts] == [3, 2, 2]
    assert sorted((c for p in parts for c in p), key=lambda c: c.first) == cells
    assert grid.parse_shard("2/3") == (2, 3)
    for text in ("3/3", "1", "-1/3", "a/b", "0/0"):
        with pytest.raises(ConfigError, match="--shard"):
            grid.parse_shard(text)


def test_a_cell_is_a_folder_and_a_command_line(tmp_path):
    cell = Cell(condition(algorithm="muvfa", distractors=4), 10, 5)
    assert cell.folder(tmp_path) == tmp_path / "cells" / "algorithm=muvfa,distractors=4" / "seeds-10-14"
    assert Cell(cell.condition, 3, 1).name == "seed-3"
    read = options.read(train.parser(), cell.arguments())[0]
    assert read == {**cell.condition.settings, "seed": 10, "num_seeds": 5}
    assert condition(modules="reach+push", epsilon="a/b").name == "modules=reach+push,epsilon=a_b"


@pytest.mark.parametrize(
    "settings",
    [dict(normalize=False), dict(target_success=None), dict(actor_lr=1e-05), dict(modules=("reach",)), dict(seed=7)],
    ids=str,
)
def test_settings_are_typed_and_read_back(settings):
    ((name, value),) = settings.items()
    assert options.read(train.parser(), grid.as_option(name, value))[0] == settings


@pytest.mark.parametrize("settings", [dict(window=40, window_span=400), dict(preset="fast", window=60)], ids=str)
def test_a_cells_command_line_makes_the_run_that_was_asked_for(settings):
    cell = Cell(condition(algorithm="curious", **settings), 3, 1)
    made = configs.make_config(**options.read(train.parser(), cell.arguments())[0])
    assert made == cell.condition.config(3, 1)


def test_what_no_run_could_be_is_refused():
    good = condition(algorithm="curious")
    grid.check([good], (0, 1), 2)
    for bad, message in (
        (Condition({}, {**good.settings, "modules": ("reach", "fly")}), "unknown module 'fly'"),
        (Condition({}, {**good.settings, "modules": ("fly",), "world": "fetch"}), "unknown module 'fly'"),
        (Condition({}, {**good.settings, "perturb_at": 5, "perturb_cube": 3}), "--perturb-cube 3: must be at most 1"),
        (Condition({}, {**good.settings, "batch_size": 1}), "batch_size=1: must be at least"),
    ):
        with pytest.raises(ConfigError, match=message):
            grid.check([bad], (0,), 1)
    with pytest.raises(ConfigError, match="asked for twice"):
        grid.check([good, good], (0,), 1)
