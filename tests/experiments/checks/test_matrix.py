"""The table of Pythons and versions: counts as pytest reports them, and success only where something passed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.checks import matrix, pythons


@pytest.fixture
def machine(monkeypatch):
    """A machine with Python 3.11 and 3.12; what its tests count, by environment."""
    counts = {}
    monkeypatch.setattr(pythons, "find", lambda version: None if version == "3.13" else sys.executable)
    monkeypatch.setattr(matrix, "prepare", lambda python, versions, folder: f"{folder.name}")
    monkeypatch.setattr(matrix, "run_tests", lambda inside, arguments, report: counts.get(inside, (5, 0, 1)))
    done = subprocess.CompletedProcess([], 0, stdout="0.10.2 0.10.2 2.4.6 0.12.8 3.17.0\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: done)
    return counts


def test_every_pair_has_a_row_and_a_missing_python_is_named(machine, capsys):
    assert matrix.main([]) == 0
    out = capsys.readouterr().out
    assert out.count("| 5 | 0 | 1 |") == 4
    assert "| 3.12 | newest | 0.10.2 | 0.10.2 | 2.4.6 | 0.12.8 | 3.17.0 | 5 | 0 | 1 |" in out
    assert out.endswith("Not tried, no such Python here: 3.13.\n")


def test_a_failure_or_no_test_at_all_is_no_success(machine, capsys):
    machine["3.12-newest"] = (4, 1, 1)
    assert matrix.main([]) == 1
    assert matrix.main(["--pythons", "3.12", "--versions", "pinned"]) == 0
    machine["3.12-newest"] = (0, 0, 6)
    assert matrix.main(["--pythons", "3.12"]) == 1
    assert matrix.main(["--pythons", "3.13"]) == 1


def test_counts_are_pytests(tmp_path):
    (tmp_path / "test_five.py").write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): pass\n"
        "def test_c(): assert False\n"
        "def test_d(): pytest.skip()\n"
        "@pytest.fixture\ndef broken(): raise OSError\n"
        "def test_e(broken): pass\n"
    )
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", str(tmp_path)]
    quick = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=tmp_path, capture_output=True, env=quick)
    assert matrix.count(report) == (2, 2, 1)


def test_a_pytest_that_did_not_get_to_its_report_has_failed(tmp_path):
    assert matrix.count(tmp_path / "none.xml") == (0, 1, 0)


def test_what_is_installed_is_what_pyproject_says():
    wanted = matrix.requirements()
    assert any(r.startswith("jax>=") for r in wanted) and any(r.startswith("pytest>=") for r in wanted)
    makefile = (Path(__file__).parents[3] / "Makefile").read_text()
    assert f"-e '.[{','.join(matrix.EXTRAS)}]'" in makefile


def test_arguments_behind_two_dashes_are_pytests():
    given = matrix.parser().parse_args(["--pythons", "3.12", "--", "tests/learner", "-k", "x"])
    assert given.arguments == ["tests/learner", "-k", "x"] and given.pythons == ("3.12",)
