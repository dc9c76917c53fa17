"""Budgets of the programs on devices that are not here: no count grows by more than 5 % unnoticed.

`python tests/measure/test_budgets.py` measures and rewrites budgets.json; do that when a figure changes on purpose.
"""

import json
from pathlib import Path

import jax
import pytest

from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.measure import compile_for, targets

pytestmark = pytest.mark.usefixtures("optimised")
FILE = Path(__file__).with_name("budgets.json")
GROWTH = 1.05
PARTS = {"h100": ("updates", "physics"), "v5e": ("updates", "physics", "cycle")}  # a TPU's cycle: the store lies in it


def count(name, part):
    """Compiles a program of the gpu preset: launches of an update or a physics step, bytes of temporaries and code."""
    jax.config.update("jax_platforms", "cpu")  # as benchmark does: nothing runs on the device
    target = targets.find(name)
    config = configs.make_config(target.platform, physics="jax")
    env = environment.make_env(config)
    program = compile_for.measure(target, config, env, (part,), say=lambda row: None)["programs"][part]
    launches = program["update" if part == "updates" else "physics_step"]["launches"]
    return {"launches": launches, "temporary_bytes": program["temporary_bytes"], "code_bytes": program["code_bytes"]}


def _needs(name):
    try:
        targets.find(name)
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "part"), [(name, part) for name, parts in PARTS.items() for part in parts])
def test_programs_stay_within_their_budgets(name, part):
    _needs(name)
    counted = count(name, part)
    for figure, most in json.loads(FILE.read_text())[name][part].items():
        assert counted[figure] <= GROWTH * most, f"{name}, {part}: {figure} is {counted[figure]:,}, budget {most:,}"


def test_the_budgets_are_the_goals():
    held = json.loads(FILE.read_text())
    assert {name: tuple(parts) for name, parts in held.items()} == PARTS
    assert held["h100"]["updates"]["launches"] <= 50
    assert held["h100"]["physics"]["launches"] <= 200
    assert held["v5e"]["cycle"]["temporary_bytes"] <= 1.4e9  # a third of what it was with copies of the store


if __name__ == "__main__":
    found = {name: {part: count(name, part) for part in parts} for name, parts in PARTS.items()}
    FILE.write_text(json.dumps(found, indent=2) + "\n")
