"""The card of an exported policy: complete, true of the run, and without a word of where it was made."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.parts import tiny_config

import curious_jax
import envs
from curious_jax import config as configs
from curious_jax import export
from curious_jax.cli import command
from curious_jax.cli import parser as options
from curious_jax.run import folder as runfolder
from curious_jax.show import card
from curious_jax.show.stats import wilson
from curious_jax.train import parser as train_parser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def exported(finished_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports") / "mine"
    assert export.main([str(finished_run), str(folder), "--format", "json"]) == 0
    return folder


@pytest.fixture(scope="module")
def data(exported):
    return json.loads((exported / card.CARD).read_text())


def test_the_card_is_complete(data):
    assert data["version"] == curious_jax.__version__ and data["licence"] == "MIT"
    assert data["policy"] == "actor.json" and data["inputs"] == {"obs": [8], "goal": [6], "module": "a module's number"}
    modules = [(m["number"], m["name"], m["goal_slots"], m["achievable"]) for m in data["modules"]]
    assert modules == [(0, "reach", [0, 1], True), (1, "push", [2, 3], True), (2, "distractor1", [4, 5], False)]
    assert data["modules"][1]["goal"] == "x, y of object 1, in sides of the square"
    assert [row["index"] for row in data["observation"]] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(data["action"]) == 3 and data["action"][2]["meaning"].startswith("holds")
    assert data["control"] == {"rate_hz": None, "period_s": None, "steps_per_episode": 20}
    assert data["normalizer"]["clip"] == 5.0 and data["normalizer"]["observations_seen"] > 0
    network = data["network"]
    assert (network["inputs"], network["hidden"], network["outputs"]) == (17, [8], 3)
    assert network["parameters"] == 17 * 8 + 8 + 8 * 3 + 3
    assert data["training"]["episodes"] == 16 and data["training"]["algorithm"] == "curious"


def test_success_is_that_of_the_runs_last_evaluation(data, finished_run):
    last = runfolder.read_rows(finished_run)[-1]
    assert set(data["success"]) == {"reach", "push"}
    for name, found in data["success"].items():
        assert found["rate"] == last[f"eval/success/{name}"] and found["episodes"] == last[f"eval/n/{name}"]
        assert found["interval_95"] == pytest.approx(wilson(found["successes"], found["episodes"]), abs=1e-4)


def test_one_seed_of_several_has_its_own_success(two_seed_run, tmp_path):
    assert export.main([str(two_seed_run), str(tmp_path / "two"), "--format", "json", "--seed-index", "1"]) == 0
    found = json.loads((tmp_path / "two" / card.CARD).read_text())
    row = [row for row in runfolder.read_rows(two_seed_run) if row["seed"] == 6][-1]
    assert found["training"]["seed"] == 6 and "--num-seeds 2" in found["training"]["command"]
    assert found["success"]["reach"]["rate"] == row["eval/success/reach"]


def test_the_page_says_what_the_card_says(exported, data):
    page = (exported / card.README).read_text()
    assert data["training"]["command"] in page and "`" + data["training"]["command"] not in page
    for words in (
        *[m["goal"] for m in data["modules"]],
        *[r["name"] for r in data["observation"]],
        "cannot be achieved",
    ):
        assert words in page
    for found in data["success"].values():
        assert "{:.3f} to {:.3f}".format(*found["interval_95"]) in page
    assert "17 - 8 - 3" in page and "no physical time" in page


def test_the_arms_card_has_units_and_a_rate():
    env = envs.make(modules=("reach", "push", "stack"), distractors=1)
    assert env.control_period == pytest.approx(0.04) and len(env.action_meaning) == env.action_size
    assert all(env.modules.meanings) and env.modules.meanings[2].startswith("x, y, z of cube 1 on cube 2 in m")
    assert list(env.layout.units()) == list(env.layout.table())
    assert env.layout.table()["cube2_position"] == env.layout.cube_position(2)


def test_a_folder_hands_success_on_and_one_without_a_card_has_none(finished_run, tmp_path):
    assert export.main([str(finished_run), str(tmp_path / "first")]) == 0
    assert export.main([str(tmp_path / "first"), str(tmp_path / "second"), "--format", "json"]) == 0
    first, second = (json.loads((tmp_path / name / card.CARD).read_text()) for name in ("first", "second"))
    assert first["success"] == second["success"] and "reach" in first["success"]
    for damage in ('{"success": {"reach": 3}}', "[", '{"success": {"reach": {"successes": 5, "episodes": 2}}}'):
        (tmp_path / "first" / card.CARD).write_text(damage)
        assert export.main([str(tmp_path / "first"), str(tmp_path / f"{len(damage)}"), "--format", "json"]) == 0
        page = (tmp_path / f"{len(damage)}" / card.README).read_text()
        assert "Success per module is not recorded; the mean over modules was" in page


def test_the_figures_by_which_a_policy_was_chosen_are_told_apart(exported, data, finished_run, tmp_path):
    assert data["chosen_by_this_success"] is False and "chance favours" not in (exported / card.README).read_text()
    best, again = tmp_path / "best", tmp_path / "again"
    assert export.main([str(finished_run / "policies" / "best"), str(best)]) == 0
    assert export.main([str(best), str(again), "--format", "json"]) == 0
    for folder in (best, again):
        assert json.loads((folder / card.CARD).read_text())["chosen_by_this_success"] is True
        assert "chance favours these figures" in (folder / card.README).read_text()


def test_no_file_says_where_it_was_made(exported, finished_run):
    for path in exported.iterdir():
        for place in (exported.parent, finished_run, Path.home(), ROOT):
            assert str(place).encode() not in path.read_bytes(), path.name


SETTINGS = [
    {},
    {"algorithm": "her", "seed": 3},
    {"algorithm": "mgme", "num_seeds": 2, "expert_epoch": 16},
    {"preset": "paper", "world": "fetch", "modules": ("reach", "push2"), "distractors": 0},
    {"hidden_layers": 2, "actor_layer_norm": True, "critic_lr": 3e-4, "interest_replay": False, "window_span": 900},
    {"world": "fetch", "start": "fetch-push", "preset": "gpu", "target_success": 0.9, "distractors": 0},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_command_gives_the_same_settings(settings):
    config = tiny_config(**settings)
    words = command.training(config).split()
    assert words[:3] == ["python", "-m", "curious_jax.train"]
    assert configs.make_config("cpu", **options.read(train_parser(), words[3:])[0]) == config


def test_the_command_leaves_out_what_the_preset_brings():
    text = command.training(configs.make_config(preset="cpu", modules=("reach",), seed=4))
    assert text == "python -m curious_jax.train --modules reach --preset cpu --seed 4"


def test_a_folder_below_one_called_policies_hands_success_on_too(finished_run, tmp_path):
    (tmp_path / "policies").mkdir()
    assert export.main([str(finished_run), str(tmp_path / "policies" / "first")]) == 0
    assert export.main([str(tmp_path / "policies" / "first"), str(tmp_path / "second"), "--format", "json"]) == 0
    assert "reach" in json.loads((tmp_path / "second" / card.CARD).read_text())["success"]


def test_an_actor_of_another_kind_is_told_by_its_size():
    own = SimpleNamespace(params=SimpleNamespace(actor={"matrix": np.zeros((3, 4)), "shift": np.zeros(4)}))
    told = card._network(own)
    assert told["parameters"] == 16 and "hidden" not in told
    assert "not recorded" in card._layers(told)
