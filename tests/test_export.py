"""Light exports: the same policy, a small folder, nothing of the machine it was made on, loaded by name."""

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from curious_jax import evaluate, export
from curious_jax.errors import ConfigError
from curious_jax.run import policies

ROOT = Path(__file__).parent.parent


def policy(path, index=0):
    return policies.load(path, seed_index=index).params


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def test_an_export_is_the_run_s_policy(finished_run, tmp_path, capsys):
    assert export.main([str(finished_run), str(tmp_path / "pretrained" / "mine")]) == 0
    assert "python -m curious_jax.play" in capsys.readouterr().out
    assert same(policy(tmp_path / "pretrained" / "mine"), policy(finished_run))
    results = []
    for place in (finished_run, tmp_path / "pretrained" / "mine"):
        assert evaluate.main([str(place), "--episodes", "10", "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out)["success"])
    assert results[0] == results[1]


def test_one_of_several_seeds(two_seed_run, tmp_path):
    assert export.main([str(two_seed_run), str(tmp_path / "second"), "--seed-index", "1"]) == 0
    config = policies.find(tmp_path / "second").config
    assert (config.seed, config.num_seeds) == (6, 1)
    assert same(policy(tmp_path / "second"), policy(two_seed_run, 1))
    assert not same(policy(tmp_path / "second"), policy(two_seed_run, 0))


def test_no_file_says_where_it_was_made(finished_run, tmp_path):
    assert export.main([str(finished_run), str(tmp_path / "mine")]) == 0
    files = [path for path in (tmp_path / "mine").rglob("*") if path.is_file()]
    assert len(files) == 5
    for path in files:
        for place in (tmp_path, finished_run, Path.home()):
            assert str(place).encode() not in path.read_bytes(), path.name


def test_the_committed_policies_are_small_and_without_paths():
    found = sorted((ROOT / "pretrained").glob("*/policy.json"))
    assert found
    for info in found:
        files = [path for path in info.parent.rglob("*") if path.is_file()]
        assert sum(path.stat().st_size for path in files) < 2 * 2**20
        for path in files:
            for word in (b"/work", b"/root", b"/home", b"/tmp"):
                assert word not in path.read_bytes(), path


def test_a_pretrained_policy_is_found_by_name_from_any_folder(empty_folder):
    found = policies.find("pretrained/four-modules")
    assert found.config.modules == ("reach", "push", "pnp", "stack")
    (empty_folder / "pretrained").mkdir()  # one's own comes first
    shutil.copytree(found.path, empty_folder / "pretrained" / "four-modules")
    assert policies.find("pretrained/four-modules").path == Path("pretrained/four-modules")


def test_its_name_alone_will_do(empty_folder):
    assert policies.find("four-modules").path.samefile(ROOT / "pretrained" / "four-modules")
    shutil.copytree(ROOT / "pretrained" / "fetch-push", empty_folder / "four-modules")  # one's own comes first
    assert policies.find("four-modules").config.modules == ("reach", "push")


def test_a_name_that_is_not_there(empty_folder):
    there = "there are all-starts, fetch-push, four-modules"
    with pytest.raises(ConfigError, match=f"pretrained/five: no such policy; {there}"):
        policies.find("pretrained/five")
    with pytest.raises(ConfigError, match=f"five: no such folder.*comes with curious_jax: {there}"):
        policies.find("five")


@pytest.mark.parametrize(
    "argv, mentions",
    [
        (["there"], "there: is there already; name a new folder"),
        (["new", "--checkpoint", "first"], "--checkpoint first: must be one of last, best"),
        (["new", "--seed-index", "1"], "--seed-index 1: must be 0"),
        ([], "required: DIR"),
    ],
)
def test_bad_options(finished_run, refuse, empty_folder, argv, mentions):
    (empty_folder / "there").mkdir()
    assert mentions in refuse(export, finished_run, *argv)


def test_a_run_without_a_policy(refuse):
    assert "nowhere: no such folder" in refuse(export, "nowhere", "new")
