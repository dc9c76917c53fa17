"""Shared by all tests: small runs on the probe world, and the folder of one that is done."""

import os
import sys
from pathlib import Path

# Small runs of one shape, in this process and in others, compile once. Set before jax is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
# Compiling is most of the time. `make check-slow` and the golden runs have the programs that users have.
# The workers of pytest-xdist have other arguments, but inherit the variable.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "0" if "slow" in " ".join(sys.argv) else "1")

import jax  # noqa: E402
import pytest  # noqa: E402
from helpers.small import SMALL, refused  # noqa: E402

from curious_jax import train  # noqa: E402


@pytest.fixture
def optimised():
    """Programs compiled as for a user."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def small():
    """The options of a small run on the probe world."""
    return list(SMALL)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory):
    """The folder of a small run that completed; tests only read it."""
    folder = tmp_path_factory.mktemp("runs") / "done"
    assert train.main([*SMALL, "--distractors", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="session")
def two_seed_run(tmp_path_factory):
    """The folder of a small run with two seeds; tests only read it."""
    folder = tmp_path_factory.mktemp("runs") / "two"
    assert train.main([*SMALL, "--num-seeds", "2", "--seed", "5", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def refuse(capsys, empty_folder):
    """refuse(program, *argv) -> the one line of the refusal, in an empty current folder."""
    return lambda program, *argv: refused(program, argv, capsys, empty_folder)
