"""Run folders: one run each, plain JSON, whole files."""

import concurrent.futures
import errno
import json
import os
import shutil
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder

CONFIG = configs.make_config(modules=("reach", "push"), seed=3)


def test_plain_makes_json_of_anything():
    data = {"a": np.float32(0.5), "b": jnp.arange(2), "c": float("nan"), "d": (1, np.bool_(True)), "e": [np.inf]}
    assert runfolder.plain(data) == {"a": 0.5, "b": [0, 1], "c": None, "d": [1, True], "e": [None]}
    json.dumps(runfolder.plain(data), allow_nan=False)


def test_write_json_replaces_whole_files(tmp_path):
    path = tmp_path / "summary.json"
    runfolder.write_json(path, {"x": 1})
    with pytest.raises(TypeError):
        runfolder.write_json(path, {"x": object()})
    runfolder.write_json(path, {"x": float("nan")})
    assert json.loads(path.read_text()) == {"x": None}
    assert os.listdir(tmp_path) == ["summary.json"]


def test_a_new_folder_is_named_after_the_run(tmp_path):
    folder = runfolder.claim(CONFIG, root=tmp_path)
    assert folder.path.parent == tmp_path
    assert folder.path.name.endswith("-curious-reach+push-seed3")
    assert configs.from_dict(json.loads((folder.path / "config.json").read_text())) == CONFIG


def test_a_long_list_of_modules_makes_no_long_name():
    many = configs.make_config(modules=tuple(f"push{k}" for k in range(1, 30)), distractors=2)
    assert runfolder.default_name(many, 0.0).endswith("-curious-31modules-seed0")


def test_runs_started_together_never_share_a_folder(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: runfolder.claim(CONFIG, root=tmp_path).path, range(40)))
    assert len(set(found)) == 40


def test_only_one_run_gets_a_named_folder(tmp_path):
    def claim(_):
        try:
            return runfolder.claim(CONFIG, out=str(tmp_path / "same"))
        except ConfigError as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        found = list(pool.map(claim, range(16)))
    losers = [message for message in found if isinstance(message, str)]
    assert len(losers) == 15
    assert all("holds another run" in message for message in losers)


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "summary.json"])
def test_a_folder_with_another_run_is_refused(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match=rf"^--out {tmp_path}: holds another run \({name}\)"):
        runfolder.check(str(tmp_path))


def test_an_empty_folder_and_one_with_other_files_can_be_used(tmp_path):
    (tmp_path / "log.txt").write_text("started")
    runfolder.check(str(tmp_path))
    assert runfolder.claim(CONFIG, out=str(tmp_path)).path == tmp_path


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for out in ("file", "file/below"):
        with pytest.raises(ConfigError, match=f"^--out {tmp_path / out}: .* is a file"):
            runfolder.check(str(tmp_path / out))


@pytest.mark.parametrize("out", ["", "  "])
def test_an_empty_name_is_no_folder(out):
    with pytest.raises(ConfigError, match="^--out: must name a folder"):
        runfolder.check(out)


def test_check_writes_nothing(tmp_path):
    runfolder.check(str(tmp_path / "a" / "b"))
    assert not os.listdir(tmp_path)


def test_rows_are_on_disk_at_once_and_a_cut_line_is_left_out(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    folder.write_rows([{"episodes": 8, "loss": float("nan")}, {"episodes": np.int32(16)}])
    assert runfolder.read_rows(tmp_path) == [{"episodes": 8, "loss": None}, {"episodes": 16}]
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"episodes": 2')
    assert len(runfolder.read_rows(tmp_path)) == 2


def test_a_key_of_an_earlier_version_is_read_under_its_new_name(tmp_path):
    old, new = {"episodes": 8, "nan_episodes": 3}, {"episodes": 8, "invalid_episodes": 3}
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    folder.write_rows([old])
    assert folder.rows(8, folder.mark())[0] == runfolder.read_rows(tmp_path) == [new]
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == old  # the file stays as it was


def test_going_on_drops_what_is_beyond_and_keeps_the_rest(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    folder.write_rows([{"episodes": e, "seed": s} for e in (8, 16) for s in (0, 1)])
    mark = folder.mark()
    folder.write_rows([{"episodes": 24, "seed": s} for s in (0, 1)])
    folder.write_summary({"status": "interrupted"})
    folder.close()
    (tmp_path / "policies").mkdir()
    for name in (".config.77.new.json", ".curves.77.new.png"):  # of programs that were killed
        (tmp_path / name).write_text("{")
    (tmp_path / "policies" / ".last.old").mkdir()
    (tmp_path / "policies" / ".best.new").mkdir()
    longer = configs.make_config(modules=("reach", "push"), seed=3, episodes=10**6)
    again = runfolder.reopen(tmp_path)
    for kept, size in (again.rows(16, mark), again.rows(16, None)):
        assert [row["episodes"] for row in kept] == [8, 8, 16, 16] and size == mark["bytes"]
    again.go_on(longer, size)
    assert again.mark() == mark
    again.write_rows([{"episodes": 32}])
    assert [row["episodes"] for row in runfolder.read_rows(tmp_path)] == [8, 8, 16, 16, 32]
    assert configs.from_dict(json.loads((tmp_path / "config.json").read_text())) == longer
    assert sorted(os.listdir(tmp_path)) == ["config.json", "metrics.jsonl", "policies"]
    assert os.listdir(tmp_path / "policies") == ["last"]  # the new one had not got its name


@pytest.mark.parametrize(
    "line", [b"{}", b"5", b"null", b"[]", b'"x"', b'{"episodes": "x"}', b"\xff", b"\0", b"", b"[" * 10**5]
)
def test_a_damaged_row_is_named(tmp_path, line):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    folder.close()
    (tmp_path / "metrics.jsonl").write_bytes(b'{"episodes": 8}\n' + line + b'\n{"episodes": 16}\n')
    again = runfolder.reopen(tmp_path)
    for read in (lambda: runfolder.read_rows(tmp_path), lambda: again.rows(16, None)):
        with pytest.raises(ConfigError, match="metrics.jsonl: line 2 is damaged"):
            read()


def test_a_run_that_loses_its_folder_notices(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path / "run"))
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    for write in (lambda: folder.write_rows([{"episodes": 8}]), lambda: folder.write_summary({})):
        with pytest.raises(OSError, match="metrics.jsonl was removed, renamed or replaced during the run"):
            write()
    assert os.listdir(tmp_path) == ["elsewhere"]


def full_disk(*args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_before_the_start_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(runfolder.Path, "write_text", full_disk)
    with pytest.raises(ConfigError, match="^--out .*: cannot be written .No space left on device.; name another"):
        runfolder.claim(CONFIG, out=str(tmp_path / "run"))
    assert not os.listdir(tmp_path)


def test_a_row_that_the_disk_has_no_room_for_leaves_the_rows_before(tmp_path, monkeypatch):
    folder = runfolder.claim(CONFIG, out=str(tmp_path / "run"))
    folder.write_rows([{"episodes": 8}])
    metrics = folder._metrics
    folder._metrics = SimpleNamespace(
        write=lambda data: metrics.write(data[:5]), fileno=metrics.fileno, truncate=metrics.truncate
    )
    with pytest.raises(OSError, match="No space left on device"):
        folder.write_rows([{"episodes": 16}])
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == b'{"episodes": 8}\n'


def test_a_failed_write_leaves_the_file_before_and_no_scratch(tmp_path, monkeypatch):
    runfolder.write_json(tmp_path / "x.json", {"x": 1})
    monkeypatch.setattr(runfolder.os, "fsync", full_disk)
    with pytest.raises(OSError):
        runfolder.write_json(tmp_path / "x.json", {"x": 2})
    assert os.listdir(tmp_path) == ["x.json"] and json.loads((tmp_path / "x.json").read_text()) == {"x": 1}


def test_a_current_folder_that_was_removed_matters_to_relative_names_only(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    runfolder.claim(CONFIG, out=str(tmp_path / "run")).close()
    for out in ("run", None):
        with pytest.raises(ConfigError, match="^--out runs?: the current folder was removed"):
            runfolder.claim(CONFIG, out=out)


def test_without_locks_a_run_works(tmp_path, monkeypatch, capsys):
    def no_locks(*args):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(runfolder.fcntl, "flock", no_locks)
    folder = runfolder.claim(CONFIG, out=str(tmp_path / "run"))
    assert "has no locks" in capsys.readouterr().err
    folder.write_rows([{"episodes": 8}])
    assert not folder.locked and runfolder.read_rows(tmp_path / "run") == [{"episodes": 8}]


# Folders that others made.


def hostile(run, name, kind):
    """Puts something else in place of a file or folder of a run."""
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    {
        "link": lambda: path.symlink_to(run.parent / "precious"),
        "link to nothing": lambda: path.symlink_to(run.parent / "nothing"),
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
    }[kind]()


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "device"])
@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "summary.json", "curves.png", "checkpoints", "policies", "checkpoints/320", "policies/x"]
)
def test_what_is_no_regular_file_is_refused_and_left_alone(tmp_path, name, kind):
    run = tmp_path / "run"
    folder = runfolder.claim(CONFIG, out=str(run))
    folder.close()
    (tmp_path / "precious").write_text("precious")
    (run / name).parent.mkdir(exist_ok=True)
    hostile(run, name, kind)
    with pytest.raises(ConfigError, match=f"{name}: is not a regular file"):
        runfolder.reopen(run)
    assert (tmp_path / "precious").read_text() == "precious"


@pytest.mark.parametrize("kind", ["link", "link to nothing", "pipe", "device"])
def test_rows_are_not_read_through_links_and_pipes(tmp_path, kind):
    (tmp_path / "run").mkdir()
    hostile(tmp_path / "run", "metrics.jsonl", kind)
    with pytest.raises(ConfigError, match="metrics.jsonl: cannot be read"):
        runfolder.read_rows(tmp_path / "run")


def test_names_that_cannot_become_a_run(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    for name, said in (("loop", "cannot be a folder"), ("dangling", "leads nowhere"), ("\udcff", "must be UTF-8")):
        with pytest.raises(ConfigError, match=f"^--out .*{said}"):
            runfolder.check(str(tmp_path / name))


def test_a_folder_in_use_is_not_reopened(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    with pytest.raises(ConfigError, match="a program is at work in it"):
        runfolder.reopen(tmp_path)
    folder.close()
    runfolder.reopen(tmp_path).close()
