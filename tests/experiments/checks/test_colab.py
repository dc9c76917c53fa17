"""The notebooks on Colab's versions: what is said of them, and what counts as failed."""

import sys
from pathlib import Path

import pytest

from curious_jax.errors import ConfigError
from experiments.checks import colab, pythons, release

ROOT = Path(__file__).parents[3]
BEFORE = {name: "1" for name in colab.SHOWN}


def test_the_images_python_and_numpy_are_in_the_list():
    text = (ROOT / colab.PINS).read_text()
    assert colab.python_version(text) in pythons.VERSIONS
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    names = {line.split("==")[0] for line in lines}
    assert {"numpy", "jax", "jaxlib", "ipykernel", "nbclient", "nbformat"} <= names
    assert all(line.count("==") == 1 for line in lines) and len(names) == len(lines)


def test_a_list_without_its_python_is_refused():
    with pytest.raises(ConfigError, match="Python 3.13"):
        colab.python_version("numpy==2.1.3\n")


def test_every_notebook_is_tried():
    assert set(colab.NAMES) == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}


def test_a_replaced_numpy_and_a_notebook_that_did_not_end_are_wrong():
    assert colab.verdict(BEFORE, BEFORE | {"jax": "2"}, {"quickstart": True}) == []
    assert colab.verdict(BEFORE, BEFORE | {"numpy": "2"}, {"quickstart": True}) == ["numpy 1 was replaced by 2"]
    assert colab.verdict(BEFORE, BEFORE, {"quickstart": True, "curriculum": False}) == ["curriculum did not end"]


@pytest.fixture
def runtime(monkeypatch):
    """Stands in for the environment; the versions that are asked for one after the other."""
    asked = [BEFORE, BEFORE | {"jax": "2"}]
    monkeypatch.setattr(pythons, "find", lambda version: sys.executable)
    monkeypatch.setattr(pythons, "make_environment", lambda python, folder: sys.executable)
    monkeypatch.setattr(colab.subprocess, "run", lambda *args, **options: None)
    monkeypatch.setattr(colab, "clone", lambda folder: None)
    monkeypatch.setattr(colab, "versions", lambda inside: asked.pop(0))
    return asked


def test_what_was_replaced_and_what_ended_is_said(runtime, monkeypatch, capsys):
    monkeypatch.setattr(colab, "run_notebook", lambda inside, name, folder: True)
    assert colab.main([]) == 0
    out = capsys.readouterr().out
    assert "jax: 1 -> 2" in out and "numpy: 1\n" in out and out.endswith("every notebook ended, and numpy stayed\n")


def test_a_notebook_that_fails_fails_the_whole(runtime, monkeypatch, capsys):
    monkeypatch.setattr(colab, "run_notebook", lambda inside, name, folder: name != "curriculum")
    assert colab.main([]) == 1
    assert "curriculum: FAILED" in capsys.readouterr().out


def test_without_colabs_python_nothing_is_tried(monkeypatch, capsys):
    monkeypatch.setattr(pythons, "find", lambda version: None)
    assert colab.main([]) == 0
    assert "nothing was tried" in capsys.readouterr().out


def test_the_clone_has_what_git_knows(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "tracked_files", lambda *folders: ["notebooks/colab.txt"])
    colab.clone(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["colab.txt"]
