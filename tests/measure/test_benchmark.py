"""The benchmark program: one JSON object, a profile of a cycle, the table of the suite."""

import json
from types import SimpleNamespace

import pytest
from helpers.parts import tiny_config

from curious_jax import benchmark
from curious_jax.measure import profile, suite

KEYS = (
    "physics num_envs physics_steps_per_s env_steps_per_s train_env_steps_per_s updates_per_s batch_size compile_s "
    "device memory_bytes"
).split()


def test_json_is_one_object(small, capsys):
    assert benchmark.main([*small, "--capacity", "128", "--num-envs", "6", "--seconds", "0.05", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(KEYS) <= set(result)
    assert (result["num_envs"], result["batch_size"], result["physics"]) == (6, 8, "none")
    for key in KEYS[2:6] + ["compile_s", "memory_bytes"]:
        assert result[key] > 0
    assert result["train_num_envs"] == 128  # --num-envs is for the rollouts; the cycle keeps the preset's
    ratio = result["updates_per_s"] / result["train_env_steps_per_s"]
    assert ratio == pytest.approx(2 / (128 * 20))


def test_table_for_people(small, capsys):
    assert benchmark.main([*small, "--capacity", "128", "--seconds", "0.05"]) == 0
    assert "env steps/s in whole cycles (128 envs, 2 updates of 8)" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon", "1e9"])
def test_bad_seconds(refuse, seconds):
    assert refuse(benchmark, "--seconds", seconds).startswith(f"error: --seconds {seconds}")


def test_profile_accounts_for_the_whole_cycle(small, tmp_path, capsys):
    assert benchmark.main([*small, "--seconds", "0.02", "--profile", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((tmp_path / "profile.json").read_text())
    assert sum(stage["seconds"] for stage in result["stages"]) == pytest.approx(result["cycle_s"])
    measured = {stage["name"]: stage["seconds"] for stage in result["stages"]}
    assert all(measured[name] > 0 for name in ("start", "physics", "curriculum", "normaliser", "store", "sampling"))
    assert "| gradients |" in (tmp_path / "profile.md").read_text()
    assert list(tmp_path.glob("trace/plugins/profile/*/*.xplane.pb"))


def test_suite_has_a_row_for_every_size(small, tmp_path, capsys):
    sizes = ("--suite-worlds", "2,3", "--suite-batches", "8,4", "--suite-seeds", "1,2")
    assert benchmark.main([*small, "--seconds", "0.02", "--suite", str(tmp_path), *sizes]) == 0
    result = json.loads((tmp_path / "suite.json").read_text())
    assert [row["num_envs"] for row in result["rollouts"]] == [2, 3]
    assert [row["num_seeds"] for row in result["cycles"]] == [1, 2]
    steps = [row["train_env_steps_per_s"] * row["cycle_s"] for row in result["cycles"]]
    assert steps == pytest.approx([4 * 20, 2 * 4 * 20])  # 4 envs, 20 steps
    assert all(row["updates_per_s"] > 0 for row in result["updates"])
    printed = capsys.readouterr()
    assert printed.out == (tmp_path / "suite.md").read_text()
    assert len(printed.err.splitlines()) == 6  # each row as it came


def test_suite_goes_on_after_a_row_that_failed(small, tmp_path, capsys, monkeypatch):
    def crowded(*_):
        raise MemoryError("too many")

    monkeypatch.setattr(suite.timing, "cycle_time", crowded)
    monkeypatch.setattr(suite.timing, "rollout_time", lambda *_: (0.5, 1.0))
    monkeypatch.setattr(suite.timing, "update_time", lambda *_: (0.001, 1.0))
    sizes = ("--suite-worlds", "10", "--suite-batches", "8", "--suite-seeds", "1")
    assert benchmark.main([*small, "--suite", str(tmp_path), *sizes]) == 0
    result = json.loads((tmp_path / "suite.json").read_text())
    assert result["rollouts"][0]["env_steps_per_s"] == 10 * 20 / 0.5
    assert result["cycles"] == [{"num_seeds": 1, "error": "MemoryError: too many"}]
    assert "MemoryError: too many" in capsys.readouterr().out


def test_operations_of_an_update():
    """One hidden unit in two layers, by hand: products per transition with 4 inputs and 1 action."""
    config = tiny_config(hidden_size=1, hidden_layers=2, batch_size=4, distractors=0)
    env = SimpleNamespace(obs_size=1, action_size=1, modules=SimpleNamespace(goal_size=1, num_modules=2))
    # Actor 4 + 1 + 1 = 6 weights, critic 5 + 1 + 1 = 7. Critic's loss: passes 6 + 7 + 7, gradient 2·7 - 5 = 9.
    # Actor's loss: passes 6 + 7, gradient by the action 7 - 4 = 3, of the actor 2·6 - 4 = 8.
    assert profile.update_flop(config, env) == 2 * 4 * (20 + 9 + 13 + 3 + 8)


@pytest.mark.parametrize(
    "named, argv",
    [
        ("--suite-worlds", ("--suite-worlds", "4")),
        ("--suite-worlds 0", ("--suite", "here", "--suite-worlds", "0")),
        ("--suite-backends c,none", ("--suite", "here", "--suite-backends", "c,none")),
        ("--profile and --suite", ("--suite", "here", "--profile", "here")),
        ("--profile", ("--profile", "here", "--num-seeds", "2")),
    ],
)
def test_bad_profile_or_suite(refuse, named, argv):
    assert refuse(benchmark, "--world", "point", "--modules", "reach", *argv).startswith(f"error: {named}:")


def test_bad_settings(refuse):
    assert "--num-envs 0" in refuse(benchmark, "--world", "point", "--modules", "reach", "--num-envs", "0")
