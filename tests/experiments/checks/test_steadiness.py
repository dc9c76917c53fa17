"""A run's steadiness is read from its own metrics."""

import json

import pytest

from experiments.checks import steadiness


def write_run(folder, late_speed=950.0, late_memory=2.0e9):
    """A run of 110,000 episodes, a row every 10,000: 1,000 env steps/s, then `late_speed` from 90,000 on."""
    config = {"num_seeds": 1, "schedule": {"num_envs": 100, "capacity": 30_000}}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [
        {
            "episodes": n,
            "env_steps": 50 * n,
            "perf/env_steps_per_s": 1000.0 if n < 90_000 else late_speed,
        }
        for n in range(10_000, 120_000, 10_000)
    ]
    memory = [
        {"episodes": row["episodes"], "bytes": 1.5e9 if n < 2 else 2.0e9 if n < 8 else late_memory}
        for n, row in enumerate(rows)
    ]
    for name, lines in (("metrics", rows), ("memory", memory)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"cut')


@pytest.mark.parametrize(
    "late, status", [({}, 0), ({"late_speed": 900.0}, 1), ({"late_memory": 2.1e9}, 1), ({"late_speed": 2000.0}, 0)]
)
def test_slower_cycles_and_growing_memory_are_found(tmp_path, capsys, late, status):
    write_run(tmp_path, **late)
    assert steadiness.main([str(tmp_path)]) == status
    result = json.loads(capsys.readouterr().out)
    assert result["early_cycle_s"] == pytest.approx(100 * 50 / 1000)
    assert result["late_over_early"] == pytest.approx(1000 / late.get("late_speed", 950.0))
    assert result["memory_full_store_bytes"] == 2.0e9  # at 30,000 episodes, when the store was full


@pytest.mark.parametrize("own", [[], ["--early", "20000", "--late", "100000"]])
def test_a_run_of_the_options_behind_the_dashes_is_trained_first(tmp_path, monkeypatch, own):
    trained = []

    def train(run, options):
        trained.append((run, options))
        write_run(tmp_path)
        return 0

    monkeypatch.setattr(steadiness, "train", train)
    assert steadiness.main([str(tmp_path), *own, "--", "--modules", "reach", "--seed", "1"]) == 0
    assert trained == [(tmp_path, ["--modules", "reach", "--seed", "1"])]


def test_a_short_run_is_refused(tmp_path, capsys):
    write_run(tmp_path)
    assert steadiness.main([str(tmp_path), "--late", "200000"]) == 2
    assert "no evaluation near 200,000 episodes; the run has 110,000" in capsys.readouterr().err


def test_what_is_no_run_is_one_line(tmp_path, capsys):
    for argv, line in (
        ([], "error: the following arguments are required: RUN; see --help\n"),
        ([str(tmp_path)], f"error: {tmp_path}/config.json: No such file or directory; give the folder of a run\n"),
        ([str(tmp_path), "--early", "x"], "error: --early: invalid int value: 'x'; see --help\n"),
    ):
        assert steadiness.main(argv) == 2
        assert capsys.readouterr().err == line
    for name, text in (("config.json", "{}"), ("metrics.jsonl", "{}\n"), ("metrics.jsonl", "5\n")):
        write_run(tmp_path)
        (tmp_path / name).write_text(text)
        assert steadiness.main([str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_a_run_is_made_and_watched(small, tmp_path, capsys):
    run = tmp_path / "run"
    assert steadiness.train(run, small, every=0.02) == 0
    noted = steadiness.read(run / "memory.jsonl")
    assert noted and all(row["bytes"] > 10**7 for row in noted)
    assert steadiness.main([str(run), "--early", "8", "--late", "16"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["early_cycle_s"] > 0
