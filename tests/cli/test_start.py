"""JAX as programs start it: settings, limits of the process, and the folder of compiled programs."""

import os
import resource
import warnings

import jax
import pytest

from curious_jax import evaluate, train
from curious_jax.cli import program, start
from curious_jax.errors import ConfigError

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
    with start.restored():
        yield jax.config
    for name, value in held.items():
        jax.config.update(name, value)


def test_the_users_cache_folder_is_for_its_user_alone(jax_settings, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    start.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir == str(tmp_path / "curious_jax")
    assert jax_settings.jax_persistent_cache_min_compile_time_secs == 0.1
    assert (tmp_path / "curious_jax").stat().st_mode & 0o777 == 0o700


def test_jaxs_own_setting_goes_before_and_the_option_before_that(jax_settings, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "elsewhere"))
    start.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir == str(tmp_path / "elsewhere")
    start.keep_compiled(str(tmp_path / "mine"))
    assert jax_settings.jax_compilation_cache_dir == str(tmp_path / "mine")


def test_none_keeps_nothing(jax_settings):
    start.keep_compiled("none")
    assert not jax_settings.jax_enable_compilation_cache


def test_none_is_for_one_program(jax_settings, tmp_path):
    with start.restored():
        start.keep_compiled("none")
        jax.jit(lambda x: x + 1)(1.0)
    assert jax_settings.jax_enable_compilation_cache
    with start.restored():
        start.keep_compiled(str(tmp_path / "kept"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.jit(lambda x: x + 2)(1.0)
    assert any((tmp_path / "kept").iterdir())


def test_a_cache_folder_that_others_can_write_to_is_not_used(jax_settings, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "curious_jax").mkdir()
    (tmp_path / "curious_jax").chmod(0o777)
    start.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir is None
    assert "others can write there" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="^--cache .*: others can write there"):
        start.keep_compiled(str(tmp_path / "curious_jax"))


def test_a_cache_folder_of_another_user_is_not_used(jax_settings, tmp_path, monkeypatch):
    monkeypatch.setattr(start.os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="^--cache .*: belongs to another user"):
        start.keep_compiled(str(tmp_path))


@pytest.mark.parametrize("home", ["/dev/null/home", "~", "/" + "x" * 300])
def test_a_home_without_room_for_a_cache_is_done_without(home, jax_settings, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setattr(start.os.path, "expanduser", lambda path: path)  # no such user
    start.keep_compiled(None)
    assert jax_settings.jax_compilation_cache_dir is None
    assert capsys.readouterr().err.startswith(f"note: {home}/curious_jax: ")


@pytest.mark.parametrize("cache", ["", " ", "x" * 300, "file/cache"])
def test_a_bad_cache_is_refused(cache, refuse, empty_folder):
    (empty_folder / "file").write_text("")
    line = refuse(train, "--world", "point", "--modules", "reach", "--cache", cache)
    assert line.startswith("error: --cache")
    assert line == refuse(evaluate, "runs/none", "--cache", cache)


def test_settings_that_programs_cannot_use_are_put_aside_and_back(capsys):
    jax.config.update("jax_enable_x64", True)
    try:
        with start.restored():
            start.start_jax("none")
            assert not jax.config.jax_enable_x64
            assert capsys.readouterr().err.startswith("note: JAX_ENABLE_X64=True: this program does not use that")
        assert jax.config.jax_enable_x64
    finally:
        jax.config.update("jax_enable_x64", False)
        jax.config.update("jax_enable_compilation_cache", True)


def test_a_platform_that_is_not_there(monkeypatch):
    def fail():
        raise AssertionError  # as jax does for cuda without a GPU

    monkeypatch.setattr(jax, "default_backend", fail)
    with pytest.raises(ConfigError, match="^JAX_PLATFORMS=.*: JAX cannot use that here"):
        start.start_jax(None)


@pytest.mark.parametrize(
    "kind, limits, line",
    [
        (resource.RLIMIT_NOFILE, (20, 20), "^ulimit -n 20: .* at least 64$"),
        (resource.RLIMIT_AS, (2**30, 2**30), "^ulimit -v 1048576: .* at least 3145728$"),
    ],
)
def test_limits_too_low_for_jax_are_refused(kind, limits, line, monkeypatch):
    free = (resource.RLIM_INFINITY,) * 2
    monkeypatch.setattr(start.resource, "getrlimit", lambda asked: limits if asked == kind else free)
    with pytest.raises(ConfigError, match=line):
        start.check_limits()


def test_a_soft_limit_of_files_is_raised(monkeypatch):
    raised = []
    monkeypatch.setattr(start.resource, "getrlimit", lambda _: (20, 4096))
    monkeypatch.setattr(start.resource, "setrlimit", lambda *given: raised.append(given))
    monkeypatch.setattr(start, "ADDRESSES", 0)
    start.check_limits()
    assert raised == [(resource.RLIMIT_NOFILE, (1024, 4096))]


def test_damaged_entries_are_removed_and_said_once(jax_settings, tmp_path, capsys):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    names = ("jit_epoch-1-cache", "jit_epoch-2-cache", "jit_other-1-cache")
    for name in names:
        (tmp_path / name).write_text("")
    with start.restored():
        for text in ("jit_epoch': zlib.error: Error -3", "jit_gone': zlib.error: Error -3"):
            warnings.warn(f"Error reading persistent compilation cache entry for '{text}", stacklevel=1)
    assert [path.name for path in tmp_path.iterdir()] == ["jit_other-1-cache"]
    assert capsys.readouterr().err.count("compiled again") == 1


def test_a_refused_command_leaves_no_empty_cache_folder(jax_settings, tmp_path):
    def body(refused=True):
        start.keep_compiled(str(tmp_path / "new" / "cache"))
        if not refused:
            (tmp_path / "new" / "cache" / "entry").touch()
        return program.BAD_INPUT

    assert program.run(body) == program.BAD_INPUT and os.listdir(tmp_path) == []
    program.run(lambda: body(refused=False))
    assert os.listdir(tmp_path / "new" / "cache") == ["entry"]
