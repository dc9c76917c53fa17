"""What the tests of experiments share: hand-made tables and cells' folders."""

import json
from pathlib import Path

from experiments.engine.grid import Condition

# A cell of a second or two, compilation aside.
TINY = (
    *("--world", "point", "--preset", "cpu", "--modules", "reach,push", "--num-envs", "4", "--episodes", "16"),
    *("--updates-per-cycle", "2", "--batch-size", "12", "--capacity", "32", "--evaluation-interval", "8"),
    *("--evaluation-episodes", "10", "--hidden-size", "8", "--hidden-layers", "1"),
)


def condition(**settings):
    """A condition on the probe, labelled by the settings given."""
    return Condition(settings, {"world": "point", "modules": ("reach", "push"), "preset": "cpu", **settings})


def row(episodes, success, seed=0, status="done", **labels):
    """A row of the table."""
    return {**labels, "seed": seed, "status": status, "episodes": episodes, "eval/success": success}


def curve(values, seed=0, step=100, status="done", **labels):
    """A seed's rows, an evaluation every `step` episodes from `step` on."""
    return [row(step * (i + 1), value, seed, status, **labels) for i, value in enumerate(values)]


def make_run(folder, seed=0, num_seeds=1, status="completed", rows=2, states=()):
    """A run's folder as curious_jax.train leaves it, without its policies.

    Args:
      status: of summary.json; None for none.
      rows: evaluations, every 10 episodes.
      states: names of whole checkpoints.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    with open(folder / "metrics.jsonl", "w") as file:
        for episodes in range(10, 10 * rows + 10, 10):
            for s in range(seed, seed + num_seeds):
                one = {"episodes": episodes, "env_steps": 20 * episodes, "updates": episodes, "wall_s": 1.5}
                one |= {"eval/success": 0.1 * s + 0.01 * episodes, "train/critic_loss": 1.0, "p_module/reach": 0.5}
                file.write(json.dumps(one | ({"seed": s} if num_seeds > 1 else {})) + "\n")
    if status:
        (folder / "summary.json").write_text(json.dumps({"status": status}))
    for name in states:
        (folder / "checkpoints" / name).mkdir(parents=True)
    return folder
