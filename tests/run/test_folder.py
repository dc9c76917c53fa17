"""Run folders: one run each, plain JSON, whole files."""

import concurrent.futures
import json
import os

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


def test_going_on_drops_what_is_beyond_and_keeps_the_rest(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    folder.write_rows([{"episodes": e, "seed": s} for e in (8, 16, 24) for s in (0, 1)])
    folder.write_summary({"status": "interrupted"})
    folder.close()
    (tmp_path / ".summary.json.77").write_text("{")
    longer = configs.make_config(modules=("reach", "push"), seed=3, episodes=10**6)
    again = runfolder.reopen(tmp_path)
    kept = again.go_on(longer, 16)
    assert [row["episodes"] for row in kept] == [8, 8, 16, 16]
    again.write_rows([{"episodes": 32}])
    assert [row["episodes"] for row in runfolder.read_rows(tmp_path)] == [8, 8, 16, 16, 32]
    assert configs.from_dict(json.loads((tmp_path / "config.json").read_text())) == longer
    assert sorted(os.listdir(tmp_path)) == ["config.json", "metrics.jsonl"]


def test_a_folder_in_use_is_not_reopened(tmp_path):
    folder = runfolder.claim(CONFIG, out=str(tmp_path))
    with pytest.raises(ConfigError, match="a program is at work in it"):
        runfolder.reopen(tmp_path)
    folder.close()
    runfolder.reopen(tmp_path).close()
