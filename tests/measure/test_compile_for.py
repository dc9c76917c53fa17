"""Programs for devices that are not here, with this machine's own processor as the device."""

import dataclasses

import jax
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax.measure import compile_for, targets

HERE = dataclasses.replace(targets.TARGETS["h100"], name="here", platform="cpu", launch_s=1e-6)


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(compile_for, "make_device", lambda target: jax.devices("cpu")[0])
    monkeypatch.setitem(compile_for.OPTIONS, "cpu", {})


def measure(config, *parts, **options):
    return compile_for.measure(HERE, config, make_run(config).env, parts, say=lambda row: None, **options)


def test_an_update_is_counted_once_however_many_there_are(here, optimised, tmp_path):
    few, many = (
        measure(tiny_config(updates_per_cycle=number), "updates", keep=tmp_path)["programs"]["updates"]
        for number in (5, 11)
    )
    assert few["update"] == many["update"] and few["update"]["launches"] > 10
    assert few["update"]["launch_floor_s"] == few["update"]["launches"] * 1e-6
    assert few["argument_bytes"] > 0 and few["code_bytes"] > 0
    assert "HloModule" in (tmp_path / "here-updates.hlo").read_text()


def test_a_control_step_by_itself(here, optimised):
    program = measure(tiny_config(), "physics")["programs"]["physics"]
    assert program["control_step"]["launches"] >= 1
    assert "update" not in program


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
def test_the_cycle_holds_updates_and_control_steps(here, optimised, seeds):
    result = measure(tiny_config(num_seeds=seeds), "updates", "cycle")
    alone, cycle = result["programs"]["updates"], result["programs"]["cycle"]
    assert cycle["update"]["product_flop"] == pytest.approx(alone["update"]["product_flop"], rel=0.02)
    assert cycle["control_step"]["launches"] > 1
    assert cycle["aliased_bytes"] > 0.9 * cycle["argument_bytes"]  # the state is changed in place
    text = compile_for.table(result)
    assert "| update | cycle |" in text and "| control step | cycle |" in text and "| cycle |" in text


def test_the_floors_are_counts_over_peaks():
    counts = compile_for.describe(compile_for.hlo.Cost(87, 1, 11.7e9, 480e6), targets.TARGETS["h100"])
    assert counts["launch_floor_s"] == pytest.approx(87 * 2.5e-6)
    assert counts["product_floor_s"] == pytest.approx(11.7e9 / 494e12)
    assert counts["bytes_floor_s"] == pytest.approx(480e6 / 3.35e12)
    assert compile_for.describe(compile_for.hlo.Cost(1), targets.TARGETS["v5e"])["launch_floor_s"] is None
