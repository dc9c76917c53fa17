"""The way from a config to its world; modules of the user's own by --import, in every program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import curious_jax
from curious_jax import evaluate, export, play, train
from curious_jax.cli import environment
from curious_jax.run import memory
from envs import modules as env_modules
from experiments.engine import grid

CORNER = """
import jax.numpy as jnp
from envs.modules import Module, distance_solved, register


def corner(layout):
    return Module(
        name="corner",
        goal_size=0,
        outcome=lambda obs: obs[:0],
        sample_goal=lambda key: jnp.zeros(0),
        solved=lambda obs, goal: distance_solved(obs[:2], jnp.array([0.4, 0.4]), 0.1),
    )


register("corner", corner)
"""


@pytest.fixture
def corner(empty_folder, monkeypatch):
    """A file of the user's in the current folder; what it registers is forgotten afterwards."""
    monkeypatch.setattr(env_modules, "_REGISTRY", {})
    monkeypatch.syspath_prepend(str(empty_folder))
    (empty_folder / "corner_of_mine.py").write_text(CORNER)
    yield "corner_of_mine"
    sys.modules.pop("corner_of_mine", None)


def forget():
    """As in a new process."""
    env_modules._REGISTRY.clear()
    sys.modules.pop("corner_of_mine", None)


def test_an_unknown_module_s_error_says_how_it_is_made_known(refuse):
    line = refuse(train, "--world", "point", "--modules", "reach,corner")
    assert line.startswith("error: --modules: unknown module 'corner'") and "--import" in line


def test_a_module_that_cannot_be_imported(refuse):
    line = refuse(train, "--world", "point", "--import", "nobody_s")
    assert line == ("error: --import nobody_s: there is no such module; start in its folder, or put that on PYTHONPATH")


@pytest.mark.slow
def test_an_own_module_is_trained_and_used_by_every_program(small, corner, capsys):
    options = [*small, "--modules", "reach,corner"]
    assert train.main([*options, "--import", corner, "--out", "run"]) == 0
    assert json.loads(open("run/config.json").read())["imports"] == [corner]
    forget()
    assert evaluate.main(["run", "--episodes", "2", "--modules", "corner", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out.splitlines()[-1])["success"]) == ["corner"]
    forget()
    assert train.main(["--resume", "run", "--episodes", "24"]) == 0
    forget()
    assert export.main(["run", "kept"]) == 0
    forget()
    assert curious_jax.load_policy("kept").modules == ("reach", "corner")
    forget()
    assert play.main(["run", "--modules", "corner", "--rounds", "1", "--size", "64x64", "--video", "v.gif"]) == 0


@pytest.mark.slow
def test_an_own_module_is_swept_in_processes_of_their_own(small, corner):
    options = [*small, "--modules", "reach,corner", "--import", corner, "--seeds", "0", "--out", "grid"]
    done = subprocess.run([sys.executable, "-m", "experiments.sweep", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (config,) = Path("grid").rglob("config.json")
    assert json.loads(config.read_text())["imports"] == [corner]
    (summary,) = Path("grid").rglob("summary.json")
    assert "corner" in json.loads(summary.read_text())["success"]


def test_a_run_that_knows_no_import_gets_it_from_the_command_line(small, corner, capsys):
    environment.import_modules([corner])
    assert train.main([*small, "--modules", "reach,corner", "--out", "run"]) == 0
    forget()
    capsys.readouterr()
    assert evaluate.main(["run", "--episodes", "2"]) == 2
    assert "--import" in capsys.readouterr().err
    assert evaluate.main(["run", "--episodes", "2", "--import", corner]) == 0
    forget()
    assert train.main(["--resume", "run", "--episodes", "24", "--import", corner]) == 0
    assert json.loads(open("run/config.json").read())["imports"] == [corner]


def test_child_processes_are_told():
    cell = grid.Cell(grid.Condition({}, {"imports": ("a", "b"), "modules": ("reach",)}), 0, 1)
    assert cell.arguments()[:2] == ["--import", "a,b"]


@pytest.mark.parametrize("name", ["push", "push1"])
def test_only_the_modules_asked_for_are_evaluated(finished_run, capsys, name):
    assert evaluate.main([str(finished_run), "--episodes", "10", "--modules", name, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["success"]) == ["push"]


def test_modules_to_evaluate_that_the_run_has_not(finished_run, refuse):
    line = refuse(evaluate, finished_run, "--modules", "push,fly")
    assert line == "error: --modules fly: the run has no such module; choose from reach, push, distractor1"


def test_the_point_world_needs_no_other_option(monkeypatch, tmp_path):
    from curious_jax.cli import parser
    from curious_jax.config import make_config

    settings, _ = parser.read(train.parser(), ["--world", "point"])
    env = environment.make_env(make_config(**settings))
    assert env.modules.names == ("reach", "push")


def test_a_run_of_ninety_nine_cubes_that_does_not_fit_is_told_of_its_modules(monkeypatch):
    config = curious_jax.make_config(world="point", modules=("drag99",), capacity=60_000)
    monkeypatch.setattr(memory, "available", lambda: (memory.GIB, "free on this machine"))
    with pytest.raises(curious_jax.ConfigError, match="^--modules drag99: 99 cubes need .* fewer cubes, or lower "):
        memory.check(config, environment.make_env(config))


def test_fit_refuses_an_environment_of_other_modules():
    config = curious_jax.make_config(world="point", distractors=1)
    other = curious_jax.make(curious_jax.make_config(world="point", modules=("reach",)))
    with pytest.raises(curious_jax.ConfigError) as error:
        curious_jax.fit(config, other)
    assert str(error.value).startswith(
        "modules: the config names reach, push, distractor1 and the environment has reach; make the environment"
    )


def test_a_policy_acts_without_what_was_imported_for_training_alone():
    config = curious_jax.make_config("cpu", world="point", imports=("a_sink_of_a_colleague_s",))
    with pytest.raises(curious_jax.ConfigError, match="--import a_sink_of_a_colleague_s: there is no such module"):
        environment.make_env(config)
    assert environment.make_env(config, to_act=True).modules.names == ("reach", "push")
    for missed in (dict(modules=("reach", "corner9")), dict(estimator="a-colleague-s-own")):
        config = curious_jax.make_config("cpu", world="point", imports=("a_sink_of_a_colleague_s",), **missed)
        with pytest.raises(curious_jax.ConfigError, match="--import a_sink_of_a_colleague_s: there is no such module"):
            environment.make_env(config, to_act=True)
