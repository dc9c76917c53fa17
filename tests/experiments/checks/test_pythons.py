"""Pythons of several versions: found where they are, and nothing else taken for one."""

import os
import subprocess
import sys

import pytest

from experiments.checks import pythons

THIS = ".".join(map(str, sys.version_info[:2]))


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_a_python_is_found_on_path_behind_one_that_does_not_start(empty_path, tmp_path, monkeypatch):
    broken = script(empty_path / "python3.12", "exit 127")
    sound = script(tmp_path / "other" / "python3.12", "echo 3.12")
    assert pythons.find("3.12") is None
    monkeypatch.setenv("PATH", f"{broken.parent}{os.pathsep}{sound.parent}")
    assert pythons.find("3.12") == str(sound)


def test_a_python_of_another_version_is_none(empty_path):
    script(empty_path / "python3.12", "echo 3.11")
    assert pythons.find("3.12") is None


def test_the_newest_of_pyenvs_releases_is_taken(empty_path, tmp_path):
    for name in ("3.13.0rc1", "3.13.2", "3.13.10"):
        script(tmp_path / "pyenv" / "versions" / name / "bin" / "python", "echo 3.13")
    script(empty_path / "pyenv", f"echo {tmp_path}/pyenv")
    assert pythons.find("3.13") == str(tmp_path / "pyenv" / "versions" / "3.13.10" / "bin" / "python")
    assert pythons.find("3.12") is None


def test_uvs_pythons_are_found(empty_path, tmp_path):
    sound = script(tmp_path / "uv-python", "echo 3.13")
    script(empty_path / "uv", f'[ "$4" = 3.13 ] && echo {sound}')
    assert pythons.find("3.13") == str(sound)
    assert pythons.find("3.11") is None


def test_this_python_answers_with_its_version():
    assert pythons._answers(sys.executable, THIS)
    assert not pythons._answers(sys.executable, "3.1")


def test_what_is_installed_elsewhere_is_hidden(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    monkeypatch.setenv("VIRTUAL_ENV", "somewhere")
    found = pythons.plain_surroundings()
    assert "somewhere" not in found.values() and found["JAX_PLATFORMS"] == "cpu" and found["PATH"]


def test_lists_of_versions_are_read():
    assert pythons.split(" 3.11,3.13, 3.11,") == ("3.11", "3.13")


@pytest.mark.slow
def test_an_environment_is_empty(tmp_path):
    inside = pythons.make_environment(sys.executable, tmp_path / "venv")
    asked = [inside, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec('jax') is not None)"]
    assert subprocess.run(asked, env=pythons.plain_surroundings()).returncode == 0
    assert inside == str(tmp_path / "venv" / "bin" / "python")
