"""Budgets of the programs on devices that are not here: no count grows by more than 5 % unnoticed.

`python tests/measure/test_budgets.py` measures and rewrites budgets.json; do that when a figure changes on purpose.
"""

import json
from pathlib import Path

import pytest

from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.measure import compile_for, targets

pytestmark = pytest.mark.usefixtures("optimised")
FILE = Path(__file__).with_name("budgets.json")
GROWTH = 1.05


def count_updates(name):
    """Compiles the gpu preset's updates for a device: launches per update, bytes of temporaries and of code."""
    target = targets.find(name)
    config = configs.make_config(target.platform, physics="jax")
    env = environment.make_env(config)
    program = compile_for.measure(target, config, env, ("updates",), say=lambda row: None)["programs"]["updates"]
    update = program["update"]["launches"]
    return {"launches": update, "temporary_bytes": program["temporary_bytes"], "code_bytes": program["code_bytes"]}


def _needs(name):
    try:
        targets.find(name)
    except ConfigError as error:
        pytest.skip(str(error))


def _hold(name, counted):
    for figure, most in json.loads(FILE.read_text())[name].items():
        assert counted[figure] <= GROWTH * most, f"{name}: {figure} is {counted[figure]:,}, its budget {most:,}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h100", "v5e"])
def test_an_update_stays_within_its_budget(name):
    _needs(name)
    _hold(name, count_updates(name))


def test_the_budgets_are_the_goals():
    held = json.loads(FILE.read_text())
    assert set(held) == {"h100", "v5e"}
    assert held["h100"]["launches"] <= 50


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: count_updates(name) for name in ("h100", "v5e")}, indent=2) + "\n")
