"""Command line: every setting has a flag, and what is wrong is said in terms of the option."""

import json
import pickle
import sys

import pytest

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError


def parser():
    result = options.Parser("train", "a test")
    options.add_settings(result)
    return result


def settings(*argv):
    return options.read(parser(), argv)[0]


def test_every_setting_has_an_option_with_default_range_and_source():
    text = " ".join(parser().format_help().split())
    for name, (_, field) in configs.fields_by_name().items():
        assert configs.option_name(name) in text
        if name != "imports":
            assert "; ".join([f"[default: {options.default(name)}", *options.details(field)]) + "]" in text
    updates = "cpu 192, fast 256, gpu 2000, paper 100, point 80, wide 8192"
    assert f"[default: {updates}; 1 or more]" in text
    assert "[default: 0.05, cpu 0.02, gpu 0.005, point 0.02; between 1e-06 and 1]" in text  # --target-rate
    assert "[default: 0.98, fast 0.95, wide 0.95; between 0 and 0.9999; source: authors' program]" in text  # --discount


def test_the_replay_options_stand_together():
    groups = parser().format_help().split("\n\n")
    (group,) = [g for g in groups if "--goal-replay" in g]
    assert "--interest-replay on|off" in group and "--replay lp|uniform|own" in group


def test_no_options_no_settings():
    assert settings() == {}


def test_values_are_typed():
    found = settings("--num-envs", "64", "--episodes", "1e5", "--epsilon", "0.5", "--modules", "reach, push2")
    assert found == {"num_envs": 64, "episodes": 100_000, "epsilon": 0.5, "modules": ("reach", "push2")}
    assert settings("--target-success", "0.9") == {"target_success": 0.9}
    assert settings("--target-success", "none") == {"target_success": None}


def test_booleans_are_switched_on_and_off():
    assert settings("--normalize", "on", "--interest-replay", "off") == {"normalize": True, "interest_replay": False}


@pytest.mark.parametrize("name", ["seed", "normalize", "target_success", "actor_lr", "modules", "devices"])
def test_what_is_shown_can_be_typed(name):
    for value in {"seed": [7], "normalize": [True, False], "target_success": [None, 0.95], "actor_lr": [1e-5, 1 / 3],
                  "modules": [("reach", "push2")], "devices": [2, "all"]}[name]:  # fmt: skip
        assert settings(configs.option_name(name), options.show(value)) == {name: value}


def test_home_in_paths(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    assert parser().read(["--cache=~/x"])["cache"] == "/home/me/x"
    assert options.path("a~/b") == "a~/b"


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
        (["--set", "ddpg.discount=1"], "--set:", "use the setting's own option"),
        (["--lr", "0.1"], "--lr:", "use --actor-lr, --critic-lr"),
        (["--learning-rate=0.1"], "--learning-rate:", "use --actor-lr, --critic-lr"),
        (["--no-normalize"], "--no-normalize:", "use --normalize off"),
        (["--normalize", "yes"], "--normalize yes:", "must be one of on, off"),
        (["--import", "no.such.module"], "--import no.such.module:", "there is no such module"),
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
    assert (named.curriculum.selection, named.hindsight.replay) == ("uniform", "lp")


def test_a_setting_of_ones_own_outlives_a_change_of_algorithm(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(substitution="drawn", interest_replay=False))))
    again = configs.make_config(**settings("--config", str(path), "--algorithm", "muvfa"))
    assert (again.hindsight.substitution, again.hindsight.interest_replay) == ("drawn", False)


def test_a_file_without_an_algorithm_keeps_its_settings_beside_any(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("selection: lp\n")
    made = configs.make_config(**settings("--config", str(path), "--algorithm", "muvfa"))
    assert (made.algorithm, made.curriculum.selection) == ("muvfa", "lp")
    path.write_text("guide: 0.5\n")  # not lost in silence where it cannot be
    with pytest.raises(ConfigError, match="guide=0.5: must be 0.0 with algorithm=her; leave it out"):
        configs.make_config(**settings("--config", str(path), "--algorithm", "her"))
    path.write_text("algorithm: curious\nselection: lp\n")  # which curious brings anyway
    assert "selection" not in settings("--config", str(path), "--algorithm", "muvfa")


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
        ('{"modules": ["reach"], "schedule": {"num_envs": "many"}}', "num_envs='many': must be a whole number"),
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


OWN = """
# Settings of one's own, in groups or flat.
modules: [reach, push]
world: point
num_envs: 16
interest_replay: off
ddpg:
  actor_lr: 1e-3
curriculum:
  window_span: none
"""


def test_settings_of_ones_own_in_yaml(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    found = settings("--config", str(path), "--seed", "2")
    assert found == {
        **{"modules": ("reach", "push"), "world": "point", "num_envs": 16, "interest_replay": False},
        **{"actor_lr": 1e-3, "window_span": None, "seed": 2},
    }
    assert configs.make_config(**settings("--config", str(path), "--preset", "cpu")).preset == "cpu"


def test_a_window_that_is_given_is_the_window(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(preset="fast"))))
    for given in (["--preset", "fast"], ["--config", str(path)]):
        usual, own = (configs.make_config(**settings(*given, *more)).curriculum for more in ([], ["--window", "100"]))
        assert (usual.window, usual.window_span) == (40, 400)
        assert (own.window, own.window_span) == (100, None)
    both = configs.make_config(**settings("--window", "100", "--window-span", "400")).curriculum
    assert (both.window, both.window_span) == (100, 400)  # as a run's config.json and a cell's command line have them
    assert configs.make_config(**settings("--window", "100", "--window-span", "none")).curriculum.window == 100


def test_an_error_crosses_to_another_process():
    error = configs.SettingError("num_envs", 0, "1 or more")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) and again.on_command_line == error.on_command_line


def test_own_modules_are_named_in_yaml_as_on_the_command_line(tmp_path):
    (tmp_path / "mine.yaml").write_text("import: json\nmodules: [reach]\n")
    assert settings("--config", str(tmp_path / "mine.yaml"))["imports"] == ("json",)


def test_a_run_s_config_in_yaml_repeats_it(tmp_path):
    yaml = pytest.importorskip("yaml")
    config = configs.make_config(preset="gpu", modules=("reach", "push"), critic_lr=3e-5, target_success=0.8)
    (tmp_path / "config.yml").write_text(yaml.safe_dump(configs.to_dict(config)))
    assert configs.make_config(**settings("--config", str(tmp_path / "config.yml"))) == config


@pytest.mark.parametrize(
    "text, mentions",
    [
        ("a: [1", "is not YAML .line 1."),
        ("- reach", "is not a run's config.json"),
        ("speed: 3", "speed is no setting"),
        ("num_envs: many", "--num-envs many: must be a whole number"),
        ("!!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_damaged_yaml_files(tmp_path, text, mentions):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=f"^--config {path}.*{mentions}"):
        settings("--config", str(path))


def test_without_pyyaml_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "mine.yaml").write_text(OWN)
    with pytest.raises(ConfigError, match="mine.yaml: needs PyYAML: pip install pyyaml"):
        settings("--config", str(tmp_path / "mine.yaml"))


def test_own_modules_of_a_config_file_and_of_the_command_line_are_joined(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("first_of_mine", "second_of_mine"):
        (tmp_path / f"{name}.py").write_text("")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(imports=("first_of_mine",)))))
    found = settings("--config", str(path), "--import", "second_of_mine", "--import", "first_of_mine")
    assert found["imports"] == ("first_of_mine", "second_of_mine")


def test_an_own_module_that_fails_is_named_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_of_mine.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match="^--import broken_of_mine: ZeroDivisionError: division by zero$"):
        settings("--import", "broken_of_mine")


def test_what_an_algorithm_leaves_no_choice_of_goes_and_comes_with_it(tmp_path):
    path = tmp_path / "config.json"
    for old, new in (("her", "curious"), ("mgme", "curious"), ("curious", "her"), ("her", "mgme")):
        path.write_text(json.dumps(configs.to_dict(configs.make_config(preset="fast", algorithm=old))))
        again = configs.make_config(**settings("--config", str(path), "--algorithm", new))
        assert again == configs.make_config(preset="fast", algorithm=new)
    ordered = configs.make_config(estimator="order", order=("push", "reach", "pnp", "stack"))
    path.write_text(json.dumps(configs.to_dict(ordered)))
    assert configs.make_config(**settings("--config", str(path), "--algorithm", "her")).curriculum.order == ()


def test_the_paper_s_store_follows_the_episodes_of_a_repeated_run(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(configs.to_dict(configs.make_config(preset="paper"))))
    again = configs.make_config(**settings("--config", str(path), "--episodes", "600000"))
    assert again == configs.make_config(preset="paper", episodes=600_000)
    own = tmp_path / "own.yaml"
    own.write_text("preset: paper\nperturb_at: 400000\n")
    given = configs.make_config(**settings("--config", str(own), "--episodes", "500000"))
    assert (given.perturbation.perturb_at, given.schedule.capacity) == (400_000, 500_004)
    path.write_text(json.dumps(configs.to_dict(configs.make_config(preset="paper", capacity=1000))))
    again = configs.make_config(**settings("--config", str(path), "--episodes", "600000"))
    assert again.schedule.capacity == 1000


@pytest.mark.parametrize("typed, number", [("-1e-2", -0.01), ("-.5", -0.5), ("-2", -2.0), ("-1E-1", -0.1)])
def test_negative_numbers_are_values(typed, number):
    assert settings("--perturb-shift", typed) == {"perturb_shift": number}


def test_a_path_of_nothing_is_refused():
    with pytest.raises(ConfigError, match="--config: is empty: must be a file or folder; see --help"):
        settings("--config", "")


def test_whole_numbers_with_commas():
    assert options.whole_numbers("--distractors", "0, 4,7", "0,7") == (0, 4, 7)
    with pytest.raises(ConfigError, match="^--distractors 0,x: must be whole numbers, such as 0,7$"):
        options.whole_numbers("--distractors", "0,x", "0,7")
    with pytest.raises(ConfigError, match="^--worlds -1: must be whole numbers, such as 2,4$"):
        options.whole_numbers("--worlds", "-1", "2,4")
