"""Packaging: what the wheel holds, the pins, and a run from an installed wheel in another folder."""

import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import curious_jax

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pins():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line) for line in lines)
    return dict((normal(name), version) for name, version in (line.split("==") for line in lines))


def test_one_version_number():
    assert PROJECT["version"] == curious_jax.__version__


def test_every_requirement_is_pinned():
    wanted = PROJECT["dependencies"] + [r for extra in PROJECT["optional-dependencies"].values() for r in extra]
    names = {normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in wanted}
    assert names <= set(pins())


def test_mujoco_and_mjx_are_a_matched_pair():
    assert pins()["mujoco"] == pins()["mujoco-mjx"]
    assert pins()["mujoco"].startswith("3.17.")  # envs/physics uses parts of it that may change in any release
    extras = [r for extra in PROJECT["optional-dependencies"].values() for r in extra]
    bounds = [r for r in PROJECT["dependencies"] + extras if r.startswith("mujoco")]
    assert [r.partition(">")[2] for r in bounds] == ["=3.17,<3.18"] * 4


def test_no_machine_paths_or_indexes_in_the_project_files():
    for name in ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run", "README.md"):
        text = (ROOT / name).read_text()
        for word in ("/work", "/root", "/opt", "index-url", "find-links"):
            assert word not in text, (name, word)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder, source = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("source")
    for path in ROOT.iterdir():  # a copy: building leaves a build folder, whose old files enter later wheels
        if path.is_dir() and (path / "__init__.py").is_file():
            shutil.copytree(path, source / path.name)
        elif path.suffix in (".toml", ".md") or path.name == "LICENSE":
            shutil.copy(path, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob("curious_jax-*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_holds_the_packages_and_the_robot_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert {"curious_jax", "envs"} <= top <= {"curious_jax", "envs", "experiments"}
    assert {"envs/fetch/robot.xml", "curious_jax/train.py", "envs/physics/native.py"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for path in (ROOT / "pretrained").glob("*/*"):  # the policies, found by name
        assert f"curious_jax/run/{path.relative_to(ROOT)}" in names


@pytest.mark.slow
def test_an_installed_wheel_trains_from_another_folder(wheel, small, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for options in (small, ["--preset", "cpu", "--modules", "reach", *small[6:]]):
        command = [python, "-m", "curious_jax.train", *options, "--out", "run" + options[1]]
        done = subprocess.run(command, cwd=elsewhere, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert (elsewhere / ("run" + options[1]) / "summary.json").is_file()


@pytest.mark.slow
def test_a_foreign_envs_in_the_current_folder_is_refused(tmp_path):
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "__init__.py").write_text("")
    command = [sys.executable, "-c", "import sys; sys.path.append(sys.argv.pop()); from curious_jax import train; "
               "sys.exit(train.main())", "--modules", "reach", str(ROOT)]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("error: envs: the package at")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["envs"]
