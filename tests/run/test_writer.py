"""States written two at once, and by a program that is killed."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from curious_jax.run import checkpoints, manifest, writer

ROOT = Path(__file__).parents[2]

# Two at once.

SIDE_BY_SIDE = """
import faulthandler, sys
from pathlib import Path
faulthandler.dump_traceback_later(int(sys.argv[1]), exit=True)  # says where it hung
import numpy as np
from curious_jax import config as configs
from curious_jax.run import policies, writer
folder, times = Path(sys.argv[2]), int(sys.argv[3])
config = configs.make_config(world="point", modules=("reach", "push"))
tree = {"x": [np.full((50, 50), 1.0)] * 10}
writers = [writer.Writer(folder / "a"), writer.Writer(folder / "b")]
for number in range(times):
    for one in writers:
        one.start(number, tree, {"number": number})
    for name in ("last", "best"):
        policies.save(folder / "policies" / name, tree, config, {"episodes": number})
for one in writers:
    one.close()
print("all done")
"""


def side_by_side(tmp_path, times, seconds):
    argv = [sys.executable, "-c", SIDE_BY_SIDE, str(seconds), str(tmp_path), str(times)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=seconds + 60)
    assert done.returncode == 0 and done.stdout == "all done\n", done.stderr
    for name in ("a", "b"):
        assert len(checkpoints.states(tmp_path / name)) == times
        for path in checkpoints.states(tmp_path / name):
            manifest.verify(path, writer.PARTS)


def test_policies_and_states_are_written_side_by_side(tmp_path):
    side_by_side(tmp_path, 10, 120)


@pytest.mark.slow
def test_policies_and_states_are_written_side_by_side_many_times(tmp_path):
    side_by_side(tmp_path, 300, 900)


# Killed.

WRITING = """
import itertools, sys, numpy as np
from pathlib import Path
from curious_jax.run import checkpoints, files, writer
one = writer.Writer(Path(sys.argv[1]))
for number in itertools.count(1):
    tree = {"x": np.full((1000, 1000), float(number)), "y": [np.full(100, number)] * 20}
    print(number, flush=True)
    one.start(number, tree, {"number": number})
    one.wait()
    for old in checkpoints.states(Path(sys.argv[1]))[:-1]:
        files.remove(old)
"""


@pytest.mark.slow
def test_a_kill_while_writing_leaves_a_whole_checkpoint(tmp_path):
    import orbax.checkpoint as ocp

    random = np.random.default_rng(1)
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITING, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        while int(process.stdout.readline()) < 3:
            pass
        time.sleep(random.uniform(0, 0.3))
        process.kill()
        process.wait()
        writer.clean(folder)
        assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in checkpoints.states(folder))
        last = checkpoints.states(folder)[-1]
        manifest.verify(last, writer.PARTS)
        number = json.loads((last / "info" / "metadata").read_text())["number"]
        with ocp.StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore(last / "state")
        assert last.name == str(number) and number >= 2
        assert np.all(tree["x"] == number) and all(np.all(y == number) for y in tree["y"])
