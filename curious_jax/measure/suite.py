"""Measures the standard table of speeds: rollouts by number of worlds, updates by batch, one seed against several.

A row that cannot be measured (a backend that is not installed, a batch that does not fit) says why and stops nothing.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from curious_jax.cli import environment
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.measure import timing
from curious_jax.run import folder as runfolder
from curious_jax.run import memory

NAME = "suite"  # .json and .md in the output folder
SEEDS = 10  # beside one, unless the config names several


def list_rows(config: TrainConfig) -> dict[str, list[int]]:
    """Lists the sizes of the table's rows, around those of the config: worlds, batches and seeds."""
    worlds, batch = config.schedule.num_envs, config.schedule.batch_size
    total = len(config.modules) + config.distractors
    return {
        "num_envs": sorted({1, max(1, worlds // 8), worlds, 4 * worlds}),
        "batch_size": sorted({max(total, batch // 4), batch, 4 * batch}),  # a transition for each module at least
        "num_seeds": [1, config.num_seeds if config.num_seeds > 1 else SEEDS],
    }


def read_rows(text: str) -> dict[str, list[int]]:
    """Reads the rows that --rows names, such as `rollouts=2048,8192;cycles=1,10`: part -> sizes.

    Raises:
      ConfigError: naming what is wrong.
    """
    found: dict[str, list[int]] = {}
    for one in text.split(";"):
        part, _, sizes = (word.strip() for word in one.partition("="))
        numbers = [size.strip() for size in sizes.split(",")]
        if part not in PARTS or not all(size.isdecimal() and int(size) > 0 for size in numbers):
            raise ConfigError(
                f"--rows {text}: must be {', '.join(PARTS)} with sizes of 1 or more, as in rollouts=64,256;cycles=1,10"
            )
        found[part] = [int(size) for size in numbers]
    return found


def run(
    config: TrainConfig,
    seconds: float,
    say: Callable[[str], Any] = print,
    wanted: dict[str, list[int]] | None = None,
    keep: Callable[[dict[str, Any]], Any] = lambda result: None,
) -> dict[str, Any]:
    """Measures rows and returns plain data.

    Args:
      seconds: how long to run each row.
      say: gets every row as it is there.
      wanted: the sizes of each part's rows, no rows for a part that is not named; None: those of `list_rows`.
      keep: gets what is known after each row.
    """
    if wanted is None:
        wanted = {part: list_rows(config)[name] for part, (_, name) in PARTS.items()}

    result: dict[str, Any] = {
        "device": jax.devices()[0].device_kind,
        "platform": jax.default_backend(),
        "jax": jax.__version__,
        "preset": config.preset,
        "modules": list(config.modules),
        **{part: [] for part in PARTS},
    }
    for part, (measure, name) in PARTS.items():
        for value in wanted.get(part, []):
            row = {name: value} | _measured(measure, config, {name: value}, seconds)
            result[part].append(row)
            say(json.dumps(runfolder.plain(row)))
            keep(runfolder.plain(result | {"memory_bytes": timing.peak_memory()}))
    return runfolder.plain(result | {"memory_bytes": timing.peak_memory()})


def _measured(
    measure: Callable[[TrainConfig, float], dict[str, Any]], config: TrainConfig, sizes: dict[str, int], seconds: float
) -> dict[str, Any]:
    """Measures one row; of one that cannot be measured, says why."""
    try:
        return measure(_change(config, **sizes), seconds)
    except Exception as error:  # out of memory, not installed, refused by the backend: worth a row, not the table
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}


def _change(config: TrainConfig, num_seeds: int = 1, **schedule: int) -> TrainConfig:
    capacity = max(config.schedule.capacity, schedule.get("num_envs", 1))
    changed = dataclasses.replace(config.schedule, **schedule, capacity=capacity)
    return dataclasses.replace(config, num_seeds=num_seeds, schedule=changed)


def _time_rollout(config: TrainConfig, seconds: float) -> dict[str, Any]:
    return timing.measure_rollouts(config, environment.make_env(config), config.schedule.num_envs, seconds)


def _time_update(config: TrainConfig, seconds: float) -> dict[str, Any]:
    env = environment.make_env(config)
    update_s, compile_s = timing.update_time(config, env, seconds)
    tflop_per_s = timing.count_flop(config, env) / update_s / 1e12
    return {"updates_per_s": 1.0 / update_s, "tflop_per_s": tflop_per_s, "compile_s": compile_s}


def _time_cycle(config: TrainConfig, seconds: float) -> dict[str, Any]:
    env = environment.make_env(config)
    memory.check(config, env)
    return timing.measure_cycles(config, env, seconds)


# What is measured, and the setting that its rows change.
PARTS: dict[str, tuple[Callable[[TrainConfig, float], dict[str, Any]], str]] = {
    "rollouts": (_time_rollout, "num_envs"),
    "updates": (_time_update, "batch_size"),
    "cycles": (_time_cycle, "num_seeds"),
}


def write(result: dict[str, Any], folder: Path) -> None:
    """Writes suite.json and suite.md into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    (folder / f"{NAME}.md").write_text(table(result) + "\n")


_COLUMNS = {
    "rollouts": ("Rollouts", ("physics", "num_envs", "physics_steps_per_s", "env_steps_per_s", "control_step_ms")),
    "updates": ("Updates, sampling and substitution included", ("batch_size", "updates_per_s", "tflop_per_s")),
    "cycles": (
        "Whole training cycles",
        ("num_seeds", "cycle_s", "train_env_steps_per_s", "updates_per_s", "times_first"),
    ),
}


def table(result: dict[str, Any]) -> str:
    """Formats the rows as Markdown."""
    lines = [f"{result['device']} ({result['platform']}), preset {result['preset']}, {', '.join(result['modules'])}"]
    for part, (title, columns) in _COLUMNS.items():
        if not result[part]:
            continue
        columns = (*columns, "compile_s")
        lines += ["", f"{title}:", "", "| " + " | ".join(columns) + " |", "|" + "---:|" * len(columns)]
        first = next((row["cycle_s"] for row in result[part] if "cycle_s" in row), None)
        for row in result[part]:
            row = row | ({"times_first": row["cycle_s"] / first} if "cycle_s" in row and first else {})
            cells = [_cell(row[c]) if c in row else "" for c in columns]
            lines.append("| " + " | ".join(cells) + " |" + (f" {row['error']}" if "error" in row else ""))
    return "\n".join([*lines, "", f"{result['memory_bytes'] / 2**30:.2f} GiB at most"])


def _cell(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
