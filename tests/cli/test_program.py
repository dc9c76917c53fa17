"""What the programs share: where compiled programs are kept."""

import os
import sys

import jax
import pytest

from curious_jax import evaluate, train
from curious_jax.cli import program

NAMES = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
)


@pytest.fixture
def jax_settings(monkeypatch):
    """JAX without a cache folder, put back as it was afterwards."""
    held = {name: getattr(jax.config, name) for name in NAMES}
    monkeypatch.delenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", raising=False)
    jax.config.update("jax_compilation_cache_dir", None)
    yield jax.config
    for name, value in held.items():
        jax.config.update(name, value)


def test_the_users_cache_folder(jax_settings, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir == str(tmp_path / "curious_jax")
    assert jax_settings.jax_persistent_cache_min_compile_time_secs == 0.1
    assert not list(tmp_path.iterdir())  # JAX makes it when there is something to keep


def test_jaxs_own_setting_goes_before_and_the_option_before_that(jax_settings, tmp_path):
    jax.config.update("jax_compilation_cache_dir", "elsewhere")
    program.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir == "elsewhere"
    program.keep_compiled(str(tmp_path / "mine"))
    assert jax_settings.jax_compilation_cache_dir == str(tmp_path / "mine")


def test_none_keeps_nothing(jax_settings):
    program.keep_compiled("none")
    assert not jax_settings.jax_enable_compilation_cache


def test_a_home_that_cannot_be_written_to_is_left_alone(jax_settings, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    program.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir is None


def test_a_bad_cache_is_refused(refuse, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    line = refuse(train, "--world", "point", "--modules", "reach", "--cache", file / "cache")
    assert line == f"error: --cache {file}/cache: not a folder that can be written to; give another, or none"
    assert line in refuse(evaluate, "runs/none", "--cache", file / "cache")


def test_the_python_to_call_is_named_so_that_it_is_this_one(tmp_path, monkeypatch):
    (tmp_path / "python").write_text("#!/bin/sh\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program.python() == "python"
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    for folder in (tmp_path, tmp_path.parent, "/"):
        monkeypatch.chdir(folder)
        assert os.sep in program.python() and os.path.samefile(program.python(), sys.executable)
