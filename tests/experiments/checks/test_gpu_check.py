"""The visit to a GPU: its order and its figures, and the whole of it rehearsed on a CPU, small, with warp physics."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from experiments.checks import gpu_visit

SCRIPT = Path(__file__).parents[3] / "experiments" / "checks" / "gpu_check.sh"
SMALL = "--num-envs 4 --updates-per-cycle 2 --batch-size 16 --capacity 100 --episodes 8 --evaluation-episodes 4 "
SMALL += "--evaluation-interval 8"
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
needs_warp = pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")


def check(out, *options, cwd=None, **settings):
    """Runs the script with this interpreter as its python3; its status and the lines it says."""
    tools = out.parent / "bin"
    tools.mkdir(exist_ok=True)
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    env = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", **settings}
    done = subprocess.run(["bash", str(SCRIPT), str(out), *options], env=env, capture_output=True, text=True, cwd=cwd)
    return done.returncode, done.stdout


def test_what_tells_most_is_measured_first(tmp_path):
    parts = gpu_visit.plan(tmp_path, gpu_visit.Sizes(), "GPU 0: NVIDIA H200 (UUID: GPU-0)")
    names = [part.name for part in parts]
    assert names[0] == "parity" and names[5:9] == ["physics", "train-gpu-0", "seeds", "train-wide-0"]
    assert all(name.startswith("updates-") for name in names[1:5]) and len(set(names)) == len(names)
    assert names[9:] == ["train-gpu-1", "train-wide-1", "train-gpu-2", "train-wide-2", "floors-updates",
                          "floors-warp", "profile"]  # fmt: skip
    flags = {part.env["JAX_DEFAULT_MATMUL_PRECISION"] + part.env.get("XLA_FLAGS", "") for part in parts[1:5]}
    assert len(flags) == 4
    rows = parts[5].command
    assert rows[rows.index("--rows") + 1] == "rollouts=2048,4096,8192,16384,32768"
    assert "h200" in parts[-2].command
    slow = gpu_visit.plan(tmp_path, gpu_visit.Sizes(patience=2.0))
    assert slow[0].seconds == 2 * parts[0].seconds
    for card, floors in (
        *(("NVIDIA L4", 0), ("NVIDIA H100 PCIe", 0), ("NVIDIA GH200 480GB", 0), ("NVIDIA A100-PCIE-40GB", 0)),
        *(("NVIDIA H100 80GB HBM3", 2), ("NVIDIA A100-SXM4-80GB", 2), ("NVIDIA H200 NVL", 0)),
    ):  # another card of the name has another bandwidth
        parts = gpu_visit.plan(tmp_path, gpu_visit.Sizes(), f"GPU 0: {card} (UUID: GPU-0)")
        assert sum(part.name.startswith("floors") for part in parts) == floors, card


def test_a_part_that_fails_or_takes_too_long_stops_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_visit, "LEAST", 0.1)
    part = gpu_visit.Part
    parts = [part("bad", 20, ("json.nothing",)), part("long", 0.5, ("http.server", "0", "--bind", "127.0.0.1")),
             part("training", 0.5, ("http.server", "0", "--bind", "127.0.0.1"), leaves=tmp_path / "bad.log"),
             part("lost", 0.5, ("http.server", "0", "--bind", "127.0.0.1"), leaves=tmp_path / "summary.json"),
             part("good", 20, ("json.tool", "--help"), {"SEEN": "1"})]  # fmt: skip
    seen = []
    went = gpu_visit.visit(tmp_path, parts, 60, lambda now: seen.append(len(now)))
    assert [row["status"].partition(":")[0] for row in went] == ["failed", "failed", "cut", "failed", "done"]
    assert seen == [1, 2, 3, 4, 5] and "usage" in (tmp_path / "good.log").read_text()
    assert "bad: failed" in capsys.readouterr().out
    [late] = gpu_visit.visit(tmp_path, parts[:1], 0, lambda now: None)
    assert late["status"] == "no time left"


def test_the_figures_stand_beside_the_goals(tmp_path):
    def leave(name, **values):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(values))

    leave("parity.json", agrees=True)
    leave("updates-tf32-on-buffers-off/suite.json", updates=[{"batch_size": 4096, "updates_per_s": 6000.0}])
    leave(
        "updates-tf32-off-buffers-as-XLA-chooses/suite.json",
        updates=[{"batch_size": 4096, "error": "MemoryError: none"}],
    )
    rows = [{"num_envs": n, "physics_steps_per_s": 1e3 * n} for n in (2048, 4096)]
    leave("physics/suite.json", device="NVIDIA H200", jax="0.10.2", rollouts=rows)
    leave("seeds/suite.json", cycles=[{"num_seeds": 1, "cycle_s": 2.0}, {"num_seeds": 10, "cycle_s": 6.0}])
    for preset, seconds in (("gpu", 100.0), ("wide", None)):
        reached = [{"train_s": 200.0}, {"train_s": seconds}] if seconds else [None, None]  # two seeds
        leave(f"train-{preset}-0/summary.json", status="target_reached" if seconds else "interrupted", reached=reached)
    (tmp_path / "train-gpu-1").mkdir()  # it never got as far as a summary
    leave("floors-warp.log", device="NVIDIA H200", launches=85.0, launch_floor_s=2e-4, kernels=70, copies=3, fills=12)
    result = {"gpu": "", **gpu_visit.gather(tmp_path, [{"part": "parity", "status": "done", "seconds": 3.0}])}
    measured = [goal["measured"] for goal in result["goals"]]
    assert measured == [4096e3, None, 6000.0, 100.0, 3.0]
    assert [run["preset"] for run in result["training"]] == ["gpu", "wide"]
    text = gpu_visit.table(result)
    assert "# NVIDIA H200" in text and "agree: yes" in text and "MemoryError" in text
    assert "| physics steps/s with 16,384 worlds, at least | 8,000,000 | not measured |" in text
    assert "200 µs" in text and "| parity | done | 3 |" in text
    nothing = gpu_visit.gather(tmp_path / "nothing", [])
    assert all(goal["measured"] is None for goal in nothing["goals"])
    assert "A GPU visit" in gpu_visit.table({"gpu": "", **nothing})


def test_bad_sizes_are_refused_in_one_line(refuse, tmp_path):
    line = refuse(gpu_visit, str(tmp_path / "out"), "--worlds", "many")
    assert line == "error: --worlds many: must be whole numbers, such as 2048,4096"
    assert not (tmp_path / "out").exists()
    (tmp_path / "gpu.json").write_text("{}")
    assert "holds an earlier visit; give a new folder" in refuse(gpu_visit, str(tmp_path))


@needs_bash
def test_packages_that_are_not_there_end_the_visit(tmp_path):
    status, said = check(tmp_path / "out", cwd=tmp_path, PACKED=str(tmp_path))
    assert status == 1 and "holds no piece.*" in said and "could not be installed" in said


@needs_bash
@pytest.mark.parametrize("name", ["PACKED", "WHEELS"])
def test_a_folder_of_packages_that_is_not_there_ends_the_visit_before_it_begins(tmp_path, name):
    status, said = check(tmp_path / "out", cwd=tmp_path, **{name: "nowhere"})
    assert status == 2 and not said and not (tmp_path / "out").exists()


@needs_bash
def test_a_visit_without_time_says_so_and_still_packs(tmp_path):
    state = tmp_path / "out" / "train-gpu-0" / "checkpoints" / "100" / "state"
    state.parent.mkdir(parents=True)
    state.write_text("large")
    status, said = check(tmp_path / "out", "--limit", "5", cwd=tmp_path)
    assert status == 1
    assert "parity: no time left" in said and "seeds: no time left" in said
    names = tarfile.open(tmp_path / "out" / "results.tgz").getnames()
    assert names.count("./summary.txt") == names.count("./gpu.json") == names.count("./gpu.md") == 1
    assert "./train-gpu-0" in names and not any("checkpoints" in name for name in names)


@needs_bash
@needs_warp
@pytest.mark.slow
def test_rehearsal_on_a_cpu(tmp_path):
    out = tmp_path / "out"
    status, said = check(
        out,
        *("--limit", "4000", "--patience", "6", "--seconds", "0.1", "--parity-worlds", "2", "--worlds", "2,4"),
        *("--batch-size", "16", "--many-seeds", "2", "--seeds", "0", f"--settings={SMALL}"),
    )
    assert status == 0, said
    result = json.loads((out / "gpu.json").read_text())
    assert result["parity"]["agrees"]
    assert {part["status"] for part in result["parts"]} == {"done"}
    rows = result["updates"] + result["physics"] + result["seeds"]
    assert len(rows) == 4 + 2 + 2 and not any("error" in row for row in rows)
    assert all(row["physics"] == "warp" for row in result["physics"])
    for run in result["training"]:
        assert (run["status"], run["physics"], run["seed"]) == ("completed", "warp", 0)
    assert {run["preset"] for run in result["training"]} == {"gpu", "wide"}
    assert json.loads((out / "profile" / "profile.json").read_text())["physics"] == "warp"
    names = tarfile.open(out / "results.tgz").getnames()
    assert "./warp-kernels.tgz" in names and "./train-gpu-0/metrics.jsonl" in names and "./gpu.md" in names
