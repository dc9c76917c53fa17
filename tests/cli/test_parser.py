"""Command line: every setting has a flag, and what is wrong is said in terms of the option."""

import json

import pytest

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError


def parser():
    result = options.Parser("train", "a test")
    options.add_settings(result)
    return result


def settings(*argv):
    return options.read(parser(), argv).settings


def test_every_setting_has_a_flag_with_default_and_source():
    text = " ".join(parser().format_help().split())
    for name, (_, field) in configs.fields_by_name().items():
        assert configs.option_name(name) in text
        assert f"source: {field.metadata['source']}" in text
    assert "cpu 192, gpu 2000, paper 100" in text  # --updates-per-cycle, per preset


def test_no_options_no_settings():
    assert settings() == {}


def test_values_are_typed():
    found = settings("--num-envs", "64", "--episodes", "1e5", "--epsilon", "0.5", "--modules", "reach, push2")
    assert found == {"num_envs": 64, "episodes": 100_000, "epsilon": 0.5, "modules": ("reach", "push2")}
    assert settings("--target-success", "0.9") == {"target_success": 0.9}
    assert settings("--target-success", "none") == {"target_success": None}


def test_booleans_are_switches():
    assert settings("--normalize") == {"normalize": True}
    assert settings("--no-normalize") == {"normalize": False}


def test_set_reaches_any_setting_by_its_place():
    assert settings("--set", "ddpg.discount=0.95", "--set", "seed=3") == {"discount": 0.95, "seed": 3}
    assert settings("--set", "normalizer.normalize=false") == {"normalize": False}


@pytest.mark.parametrize(
    "argv, start, mentions",
    [
        (["--num-envs", "many"], "--num-envs many:", "whole number"),
        (["--num-envs", "2.5"], "--num-envs 2.5:", "whole number"),
        (["--num-envs", "inf"], "--num-envs inf:", "whole number"),
        (["--epsilon", "much"], "--epsilon much:", "number"),
        (["--modules", "reach,,push"], "--modules 'reach,,push':", "commas"),
        (["--num-env", "3"], "--num-env:", "--num-envs?"),
        (["--frobnicate"], "--frobnicate:", "--help"),
        (["reach"], "reach:", "not expected"),
        (["--seed"], "--seed:", "expected one argument"),
        (["--set", "ddpg.discont=1"], "--set ddpg.discont=1:", "ddpg.discount"),
        (["--set", "schedule.discount=1"], "--set schedule.discount=1:", "ddpg.discount"),
        (["--set", "discount"], "--set discount:", "discount"),
        (["--set", "ddpg.discount=x"], "--set ddpg.discount x:", "number"),
        (["--set", "seed=1", "--seed", "2"], "--set seed=1:", "once"),
        (["--config", "nowhere.json"], "--config nowhere.json:", "cannot be read"),
    ],
)
def test_errors_name_the_option_and_what_it_takes(argv, start, mentions):
    with pytest.raises(ConfigError) as error:
        settings(*argv)
    assert str(error.value).startswith(start)
    assert mentions in str(error.value)


def test_config_file_repeats_a_run_and_flags_win(tmp_path):
    config = configs.make_config(preset="gpu", modules=("reach", "push"), discount=0.9, target_success=0.8, seed=4)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(config)))
    assert configs.make_config(**settings("--config", str(path))) == config
    again = configs.make_config(**settings("--config", str(path), "--seed", "7", "--modules", "reach"))
    assert (again.seed, again.modules, again.ddpg.discount) == (7, ("reach",), 0.9)
    assert again.schedule == config.schedule


def test_another_algorithm_beside_a_config_file_brings_its_own_settings(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(seed=4))))
    again = configs.make_config(**settings("--config", str(path), "--algorithm", "muvfa"))
    assert again == configs.make_config(seed=4, algorithm="muvfa")
    her = configs.make_config(**settings("--config", str(path), "--algorithm", "her"))
    assert her == configs.make_config(seed=4, algorithm="her")
    named = configs.make_config(**settings("--config", str(path), "--algorithm", "muvfa", "--replay", "lp"))
    assert (named.curriculum.selection, named.curriculum.replay) == ("uniform", "lp")


def test_a_setting_of_ones_own_outlives_a_change_of_algorithm(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(substitution="paper", interest_replay="off"))))
    again = configs.make_config(**settings("--config", str(path), "--algorithm", "muvfa"))
    assert (again.hindsight.substitution, again.hindsight.interest_replay) == ("paper", "off")


def test_preset_beside_a_config_file_is_refused(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config())))
    with pytest.raises(ConfigError, match="^--preset"):
        settings("--config", str(path), "--preset", "gpu")


@pytest.mark.parametrize(
    "text, mentions",
    [
        ("nonsense", "not JSON"),
        ("[1, 2]", "not a run's"),
        ('{"modules": ["reach"], "speed": 3}', "speed is no setting"),
        ('{"modules": ["reach"], "schedule": {"num_envs": "many"}}', "num_envs many: must be a whole number"),
    ],
)
def test_damaged_config_files(tmp_path, text, mentions):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"^--config {path}.*{mentions}"):
        settings("--config", str(path))


def test_help_exits_with_success(capsys):
    with pytest.raises(SystemExit) as done:
        parser().read(["--help"])
    assert done.value.code == 0
    assert "--updates-per-cycle" in capsys.readouterr().out
