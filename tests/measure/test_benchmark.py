"""The benchmark program: one JSON object, a profile of a cycle, the table of the suite."""

import json

import pytest
from helpers.parts import make_run, tiny_config

from curious_jax import benchmark
from curious_jax.measure import profile, suite, timing

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


@pytest.mark.slow
def test_profile_comes_from_a_trace_of_the_cycle(small, tmp_path, capsys):
    assert benchmark.main([*small, "--seconds", "0.02", "--profile", str(tmp_path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads((tmp_path / "profile.json").read_text())
    measured = {stage["name"]: stage["seconds"] for stage in result["stages"]}
    assert {"physics", "policy", "curriculum", "statistics", "store", "substitution", "gradients"} <= set(measured)
    assert all(seconds >= 0 for seconds in measured.values()) and result["cycle_s"] > 0
    assert sum(stage["share"] for stage in result["stages"]) == pytest.approx(1)
    assert "| gradients |" in (tmp_path / "profile.md").read_text()
    assert list(tmp_path.glob("trace/plugins/profile/*/*.xplane.pb"))


def test_operations_are_added_up_by_the_innermost_scope():
    program = """
  %dot.1 = f32[2] dot(%a, %b), metadata={op_name="jit(f)/while/body/rollout/policy/dot" stack_frame_id=3}
  ROOT fusion.2 = f32[2] fusion(%a), kind=kLoop, metadata={op_type="x" op_name="jit(f)/while/body/rollout/add"}
  %while.3 = f32[2] while(%a), metadata={op_name="jit(f)/while"}
"""
    names = profile.scopes(program)
    assert names["dot.1"].endswith("policy/dot") and names["fusion.2"].endswith("rollout/add")
    one = [(0.0, 10.0, "while.3"), (1.0, 3.0, "dot.1"), (4.0, 5.0, "fusion.2"), (11.0, 12.0, "unknown")]
    other = [(0.0, 4.0, "dot.1")]
    found = profile.stages([one, other], names)
    assert found == {"rest": 10 - 2 - 1 + 1, "policy": 2 + 4, "rollout": 1}
    assert list(found) == ["rest", "policy", "rollout"]


@pytest.mark.slow
def test_suite_has_a_row_for_every_size(small, tmp_path, capsys, monkeypatch):
    rows = {"num_envs": [2, 3], "batch_size": [8, 4], "num_seeds": [1, 2]}
    monkeypatch.setattr(suite, "list_rows", lambda config: rows)
    assert benchmark.main([*small, "--seconds", "0.02", "--suite", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "suite.json").read_text())
    assert [row["num_envs"] for row in result["rollouts"]] == [2, 3]
    assert [row["num_seeds"] for row in result["cycles"]] == [1, 2]
    steps = [row["train_env_steps_per_s"] * row["cycle_s"] for row in result["cycles"]]
    assert steps == pytest.approx([4 * 20, 2 * 4 * 20])  # 4 envs, 20 steps
    assert all(row["updates_per_s"] > 0 for row in result["updates"])
    printed = capsys.readouterr()
    assert printed.out == (tmp_path / "suite.md").read_text()
    assert len(printed.err.splitlines()) == 6  # each row as it came


def test_the_suite_measures_only_the_rows_that_are_named(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(suite.timing, "rollout_time", lambda *_: (0.5, 1.0))
    assert benchmark.main([*small, "--rows", "rollouts=2, 6", "--suite", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "suite.json").read_text())
    assert [row["num_envs"] for row in result["rollouts"]] == [2, 6] and not result["updates"] and not result["cycles"]
    assert "Rollouts" in (tmp_path / "suite.md").read_text() and "Updates" not in (tmp_path / "suite.md").read_text()


def test_a_suite_that_is_cut_leaves_the_rows_that_it_has(small, tmp_path, monkeypatch):
    def cut(*_):
        if (tmp_path / "suite.json").exists():
            raise KeyboardInterrupt
        return 0.5, 1.0

    monkeypatch.setattr(suite.timing, "rollout_time", cut)
    assert benchmark.main([*small, "--rows", "rollouts=2,6", "--suite", str(tmp_path)]) == 130
    assert [row["num_envs"] for row in json.loads((tmp_path / "suite.json").read_text())["rollouts"]] == [2]


@pytest.mark.parametrize("rows", ["worlds=3", "rollouts=", "rollouts=0", "rollouts=2,x", "", "cycles=1;2"])
def test_bad_rows(refuse, tmp_path, rows):
    line = refuse(benchmark, "--suite", str(tmp_path / "suite"), "--rows", rows)
    assert line.startswith(f"error: --rows {rows}: must be rollouts, updates, cycles with sizes")
    assert not (tmp_path / "suite").exists()


def test_rows_without_a_suite(refuse):
    assert refuse(benchmark, "--rows", "cycles=1") == "error: --rows cycles=1: give it with --suite"


def test_the_suite_s_rows_lie_around_the_settings():
    config = tiny_config(num_envs=128, batch_size=256, capacity=200)
    rows = {"num_envs": [1, 16, 128, 512], "batch_size": [64, 256, 1024], "num_seeds": [1, 10]}
    assert suite.list_rows(config) == rows
    few = suite.list_rows(tiny_config(num_envs=4, batch_size=8, num_seeds=2))
    assert few == {"num_envs": [1, 4, 16], "batch_size": [3, 8, 32], "num_seeds": [1, 2]}


def test_suite_goes_on_after_a_row_that_failed(small, tmp_path, capsys, monkeypatch):
    def crowded(*_):
        raise MemoryError("too many")

    monkeypatch.setattr(suite.timing, "cycle_time", crowded)
    monkeypatch.setattr(suite.timing, "rollout_time", lambda *_: (0.5, 1.0))
    monkeypatch.setattr(suite.timing, "update_time", lambda *_: (0.001, 1.0))
    monkeypatch.setattr(suite, "list_rows", lambda config: {"num_envs": [10], "batch_size": [8], "num_seeds": [1]})
    assert benchmark.main([*small, "--suite", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "suite.json").read_text())
    assert result["rollouts"][0]["env_steps_per_s"] == 10 * 20 / 0.5
    assert result["cycles"] == [{"num_seeds": 1, "error": "MemoryError: too many"}]
    assert "MemoryError: too many" in capsys.readouterr().out


def test_operations_of_an_update():
    """Wide layers, whose matrix products are nearly all of the work: those by hand, and a little more."""
    config = tiny_config(hidden_size=256, hidden_layers=2, batch_size=64, distractors=0)
    run = make_run(config)
    inputs, actions, width = run.env.obs_size + run.env.modules.goal_size + 2, run.env.action_size, 256
    actor, critic = inputs * width + width**2 + width * actions, (inputs + actions) * width + width**2 + width
    # Critic's loss: passes of both targets and its own, twice that for its gradient, but not by the input.
    # Actor's loss: passes of both, once the critic's for the gradient by the action, twice its own for its gradient.
    products = 4 * actor + 6 * critic - (inputs + actions) * width - 2 * inputs * width
    assert 1.0 <= timing.count_flop(config, run.env) / (2 * 64 * products) < 1.2


@pytest.mark.parametrize(
    "named, argv",
    [
        ("--profile and --suite", ("--suite", "here", "--profile", "here")),
    ],
)
def test_bad_profile_or_suite(refuse, named, argv):
    assert refuse(benchmark, "--world", "point", "--modules", "reach", *argv).startswith(f"error: {named}:")


def test_bad_settings(refuse):
    assert "--num-envs 0" in refuse(benchmark, "--world", "point", "--modules", "reach", "--num-envs", "0")
