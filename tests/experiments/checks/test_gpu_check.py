"""The visit to a GPU, rehearsed on a CPU: small, but all of it, with warp physics."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "experiments" / "checks" / "gpu_check.sh"
SMALL = "--num-envs 4 --updates-per-cycle 2 --batch-size 16 --capacity 100"
needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")


def visit(out, **settings):
    """Runs the script with this interpreter as its python3; its status and the lines it says."""
    tools = out.parent / "bin"
    tools.mkdir(exist_ok=True)
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", **settings}
    done = subprocess.run(["bash", str(SCRIPT), str(out)], env=env, capture_output=True, text=True)
    return done.returncode, done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_visit_without_time_says_so_and_still_packs(tmp_path):
    status, said = visit(tmp_path / "out", LIMIT="5")
    assert status == 1
    assert "== parity: skipped, no time left" in said and "== suite: skipped" in said
    assert tarfile.open(tmp_path / "out" / "results.tgz").getnames().count("./summary.txt") == 1


@needs_warp
@pytest.mark.slow
def test_rehearsal_on_a_cpu(tmp_path):
    out = tmp_path / "out"
    status, said = visit(
        out,
        LIMIT="2500",
        TRAIN_SECONDS="600",
        PROFILE_SECONDS="600",  # the part that a busy machine makes longest
        SUITE_SECONDS="900",
        PRESET="cpu",
        WORLDS="2",
        SEEDS="0 1",
        TRAIN_ARGS=f"{SMALL} --episodes 8 --evaluation-episodes 4 --evaluation-interval 8",
        PROFILE_ARGS=f"{SMALL} --seconds 0.1",
        SUITE_ARGS=f"{SMALL} --seconds 0.1 --physics warp --num-seeds 2",
    )
    assert status == 0, said
    assert json.loads((out / "parity.json").read_text())["agrees"]
    for seed in (0, 1):
        summary = json.loads((out / f"run-{seed}" / "summary.json").read_text())
        assert (summary["status"], summary["physics"], summary["seed"]) == ("completed", "warp", seed)
    assert json.loads((out / "profile" / "profile.json").read_text())["physics"] == "warp"
    suite = json.loads((out / "suite" / "suite.json").read_text())
    rows = suite["rollouts"] + suite["updates"] + suite["cycles"]
    assert len(rows) >= 6 and not any("error" in row for row in rows)
    names = tarfile.open(out / "results.tgz").getnames()
    assert "./warp-kernels.tgz" in names and "./run-1/metrics.jsonl" in names
