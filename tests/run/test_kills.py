"""Programs killed at any moment: what is resumed or done again ends as if nothing had been; many short runs all end."""

import importlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from helpers import lives
from helpers.runs import assert_same_files, assert_same_run
from helpers.small import SMALL

from curious_jax import train
from curious_jax.run import checkpoints as saver
from curious_jax.run import folder as runfolder

ROOT = Path(__file__).parents[2]
PATIENCE = 900  # seconds for a life of about five, on a machine with other work
COMMAND = [sys.executable, "-m", "curious_jax.train"]
# Cycles of 4 episodes; a checkpoint after each of them, if none is under way.
PROBE = [*SMALL, "--distractors", "1", "--episodes", "24", "--checkpoint-episodes", "4"]
AIMED = [*PROBE, "--num-seeds", "2", "--target-success", "0.1"]
FETCH = [
    *("--modules", "reach", "--preset", "cpu", "--num-envs", "4", "--updates-per-cycle", "2", "--batch-size", "8"),
    *("--capacity", "32", "--evaluation-interval", "8", "--evaluation-episodes", "4", "--hidden-size", "8"),
    *("--hidden-layers", "1"),
]


class Scene(NamedTuple):
    """A program's life to be cut short, and how it is lived again."""

    program: str
    argv: tuple  # RUN stands for the folder
    again: tuple
    given: str = ""  # the scene whose end is the folder's beginning
    kills: int = 0


SCENES = {
    "train": Scene("train", (*PROBE, "--out", "RUN"), ("--resume", "RUN"), kills=34),
    "target": Scene("train", (*AIMED, "--out", "RUN"), ("--resume", "RUN"), kills=12),
    "resume": Scene("train", ("--resume", "RUN", "--episodes", "40"), (), "train", kills=20),
    "evaluate": Scene("evaluate", ("RUN", "--episodes", "2", "--json"), (), "train", kills=12),
    "play": Scene("play", ("RUN", *"--rounds 1 --episodes 1 --size 64x64".split()), (), "train", kills=8),
    "report": Scene("report", ("RUN",), (), "train", kills=8),
    "export": Scene("export", ("RUN", "RUN/policies/mine"), (), "train", kills=6),
}
KILLS = [(name, k) for name, scene in SCENES.items() for k in range(scene.kills)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A function of a scene's name: (folder at the undisturbed end, seconds, how often the program wrote)."""
    made = {}

    def make(name):
        if name not in made:
            scene, folder = SCENES[name], tmp_path_factory.mktemp(name)
            if scene.given:
                shutil.copytree(make(scene.given)[0], folder / "run")
            began = time.monotonic()
            status, writes = lives.whole(scene.program, typed(scene.argv, folder), folder / "log", PATIENCE)
            assert status == 0, (folder / "log").read_text()
            made[name] = folder / "run", time.monotonic() - began, writes
        return made[name]

    return make


def typed(argv, folder):
    return [part.replace("RUN", str(folder / "run")) for part in argv]


@pytest.mark.slow
@pytest.mark.parametrize("name,attempt", KILLS)
def test_killed_at_any_moment(undisturbed, tmp_path, name, attempt):
    """Half of the moments are drawn from the life's time, half from its writes, where most can break."""
    scene, random = SCENES[name], np.random.default_rng([attempt, *name.encode()])
    whole, seconds, writes = undisturbed(name)
    number = signal.SIGKILL if attempt % 3 else random.choice([signal.SIGTERM, signal.SIGINT])
    run, log = tmp_path / "run", tmp_path / "log"
    if scene.given:
        shutil.copytree(undisturbed(scene.given)[0], run)
    if attempt % 2:
        process = lives.begin(scene.program, typed(scene.argv, tmp_path), log, random.integers(1, writes + 1), number)
    else:
        process = lives.begin(scene.program, typed(scene.argv, tmp_path), log)
        process.join(random.uniform(0, seconds))
        if process.is_alive():
            lives.kill(process, number)
    process.join(PATIENCE)
    assert process.exitcode in {0, -number, 128 + number}, log.read_text()
    again = scene.again or scene.argv
    if not (run / runfolder.CONFIG).exists():  # nothing has begun
        assert not [path for path in run.rglob("*") if path.is_file() and path.stat().st_size], list(run.rglob("*"))
        shutil.rmtree(run, ignore_errors=True)
        again = scene.argv
    if name == "export":
        shutil.rmtree(run / "policies" / "mine", ignore_errors=True)
    main = importlib.import_module(f"curious_jax.{scene.program}").main
    assert main(typed(again, tmp_path)) == 0
    runfolder.clean(run)  # as --resume does
    assert_same_files(whole, run)
    shutil.rmtree(tmp_path)


def test_there_are_a_hundred_kills():
    assert len(KILLS) == 100


# A power cut leaves what is on the disk: on a disk of its own, whose image is copied while the run trains.


@pytest.fixture
def disk(tmp_path):
    """A function that mounts a file system's image, made if it is not there, on a folder."""
    mounted = []

    def mount(image, on):
        if not image.exists():
            with open(image, "wb") as file:
                file.truncate(64 * 2**20)
            subprocess.run(["mkfs.ext4", "-q", image], check=True)
        on.mkdir()
        if subprocess.run(["mount", "-o", "loop", image, on]).returncode:
            pytest.skip("needs a user who may mount, and loop devices")
        mounted.append(on)
        return on

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.slow
def test_a_power_cut_leaves_a_run_that_ends_as_if_nothing_had_been(undisturbed, disk, tmp_path):
    whole, seconds, _ = undisturbed("train")
    images, seen = [tmp_path / f"image-{k}" for k in range(12)], {"resumed": 0, "begun again": 0}
    folder = disk(tmp_path / "image", tmp_path / "disk")
    process = lives.begin("train", typed(SCENES["train"].argv, folder), tmp_path / "log")
    wait_until(process, (folder / "run").exists)
    for image in images:
        time.sleep(seconds / len(images) / 1.5)
        lives.kill(process, signal.SIGSTOP)
        shutil.copyfile(tmp_path / "image", image)
        lives.kill(process, signal.SIGCONT)
    process.join(PATIENCE)
    for number, image in enumerate(images):
        folder = disk(image, tmp_path / str(number))
        kept = saver.states(folder / "run" / "checkpoints")
        begun = (folder / "run" / runfolder.CONFIG).exists()
        if not begun:
            assert not kept
            shutil.rmtree(folder / "run", ignore_errors=True)
        seen["resumed" if kept else "begun again"] += 1
        argv = SCENES["train"].again if begun else SCENES["train"].argv
        assert train.main(typed(argv, folder)) == 0
        assert_same_files(whole, folder / "run")
    print(seen)
    assert seen["resumed"]


def wait_until(process, condition):
    end = time.monotonic() + PATIENCE
    while not condition() and process.is_alive():
        assert time.monotonic() < end, "nothing was written in time"
        time.sleep(0.01)


def run(*argv):
    done = subprocess.run([*COMMAND, *map(str, argv)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_two_epochs_and_two_more_on_fetch_are_four(tmp_path):
    run(*FETCH, "--episodes", 32, "--out", tmp_path / "a")
    run(*FETCH, "--episodes", 16, "--out", tmp_path / "b")
    run("--resume", tmp_path / "b", "--episodes", 32)
    assert_same_run(tmp_path / "a", tmp_path / "b")


TWENTY = """
import faulthandler, sys
faulthandler.dump_traceback_later(int(sys.argv[1]), exit=True)  # says where it hung
from curious_jax import train
for number in range(20):
    assert train.main([*sys.argv[3:], "--seed", str(number), "--out", f"{sys.argv[2]}/{number}"]) == 0
print("all done")
"""


@pytest.mark.slow
def test_twenty_runs_with_evaluation_in_one_process(tmp_path):
    """On the arm, whose physics calls back to the host: none hangs."""
    seconds = 1800
    argv = [sys.executable, "-c", TWENTY, str(seconds), str(tmp_path), *FETCH, "--episodes", "16"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0 and done.stdout.endswith("all done\n"), done.stderr
    assert len(list(tmp_path.glob("*/summary.json"))) == 20


def test_a_run_killed_before_its_first_checkpoint_begins_anew(small, tmp_path, monkeypatch, capsys):
    class Killed(BaseException):
        pass

    def killed(*args):
        raise Killed

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("curious_jax.fit.fit", killed)
        with pytest.raises(Killed):
            train.main([*small, "--distractors", "1", "--out", str(folder)])
    assert not saver.states(folder / "checkpoints") and (folder / "metrics.jsonl").read_text() == ""
    assert train.main(["--resume", str(folder)]) == 0
    assert "from the beginning, since nothing was saved yet" in capsys.readouterr().out
    assert train.main([*small, "--distractors", "1", "--out", str(tmp_path / "whole")]) == 0
    assert_same_run(tmp_path / "whole", folder)
