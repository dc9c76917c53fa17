"""The comparison with other programs: how its figures are made, and that both sides run."""

import importlib.util
import json
import sys

import pytest

from experiments.checks import peers

HAS_PEER = all(importlib.util.find_spec(name) for name in ("stable_baselines3", "gymnasium_robotics"))


def row(**figures):
    return {"status": "target_reached", "train_s": 5.0, "compile_s": 2.0, "env_steps_per_s": 3000.0, **figures}


def test_medians_and_how_many_times():
    own = [row(train_s=4.0), row(train_s=8.0), row(train_s=5.0)]
    other = [row(train_s=100.0, env_steps_per_s=s) for s in (50.0, 60.0, 70.0)]
    result = peers.compare(own, other)
    assert result["env_steps_per_s"] == {"ours": 3000.0, "theirs": 60.0, "times": 50.0}
    assert result["train_s"] == {"ours": 5.0, "theirs": 100.0, "times_fewer": 20.0}
    assert result["compile_s"] == {"ours": 2.0}
    assert result["seeds_that_missed_the_target"] == {"ours": 0, "theirs": 0}


def test_a_seed_that_missed_the_target_ranks_last():
    missed = row(status="not_reached", train_s=1.0)
    result = peers.compare([row()] * 3, [missed, row(train_s=60.0), row(train_s=50.0)])
    assert result["train_s"] == {"ours": 5.0, "theirs": 60.0, "times_fewer": 12.0}
    assert result["seeds_that_missed_the_target"] == {"ours": 0, "theirs": 1}


def test_no_time_to_the_target_when_the_median_seed_missed_it():
    missed = row(status="not_reached", train_s=1.0)
    result = peers.compare([row()] * 3, [missed, missed, row(train_s=50.0)])
    assert result["train_s"]["theirs"] is None and result["train_s"]["times_fewer"] is None


STAND_IN = """#!{python}
import json, pathlib, sys, time
if "curious_jax.evaluate" in sys.argv:
    print(json.dumps({{"episodes": 100}})); sys.exit()
run = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
run.mkdir()
row = {{"episodes": 8, "env_steps": 400, "updates": 2, "wall_s": 1.0, "eval/success": 0.25}}
(run / "metrics.jsonl").write_text(json.dumps(row) + chr(10))
time.sleep(0.3)
figures = dict(status="completed", train_s=2.0, compile_s=1.0, env_steps=400, mean_success=0.25)
(run / "summary.json").write_text(json.dumps(figures))
sys.exit({status})
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """stand_in(status): a training that takes no time and ends so."""

    def install(status):
        path = tmp_path / "python"
        path.write_text(STAND_IN.format(python=sys.executable, status=status))
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        monkeypatch.setattr(peers, "PROGRESS_S", 0.1)

    return install


def test_progress_is_shown(stand_in, tmp_path, capsys):
    stand_in(0)
    assert peers.ours(3, 0.95, [], tmp_path)["judged"] == {"episodes": 100}
    assert "ours, seed 3: 400 steps, success 0.25\n" in capsys.readouterr().err


@pytest.mark.skipif(not HAS_PEER, reason="stable-baselines3 and gymnasium-robotics are not installed")
def test_a_training_that_fails_is_one_line(stand_in, capsys):
    stand_in(2)
    assert peers.main([]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "error: ours, seed 0: the training ended with exit status 2"


def test_missing_packages_and_bad_options_are_one_line(monkeypatch, capsys):
    monkeypatch.setattr(peers, "NEEDS", ("no_such_package",))
    assert peers.main([]) == 2
    lacks = "experiments.checks.peers: no_such_package is not installed"
    assert capsys.readouterr().err == f'error: {lacks}; pip install "curious_jax[peers,official]"\n'
    assert peers.main(["--steps", "x"]) == 2
    assert capsys.readouterr().err == "error: --steps: invalid int value: 'x'; see --help\n"


@pytest.mark.skipif(not HAS_PEER, reason="stable-baselines3 and gymnasium-robotics are not installed")
@pytest.mark.skipif(importlib.util.find_spec("envs.compat.official") is None, reason="FetchReach-v4 does not start")
@pytest.mark.slow
def test_both_sides_run(tmp_path, capsys):
    small = "--num-envs 4 --updates-per-cycle 2 --episodes 8 --capacity 100 --evaluation-interval 4".split()
    sizes = ["--seeds", "0", "--steps", "1050", "--evaluation-episodes", "2", "--out", str(tmp_path / "peers.json")]
    assert peers.main([*sizes, "--", *small, "--evaluation-episodes", "4"]) == 0
    result = json.loads((tmp_path / "peers.json").read_text())
    assert (result["ours"][0]["env_steps"], result["theirs"][0]["env_steps"]) == (8 * 50, 1050)
    assert result["ours"][0]["judged"]["episodes"]
    assert json.loads(capsys.readouterr().out)["env_steps_per_s"]["times"] > 0
