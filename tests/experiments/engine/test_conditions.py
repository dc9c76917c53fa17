"""What is noted of the conditions in a folder, and which settings may differ from it."""

import pytest
from helpers.experiments import condition

from curious_jax.errors import ConfigError
from experiments.engine import conditions
from experiments.engine.grid import Condition

CONDITION = condition(algorithm="curious")


def test_a_preset_s_own_length_may_be_exceeded_too(tmp_path):
    usual = Condition({"algorithm": "curious"}, {"world": "point", "algorithm": "curious"})
    longer = Condition(usual.labels, {**usual.settings, "episodes": 5000})
    conditions.claim_condition(tmp_path, usual)
    conditions.check_condition(tmp_path, longer, longer=True)
    with pytest.raises(ConfigError, match="--episodes 100: the cells in .* have its default"):
        conditions.check_condition(tmp_path, Condition(usual.labels, {**usual.settings, "episodes": 100}), longer=True)


def test_more_episodes_are_noted_and_fewer_are_refused(tmp_path):
    short, long = (condition(algorithm="curious", episodes=n) for n in (20, 40))
    short, long = (Condition({"algorithm": "curious"}, one.settings) for one in (short, long))
    conditions.claim_condition(tmp_path, short)
    with pytest.raises(ConfigError, match="--episodes 40: the cells in .* have 20"):
        conditions.check_condition(tmp_path, long)  # as with --report-only
    conditions.check_condition(tmp_path, long, longer=True)
    conditions.claim_condition(tmp_path, long)
    conditions.check_condition(tmp_path, long)
    with pytest.raises(ConfigError, match="--episodes 20: the cells in .* have 40"):
        conditions.check_condition(tmp_path, short, longer=True)


def test_settings_are_noted_and_others_refused(tmp_path):
    conditions.check_condition(tmp_path, CONDITION)
    assert list(tmp_path.iterdir()) == []
    conditions.claim_condition(tmp_path, CONDITION)
    conditions.check_condition(tmp_path, CONDITION)
    other = condition(algorithm="curious")
    other.settings["hidden_size"] = 8
    with pytest.raises(ConfigError, match="--hidden-size 8: the cells in .*algorithm=curious have its default; ask"):
        conditions.check_condition(tmp_path, other)
    del other.settings["hidden_size"], other.settings["preset"]
    with pytest.raises(ConfigError, match="--preset its default: the cells in .* have cpu"):
        conditions.check_condition(tmp_path, other)


@pytest.mark.parametrize("damaged", [b"", b"{}", b"null", b"5", b"\xff\xfe", b'{"settings": []}'])
def test_a_damaged_condition_is_refused_in_one_line(tmp_path, damaged):
    conditions.claim_condition(tmp_path, CONDITION)
    path = tmp_path / "cells" / "algorithm=curious" / "condition.json"
    path.write_bytes(damaged)
    with pytest.raises(ConfigError, match="condition.json: cannot be read; remove it"):
        conditions.check_condition(tmp_path, CONDITION)
