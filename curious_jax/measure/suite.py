"""The standard table of speeds: rollouts by backend and number of worlds, updates by batch, one seed against several.

A row that cannot be measured (a backend that is not installed, a batch that does not fit) says why and stops nothing.
"""

import dataclasses
import functools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from curious_jax.cli import program
from curious_jax.config import TrainConfig
from curious_jax.measure import timing
from curious_jax.run import folder as runfolder

NAME = "suite"  # .json and .md in the output folder


@dataclass(frozen=True)
class Sizes:
    """What the table's rows are."""

    backends: tuple[str, ...]
    worlds: tuple[int, ...]
    batches: tuple[int, ...]
    seeds: tuple[int, ...]


# What a machine is asked by default; "native" physics in the small, an accelerator as wide as it gets.
SIZES = {
    "cpu": Sizes(("c",), (1, 16, 128, 512), (256, 1024, 4096), (1, 10)),
    "accelerator": Sizes(("warp",), (1, 64, 1024, 2048, 4096, 8192, 16384), (256, 4096, 16384), (1, 10, 100)),
}


def default_sizes(platform: str) -> Sizes:
    """The standard rows for this platform; other accelerators than NVIDIA's run the jax physics."""
    sizes = SIZES["cpu" if platform == "cpu" else "accelerator"]
    return dataclasses.replace(sizes, backends=("jax",)) if platform == "tpu" else sizes


def run(config: TrainConfig, sizes: Sizes, seconds: float, say: Callable[[str], Any] = print) -> dict[str, Any]:
    """Measures all rows; plain data.

    Args:
      seconds: how long to run each row.
      say: gets every row as it is there.
    """

    def row(where: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        try:
            result = where | measure()
        except Exception as error:  # out of memory, not installed, refused by the backend: worth a row, not the table
            result = where | {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
        say(json.dumps(runfolder.plain(result)))
        return result

    backends = sizes.backends if config.world == "fetch" else ("none",)
    rollouts = [
        row({"physics": physics, "num_envs": n}, functools.partial(_rollout, config, physics, n, seconds))
        for physics in backends
        for n in sizes.worlds
    ]
    updates = [row({"batch_size": b}, functools.partial(_update, config, b, seconds)) for b in sizes.batches]
    cycles = [row({"num_seeds": n}, functools.partial(_cycle, config, n, seconds)) for n in sizes.seeds]
    return runfolder.plain(
        {
            "device": jax.devices()[0].device_kind,
            "platform": jax.default_backend(),
            "jax": jax.__version__,
            "preset": config.preset,
            "modules": list(config.modules),
            "rollouts": rollouts,
            "updates": updates,
            "cycles": cycles,
            "memory_bytes": timing.peak_memory(),
        }
    )


def _with(config: TrainConfig, **schedule: int) -> TrainConfig:
    return dataclasses.replace(config, num_seeds=1, schedule=dataclasses.replace(config.schedule, **schedule))


def _rollout(config: TrainConfig, physics: str, num_envs: int, seconds: float) -> dict[str, Any]:
    config = dataclasses.replace(_with(config), physics=physics if config.world == "fetch" else "auto")
    env = program.make_env(config)
    batch_s, compile_s = timing.rollout_time(config, env, num_envs, seconds)
    env_steps_per_s = num_envs * env.episode_length / batch_s
    return {
        "env_steps_per_s": env_steps_per_s,
        "physics_steps_per_s": env_steps_per_s * env.physics_steps_per_step,
        "control_step_ms": 1e3 * batch_s / env.episode_length,
        "compile_s": compile_s,
    }


def _update(config: TrainConfig, batch_size: int, seconds: float) -> dict[str, Any]:
    config = _with(config, batch_size=batch_size)
    from curious_jax.measure.profile import update_flop

    env = program.make_env(config)
    update_s, compile_s = timing.update_time(config, env, seconds)
    tflop_per_s = update_flop(config, env) / update_s / 1e12
    return {"updates_per_s": 1.0 / update_s, "tflop_per_s": tflop_per_s, "compile_s": compile_s}


def _cycle(config: TrainConfig, num_seeds: int, seconds: float) -> dict[str, Any]:
    config = dataclasses.replace(config, num_seeds=num_seeds)
    from curious_jax.run import memory

    env = program.make_env(config)
    memory.check(config, env)
    cycle_s, compile_s = timing.cycle_time(config, env, seconds)
    schedule = config.schedule
    return {
        "cycle_s": cycle_s,
        "train_env_steps_per_s": num_seeds * schedule.num_envs * env.episode_length / cycle_s,
        "updates_per_s": num_seeds * schedule.updates_per_cycle / cycle_s,
        "compile_s": compile_s,
    }


def write(result: dict[str, Any], folder: Path) -> None:
    """suite.json and suite.md in the folder."""
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
    """The rows as Markdown."""
    lines = [f"{result['device']} ({result['platform']}), preset {result['preset']}, {', '.join(result['modules'])}"]
    for part, (title, columns) in _COLUMNS.items():
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
