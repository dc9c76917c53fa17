"""The train program: run folder, exit statuses, and bad input in one line with nothing written."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import golden

import curious_jax
from curious_jax import errors, fit, train
from curious_jax.config.fields import ESTIMATORS, GOALS
from curious_jax.run import folder, memory
from curious_jax.types import Status

ROOT = Path(__file__).parent.parent
SUMMARY_KEYS = (
    "status mean_success success episodes env_steps updates wall_s compile_s train_s platform device physics "
    "algorithm modules seed version"
).split()
ROW_KEYS = (
    "episodes env_steps updates wall_s eval/success eval/success/reach eval/success/push eval/n/reach eval/n/push "
    "competence/reach competence/push competence/distractor1 learning_progress/reach learning_progress/push "
    "learning_progress/distractor1 p_module/reach p_module/push p_module/distractor1 train/critic_loss "
    "train/actor_loss train/q_mean perf/env_steps_per_s perf/updates_per_s invalid_episodes"
).split()


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_run_folder_holds_what_design_says(finished_run):
    names = {p.name for p in finished_run.iterdir()}
    assert {"config.json", "metrics.jsonl", "summary.json", "curves.png", "checkpoints", "policies"} <= names
    assert [p.name for p in (finished_run / "checkpoints").iterdir()] == ["320"]
    assert {p.name for p in (finished_run / "policies").iterdir()} == {"last", "best"}
    assert not [n for n in names if n.startswith(".")]
    rows = rows_of(finished_run)
    assert [row["episodes"] for row in rows] == [8, 16]
    assert all(set(row) == set(ROW_KEYS) for row in rows)


def test_the_summary_holds_what_design_says(finished_run):
    summary = summary_of(finished_run)
    assert set(SUMMARY_KEYS) <= set(summary)
    assert (summary["status"], summary["episodes"], summary["updates"]) == ("completed", 16, 8)
    assert summary["env_steps"] == 16 * 20
    assert set(summary["success"]) == {"reach", "push"}
    assert summary["modules"] == ["reach", "push"] and summary["version"] == curious_jax.__version__
    assert summary["mean_success"] == pytest.approx(sum(summary["success"].values()) / 2)


def test_several_seeds_give_lists_and_rows_with_their_seed(two_seed_run):
    rows = rows_of(two_seed_run)
    assert [(row["episodes"], row["seed"]) for row in rows] == [(8, 5), (8, 6), (16, 5), (16, 6)]
    summary = summary_of(two_seed_run)
    assert len(summary["mean_success"]) == 2 and len(summary["success"]["reach"]) == 2
    assert summary["episodes"] == 16  # of each seed


def test_a_config_file_repeats_a_run(finished_run, empty_folder, capsys):
    config = str(finished_run / "config.json")
    assert train.main(["--config", config, "--out", "again"]) == 0
    again, first = rows_of(empty_folder / "again"), rows_of(finished_run)
    for row in (*again, *first):
        for key in ("wall_s", "perf/env_steps_per_s", "perf/updates_per_s"):
            del row[key]
    assert again == first
    assert (empty_folder / "again" / "config.json").read_text() == (finished_run / "config.json").read_text()


def test_what_a_run_prints(small, empty_folder, capsys):
    assert train.main([*small, "--target-success", "0", "--seed", "1"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for part in ("GiB", "run folder: runs/", "curious on point: reach, push; seed 1", "8/16 episodes", "└──"):
        assert part in shown.out
    assert "target_reached: mean success" in shown.out and "curves.png" in shown.out
    (folder,) = (empty_folder / "runs").iterdir()
    summary = summary_of(folder)
    assert summary["status"] == "target_reached" and summary["reached"]["episodes"] == 8


BAD = [
    (["--modules", "reach,fly"], "fly"),
    (["--modules", "reach,reach"], "twice"),
    (["--modules", ""], "--modules"),
    (["--batch-size", "1"], "--batch-size 1: must be at least the number of modules, 2"),
    (["--num-envs", "0"], "--num-envs 0: must be"),
    (["--num-envs", "-4"], "--num-envs -4: must be"),
    (["--episodes", "-1"], "--episodes -1"),
    (["--capacity", "0"], "--capacity 0"),
    (["--num-seeds", "0"], "--num-seeds 0"),
    (["--distractors", "-1"], "--distractors -1"),
    (["--seed", "-1"], "--seed -1"),
    (["--epsilon", "nan"], "--epsilon nan: must be between 0 and 1"),
    (["--target-success", "1.5"], "--target-success 1.5"),
    (["--algorithm", "sarsa"], "--algorithm sarsa: must be one of curious, muvfa"),
    (["--preset", "tpu"], "--preset tpu"),
    (["--estimator", "elo"], "--estimator elo: must be one of competence, ema"),
    (["--estimator", "a b"], "--estimator a b: must be one of competence, ema"),
    (["--goals", "hard"], "--goals hard: must be one of uniform, alp-gmm"),
    (["--order", "reach"], "--order reach: must be left out without --estimator order"),
    (["--estimator", "order", "--order", "pnp"], "--order pnp: must be each once, among reach, push"),
    (["--algorithm", "her", "--goals", "riac"], "--goals riac: must be uniform with --algorithm her; leave it out"),
    (["--algorithm", "mgme", "--estimator", "plr"], "--estimator plr: must be competence with --algorithm mgme"),
    (["--algorithm", "muvfa", "--estimator", "plr"], "--estimator plr: must be competence where neither"),
    (["--cvar-goals", "1"], "--cvar-goals 1: must be a whole number between 10 and 10000"),
    (["--learning-rate", "1"], "--learning-rate: no such option"),
    (["--capacity", "1e9"], "GiB"),
    (["--episodes", "1e400"], "--episodes"),
    (
        ["--updates-per-cycle", "1e18"],
        "--updates-per-cycle 1000000000000000000: must be a whole number of 1 or more, at most 1000000000",
    ),
    (["--seed", "a\nb"], "--seed a b: must be a whole number"),
]


@pytest.mark.parametrize("argv, mentions", BAD, ids=[" ".join(a) for a, _ in BAD])
def test_bad_input_is_one_line_and_writes_nothing(refuse, argv, mentions):
    line = refuse(train, "--world", "point", "--modules", "reach,push", "--preset", "cpu", *argv)
    assert line.startswith("error: --") and mentions in line


BAD_FETCH = [
    (["--modules", "reach,fly"], "fly"),
    (["--modules", "stack1on1"], "stack1on1"),
    (["--modules", "push,push1"], "push"),
    (["--modules", "push0"], "push0"),
    (["--physics", "quantum"], "--physics quantum: must be one of auto, c, jax, warp"),
]


@pytest.mark.parametrize("argv, mentions", BAD_FETCH, ids=[" ".join(a) for a, _ in BAD_FETCH])
def test_bad_input_on_fetch(refuse, argv, mentions):
    line = refuse(train, *argv)
    assert line.startswith("error: --") and mentions in line


def test_warp_without_warp_lang_says_which_extra(refuse, monkeypatch):
    for name in [n for n in sys.modules if n == "warp" or n.startswith("warp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "warp", None)
    line = refuse(train, "--modules", "reach", "--physics", "warp")
    assert line.startswith("error: --physics warp") and "curious_jax[warp]" in line


def test_a_store_larger_than_memory_says_the_gib(refuse, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: (2 * memory.GIB, "free on this machine"))
    line = refuse(train, "--world", "point", "--modules", "reach", "--capacity", "10_000_000")
    assert "2.00 GiB free" in line and "lower --capacity to" in line


def test_a_folder_with_another_run_is_refused(finished_run, refuse):
    before = {p: p.stat().st_mtime_ns for p in finished_run.rglob("*")}
    line = refuse(train, "--out", finished_run)
    assert line.startswith(f"error: --out {finished_run}: holds another run")
    assert {p: p.stat().st_mtime_ns for p in finished_run.rglob("*")} == before


def test_another_package_named_envs_is_refused(refuse, monkeypatch, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "envs" / "__init__.py"
    other.parent.mkdir()
    other.write_text("")
    monkeypatch.setitem(sys.modules, "envs", SimpleNamespace(__file__=str(other)))
    line = refuse(train, "--modules", "reach")
    assert line.startswith(f"error: envs: the package at {other.parent} hides")


def test_a_diverged_run_exits_with_3(small, empty_folder, monkeypatch, capsys):
    def fit_that_diverges(*args):
        return dataclasses.replace(real(*args), status=Status.DIVERGED)

    real = fit.fit
    monkeypatch.setattr(fit, "fit", fit_that_diverges)
    assert train.main([*small, "--out", "run"]) == 3
    assert summary_of(empty_folder / "run")["status"] == "diverged"


def test_lost_contacts_end_a_run_with_one_line(small, empty_folder, monkeypatch, capsys):
    def fit_that_loses_contacts(*args):
        raise errors.OverflowedBuffers("physics ran out of contact buffers")

    monkeypatch.setattr(fit, "fit", fit_that_loses_contacts)
    assert train.main([*small, "--out", "run"]) == 1
    assert capsys.readouterr().err == "error: physics ran out of contact buffers\n"


def test_programs_say_what_is_wrong_before_they_load_jax():
    script = (
        "import sys; from curious_jax import train, evaluate, benchmark; "
        "print(train.main(['--seed', 'x']), evaluate.main(['x', '--seed', 'y']), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "2 2 False\n"


def start(*options, folder):
    command = [sys.executable, "-m", "curious_jax.train", *options, "--out", str(folder), "--episodes", "1e7"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)


def wait_for_rows(process, folder):
    for _ in range(1200):
        if (folder / "metrics.jsonl").exists() and rows_of(folder):
            return
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)
    raise TimeoutError("no evaluation within two minutes")


@pytest.mark.parametrize(
    "number, status", [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_a_signal_saves_and_exits(small, tmp_path, number, status):
    folder = tmp_path / "run"
    process = start(*small[:-1], "1", folder=folder)
    wait_for_rows(process, folder)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == status, output
    assert "again stops at once" in output
    summary, rows = summary_of(folder), rows_of(folder)
    assert summary["status"] == "interrupted"
    assert 0 <= summary["episodes"] - rows[-1]["episodes"] < 8  # not even the epoch was finished
    (state,) = (folder / "checkpoints").iterdir()
    assert state.name == f"{summary['env_steps']}" and f"--resume {folder}" in output
    assert (folder / "curves.png").exists()
    info = json.loads((folder / "policies" / "last" / "policy.json").read_text())
    assert info["episodes"] == summary["episodes"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "choice",
    [("--estimator", name) for name in ESTIMATORS[1:]] + [("--goals", name) for name in GOALS[1:]],
    ids=lambda choice: choice[1],
)
def test_every_curriculum_trains_on_the_arm(choice, tmp_path, capsys):
    given = [*golden.RUNS["fetch-curious"], *choice, "--cvar-goals", "10", "--out", str(tmp_path / "run")]
    assert train.main(given) == 0
    rows = folder.read_rows(tmp_path / "run")
    assert [row["episodes"] for row in rows] == [8, 16] and sum(row["invalid_episodes"] for row in rows) == 0
    shares = [rows[-1][f"p_module/{name}"] for name in ("reach", "push")]
    assert sum(shares) == pytest.approx(1.0) and min(shares) >= 0
    assert ("predicted/reach" in rows[-1]) == (choice[0] == "--estimator")
    assert 0 <= rows[-1]["eval/cvar/push"] <= 1 and "eval/cvar" not in rows[0]
