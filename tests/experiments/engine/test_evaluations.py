"""The evaluations that a measure may use, by runs written by hand."""

import pytest
from helpers.experiments import condition

from curious_jax.run.rows import FRESH
from experiments.engine import evaluations
from experiments.engine.grid import Cell

CELL = Cell(condition(algorithm="curious", episodes=40, target_success=0.9), 0, 2)  # evaluated after 10, 20, 30, 40
CONFIG = CELL.condition.config(0, 2)


def rows(*episodes, fresh=None):
    """Rows of both seeds at these numbers of episodes; `fresh` {episodes: success on fresh episodes}, of both."""
    return [
        {"seed": seed, "episodes": at} | ({FRESH: fresh[at]} if at in (fresh or {}) else {})
        for at in episodes
        for seed in (0, 1)
    ]


def judge(found, seed=0, **more):
    return [row["episodes"] for row in evaluations.take(CELL, CONFIG, found, seed, **more)]


def test_what_is_due():
    assert evaluations.list_due(CONFIG) == [10, 20, 30, 40]
    assert evaluations.length(CELL) == 40 and not evaluations.is_shorter(CELL, CONFIG)


def test_a_measure_ends_at_the_first_evaluation_that_met_the_target():
    assert judge(rows(10, 20, 30, fresh={10: 0.85, 20: 0.9})) == [10, 20]
    assert judge(rows(10, 20, 30, fresh={10: 0.85})) == [10, 20, 30]
    assert judge([]) == []


def test_an_evaluation_off_the_grid_counts_only_where_a_run_ended_by_itself():
    assert judge(rows(10, 20, 25, 30, 40)) == [10, 20, 30, 40]  # lengthened at 25
    assert judge(rows(10, 20, 25, fresh={25: 0.95})) == [10, 20, 25]
    assert judge(rows(10, 20, 23)) == [10, 20]
    assert judge(rows(10, 20, 23), diverged=True) == [10, 20, 23]
    assert judge(rows(10, 20, 30, 40, 50)) == [10, 20, 30, 40, 50]  # longer than its cell asks for


def test_without_a_config_all_evaluations_are_returned():
    assert [row["episodes"] for row in evaluations.take(CELL, None, rows(10, 17), 1)] == [10, 17]


@pytest.mark.parametrize(
    ("found", "lacks"),
    [
        (rows(10, 20, 30, 40), ""),
        (rows(10, 20), ""),  # its target may have ended it
        (rows(10, 20, 25, 30), ""),
        (rows(10, 30), "metrics.jsonl lacks evaluations of seed 0"),
        (rows(10, 20, 30, 40)[:-1], ""),
        ([row for row in rows(10, 20) if row["seed"] == 0], "metrics.jsonl lacks evaluations of seed 1"),
    ],
)
def test_what_a_run_lacks(found, lacks):
    assert evaluations.lacks(CELL, CONFIG, found) == lacks


def test_a_target_is_met_when_every_seed_met_it_on_fresh_episodes():
    met = rows(10, 20, fresh={20: 0.9})
    assert evaluations.has_met_target(CELL, CONFIG, met)
    assert not evaluations.has_met_target(CELL, CONFIG, [row | {FRESH: 0.89} for row in met])
    assert not evaluations.has_met_target(CELL, CONFIG, [row for row in met if row["seed"] == 0])


def test_the_last_evaluation_is_due_at_the_end_wherever_that_lies():
    cell = Cell(condition(algorithm="curious", episodes=45, num_envs=5), 0, 1)
    assert evaluations.list_due(cell.condition.config(0, 1)) == [10, 20, 30, 40, 45]


def test_a_run_without_a_target_ends_at_its_last_evaluation_alone():
    cell = Cell(condition(algorithm="curious", episodes=40), 0, 2)
    config = cell.condition.config(0, 2)
    assert evaluations.lacks(cell, config, rows(10, 20, 30)) == "metrics.jsonl ends at 30 of 40 episodes"
    assert evaluations.has_ended(cell, config, rows(10, 20, 30, 40))
    assert not evaluations.has_ended(cell, config, rows(10, 20, 30))
    assert not evaluations.has_ended(cell, config, rows(10, 20, 30, 40)[:-1])  # the second seed has not
    assert not evaluations.has_met_target(cell, config, rows(10, 20, 30, 40, fresh={40: 1.0}))
    assert evaluations.is_shorter(CELL, condition(episodes=30).config())


def test_a_run_that_diverged_may_end_between_two_evaluations_and_lacks_none_before():
    assert evaluations.lacks(CELL, CONFIG, rows(10, 20, 23), diverged=True) == ""
    assert evaluations.lacks(CELL, CONFIG, rows(3), diverged=True) == ""
    for found in (rows(20, 33), rows(10, 33), rows(10, 30)):
        lacks = evaluations.lacks(CELL, CONFIG, found, diverged=True)
        assert lacks == "metrics.jsonl lacks evaluations of seed 0"
