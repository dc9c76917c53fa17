"""How an experiment's command line is read: its conditions, sizes and what it hands on."""

import json
import re
from pathlib import Path

import pytest
from helpers.experiments import EXPERIMENTS

from curious_jax import config as configs
from curious_jax import train
from curious_jax.config import PRESETS, make_config
from curious_jax.errors import ConfigError
from envs import point
from experiments import sweep
from experiments.engine import command, conditions, grid

ROOT = Path(__file__).parents[3]


def typed(*given: str) -> dict:
    return train.parser().read(given)


def test_a_sweep_is_the_product_of_its_axes():
    found = sweep.read(typed("--world", "point", "--modules", "reach;reach,push", "--hidden-size", "8, 16"))
    assert found == {"world": "point", "axes": [
        {"modules": m, "hidden_size": h} for m in (("reach",), ("reach", "push")) for h in (8, 16)]}  # fmt: skip
    alone = sweep.read(typed("--algorithm", "muvfa"))
    (condition,) = sweep.conditions(None, alone)
    assert condition.name == "algorithm=muvfa" and condition.settings == {"algorithm": "muvfa"}
    conditions = sweep.conditions(None, found)
    assert [c.name for c in conditions][:2] == ["modules=reach,hidden_size=8", "modules=reach,hidden_size=16"]
    assert conditions[-1].name == "modules=reach+push,hidden_size=16"


def test_own_modules_that_a_file_names_are_imported(empty_folder, monkeypatch):
    monkeypatch.syspath_prepend(empty_folder)
    (empty_folder / "mine_in_yaml.py").write_text("raise ValueError('it was imported')")
    (empty_folder / "mine.yaml").write_text("imports: [mine_in_yaml]\nworld: point\n")
    with pytest.raises(ConfigError, match="--import mine_in_yaml: ValueError: it was imported"):
        command.read(EXPERIMENTS["distractors"], ["--config", "mine.yaml"])


def test_an_order_is_a_list_of_modules(empty_folder):
    found = sweep.read(typed("--modules", "reach,push", "--estimator", "order", "--order", "push,reach;reach"))
    assert [one["order"] for one in found["axes"]] == [("push", "reach"), ("reach",)]


def test_what_goes_to_every_training_and_is_no_setting(empty_folder):
    request = command.read(EXPERIMENTS["sweep"], ["--world", "point", "--cache", "kept", "--epsilon", "0.1,0.2"])
    assert request.effort.passed_on == ("--cache", str(empty_folder / "kept"))
    assert [condition.name for condition in request.conditions] == ["epsilon=0.1", "epsilon=0.2"]
    assert command.read(EXPERIMENTS["distractors"], ["--cache", "none"]).effort.passed_on == ("--cache", "none")
    assert command.read(EXPERIMENTS["distractors"], []).effort.passed_on == ()


@pytest.mark.parametrize("name", sorted(EXPERIMENTS))
def test_a_run_s_settings_are_an_experiment_s(name, empty_folder):
    """The file's seeds and algorithm are no one's wish here, nor is what its algorithm brought."""
    run = make_config(preset="fast", algorithm="muvfa", seed=3, num_seeds=2, episodes=400, perturb_at=96)
    (empty_folder / "config.json").write_text(json.dumps(configs.to_dict(run)))
    algorithm = ["--algorithm", "muvfa"] if "algorithm" not in EXPERIMENTS[name].fixed else []
    found = command.read(EXPERIMENTS[name], ["--config", "config.json"]).conditions
    usual = command.read(EXPERIMENTS[name], ["--preset", "fast", *algorithm]).conditions
    assert [one.labels for one in found] == [one.labels for one in usual]
    for one, other in zip((c.config(7) for c in found), (c.config(7) for c in usual), strict=True):
        assert (one.seed, one.num_seeds, one.schedule.num_envs) == (7, 1, 32)
        assert one.schedule.episodes in (400, 96)  # samplers end where the sensor fails
        assert one.algorithm == other.algorithm and one.hindsight == other.hindsight
        assert one.curriculum.selection == other.curriculum.selection
        assert one.curriculum.estimator == other.curriculum.estimator


def test_nothing_is_evicted_and_a_sensor_is_off_by_one_tolerance():
    for world, tolerance in (("point", point.TOLERANCE), ("fetch", 0.05)):
        for name, experiment in EXPERIMENTS.items():
            if name in ("ablation", "sweep"):  # which test no claim
                continue
            for config in (condition.config() for condition in command.read(experiment, ["--world", world]).conditions):
                assert config.schedule.evaluation_episodes >= 192
                assert config.schedule.capacity >= config.schedule.episodes
                if config.perturbation.perturb_at is not None:
                    assert config.perturbation.perturb_shift == tolerance
                else:
                    assert name != "perturbation"


def test_the_declared_commands_can_be_given_and_keep_every_episode():
    text = (ROOT / "experiments" / "declared.md").read_text()
    found = [line.split() for line in re.findall(r"`python -m experiments\.(\w+ --preset [^`]+)`", text)]
    assert {name for name, *_ in found} == {*EXPERIMENTS} - {"ablation", "sweep"}  # which test no claim
    for name, *argv in found:
        argv = ["cpu" if word == "fast" and "fast" not in PRESETS else word for word in argv]
        for condition in command.read(EXPERIMENTS[name], argv).conditions:
            schedule = condition.config().schedule
            assert schedule.evaluation_episodes >= 192
            assert schedule.capacity >= schedule.cycles * schedule.num_envs


@pytest.mark.parametrize(
    "argv, capacity",
    [
        (["--preset", "fast", "--episodes", "1000"], 1_024),  # 32 cycles of 32 episodes
        (["--num-envs", "100", "--episodes", "1001"], 1_100),
        (["--episodes", "1000"], 2_048),  # the preset is the machine's: a cycle on a GPU is 2,048 episodes
        (["--preset", "fast", "--episodes", "1000", "--capacity", "500"], 500),
    ],
)
def test_the_store_follows_the_episodes_unless_its_size_is_given(argv, capacity):
    for name in ("distractors", "perturbation", "scaling"):
        more = ["--perturb-at", "500"] if name == "perturbation" else []
        found = command.read(EXPERIMENTS[name], [*argv, *more]).conditions
        assert {condition.config().schedule.capacity for condition in found} == {capacity}


@pytest.mark.parametrize("noted", [{}, {"capacity": 401_000}])
def test_a_folder_keeps_the_capacity_that_it_began_with(noted, empty_folder):
    given = ["--preset", "fast", "--distractors", "0", "--out", "d"]
    for condition in command.read(EXPERIMENTS["distractors"], given).conditions:
        settings = {name: value for name, value in condition.settings.items() if name != "capacity"} | noted
        conditions.claim_condition(Path("d"), grid.Condition(condition.labels, settings))
    request = command.read(EXPERIMENTS["distractors"], given)
    command.prepare(request)  # which refuses other settings than those that are noted
    assert [condition.settings.get("capacity") for condition in request.conditions] == [noted.get("capacity")] * 2


def test_a_longer_run_must_not_drop_what_the_store_was_to_keep(empty_folder):
    given = ["--preset", "fast", "--distractors", "0", "--out", "d"]
    experiment = EXPERIMENTS["distractors"]
    command.prepare(command.read(experiment, [*given, "--episodes", "1000"]))
    match = "--episodes 2000: the replay buffer of the cells in d keeps 1024 .* --capacity 1024"
    with pytest.raises(ConfigError, match=match):
        command.read(experiment, [*given, "--episodes", "2000"])
    request = command.read(experiment, [*given, "--episodes", "2000", "--capacity", "1024"])
    assert len(command.prepare(request)) == 20
    command.read(experiment, [*given, "--episodes", "1020"])  # fits


@pytest.mark.parametrize(
    "argv",
    [
        ["--estimators", "none", "--episodes", "30000"],
        ["--distractors", "7", "--samplers", "none", "--episodes", "30000"],
    ],
)
def test_a_run_may_be_shorter_than_a_sensor_lasts_where_none_fails(argv):
    for condition in command.read(EXPERIMENTS["curricula"], argv).conditions:
        assert condition.config().schedule.capacity >= 30_000
