"""What the tests of experiments share: hand-made tables and cells' folders."""

import json
from pathlib import Path

import pandas as pd

from curious_jax import config as configs
from experiments import ablation, architectures, curricula, distractors, learning_progress, perturbation, scaling, sweep
from experiments.engine.evaluations import list_due
from experiments.engine.grid import Condition

EXPERIMENTS = {m.EXPERIMENT.name: m.EXPERIMENT for m in (
    ablation, architectures, curricula, distractors, learning_progress, perturbation, scaling, sweep)}  # fmt: skip

# A cell of a second or two, compilation aside.
TINY = (
    *("--world", "point", "--preset", "cpu", "--modules", "reach,push", "--num-envs", "4", "--episodes", "16"),
    *("--updates-per-cycle", "2", "--batch-size", "12", "--capacity", "32", "--evaluation-interval", "8"),
    *("--evaluation-episodes", "10", "--hidden-size", "8", "--hidden-layers", "1"),
)
TWO_EVALUATIONS = dict(num_envs=10, episodes=20, evaluation_interval=10)


def condition(**settings):
    """A condition on the probe with evaluations at 10 and 20 episodes, labelled by the settings given."""
    common = {"world": "point", "modules": ("reach", "push"), "preset": "cpu", **TWO_EVALUATIONS}
    return Condition(settings, {**common, **settings})


def row(episodes, success, seed=0, status="done", **labels):
    """A row of the table."""
    return {**labels, "seed": seed, "status": status, "episodes": episodes, "eval/success": success}


def records(table):
    """A table as dicts, without what a row lacks."""
    return [{key: value for key, value in row.items() if pd.notna(value)} for row in table.to_dict("records")]


def curve(values, seed=0, step=100, status="done", **labels):
    """A seed's rows, an evaluation every `step` episodes from `step` on."""
    return [row(step * (i + 1), value, seed, status, **labels) for i, value in enumerate(values)]


def make_cell(cell, out, status="completed", rows=None, states=()):
    """A cell's folder as curious_jax.train leaves it, without its policies.

    Args:
      status: of summary.json; None for none.
      rows: evaluations; None for all.
      states: names of whole checkpoints.
    """
    folder = Path(cell.folder(out))
    folder.mkdir(parents=True)
    config = cell.condition.config(cell.first, cell.count)
    (folder / "config.json").write_text(json.dumps(configs.to_dict(config)))
    with open(folder / "metrics.jsonl", "w") as file:
        for episodes in list_due(config)[:rows]:
            for seed in cell.seeds:
                one = {"episodes": episodes, "env_steps": 20 * episodes, "updates": episodes, "wall_s": 1.5}
                one |= {"eval/success": 0.1 * seed + 0.01 * episodes, "train/critic_loss": 1.0, "p_module/reach": 0.5}
                file.write(json.dumps(one | ({"seed": seed} if cell.count > 1 else {})) + "\n")
    if status:
        (folder / "summary.json").write_text(json.dumps({"status": status}))
    for name in states:
        (folder / "checkpoints" / name).mkdir(parents=True)
    return folder
