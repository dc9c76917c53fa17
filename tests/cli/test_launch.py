"""What is said of `python -m NAME` where NAME is no program, or Python has no JAX."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from curious_jax.cli import launch

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name, instead", [
    ("curious_jax.trian", "did you mean curious_jax.train?"),
    ("curious_jax.zzz", "python -m curious_jax lists them"),
    ("experiments.distractor", "did you mean experiments.distractors?"),
    ("experiments.checks.peer", "did you mean experiments.checks.peers?"),
])  # fmt: skip
def test_a_misspelt_program_is_named_with_the_right_one(name, instead):
    done = subprocess.run([sys.executable, "-m", name], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {name}: no such program; {instead}\n"


def test_every_program_may_be_started():
    for name in ("curious_jax", "experiments", "curious_jax.train", "experiments.checks.peers", "experiments.engine"):
        assert launch.problem(name) == ""


def test_a_python_without_jax_is_sent_to_the_environment(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jax" else found(name, *rest))
    line = launch.problem("curious_jax.train")
    assert sys.executable in line and "source .venv/bin/activate" in line and "\n" not in line
    assert launch.problem("curious_jax") == ""  # lists the programs


def test_a_users_own_package_named_experiments_is_left_alone(tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "__init__.py").write_text("import curious_jax\n")
    (tmp_path / "experiments" / "mine.py").write_text("print('mine')\n")
    command = [sys.executable, "-m", "experiments.mine"]
    there = os.environ | {"PYTHONPATH": str(ROOT)}  # installed or not, curious_jax is found behind the user's own
    assert subprocess.run(command, cwd=tmp_path, env=there, capture_output=True, text=True).stdout == "mine\n"


def test_the_module_that_python_starts():
    assert launch.module(["python", "-X", "dev", "-m", "curious_jax.train", "-m"]) == "curious_jax.train"
    assert launch.module(["python", "script.py"]) == launch.module(["python", "-m"]) == ""
