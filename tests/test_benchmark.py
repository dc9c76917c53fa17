"""The benchmark program: one object with the keys of DESIGN, all of them measured."""

import json

import pytest

from curious_jax import benchmark

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


def test_bad_settings(refuse):
    assert "--num-envs 0" in refuse(benchmark, "--world", "point", "--modules", "reach", "--num-envs", "0")
