"""Traces one training cycle and says where its time goes, by the named scopes of the program."""

import collections
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.cli import markdown
from curious_jax.config import TrainConfig
from curious_jax.learner import trainer
from curious_jax.learner.state import no_metrics, setup
from curious_jax.measure import timing
from curious_jax.run import folder as runfolder
from curious_jax.types import Env

TRACE, TABLE = "trace", "profile"  # in the profile's folder: a folder, and .json and .md
# Scopes of the program, innermost first: an operation belongs to the first that its name holds.
STAGES = {
    "physics": "control steps and observations",
    "policy": "passes of the actor, its input normalised",
    "rollout": "starts, goals, exploration, episodes put together",
    "curriculum": "modules chosen, results to LP",
    "statistics": "normaliser statistics of the new episodes",
    "store": "episodes and relevance stored",
    "sampling": "batches drawn from their modules' queues",
    "substitution": "transitions gathered, modules and goals substituted, rewards",
    "input": "normalised, masked, joined to the networks' input",
    "gradients": "losses, gradients, Adam, target averages",
}
REST = "rest"


def profile(config: TrainConfig, env: Env, seconds: float, folder: Path) -> dict[str, Any]:
    """Measures a cycle, traces one more, and writes trace, JSON and Markdown into the folder; returns plain data.

    Args:
      seconds: how long to run cycles without the trace.
    """
    run = setup(config, env.with_worlds(config.num_seeds * config.schedule.num_envs))
    state, nothing = trainer.init(config, env), no_metrics(config)
    with _names_kept():
        epoch = trainer.compile_epoch(run, state)

    def cycle() -> Any:
        nonlocal state
        state, total = epoch(state, nothing, jnp.int32(1))
        return total

    cycle_s = timing.repeat(cycle, seconds)
    with jax.profiler.trace(str(folder / TRACE)):
        jax.block_until_ready(cycle())
    measured = stages(read_operations(folder / TRACE), scopes(epoch.as_text()))
    whole, schedule = sum(measured.values()) or 1.0, config.schedule
    memory = epoch.memory_analysis()
    result = runfolder.plain(
        {
            "cycle_s": cycle_s,
            "stages": [
                {"name": name, "what": STAGES.get(name, "everything else"), "seconds": s, "share": s / whole}
                for name, s in measured.items()
            ],
            "num_envs": schedule.num_envs,
            "updates_per_cycle": schedule.updates_per_cycle,
            "batch_size": schedule.batch_size,
            "capacity": schedule.capacity,
            "update_gflop": timing.count_flop(config, env) / 1e9,
            "temporary_bytes": getattr(memory, "temp_size_in_bytes", 0),
            "modules": list(env.modules.names),
            "physics": env.physics_name,
            "device": jax.devices()[0].device_kind,
            "platform": jax.default_backend(),
            "jax": jax.__version__,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{TABLE}.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    (folder / f"{TABLE}.md").write_text(table(result) + "\n")
    return result


@contextlib.contextmanager
def _names_kept() -> Iterator[None]:
    """Keeps JAX's compilation cache from giving the program of another version, whose scopes had other names."""
    setting = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, setting)
    jax.config.update(setting, True)
    try:
        yield
    finally:
        jax.config.update(setting, before)


def scopes(program: str) -> dict[str, str]:
    """Reads a compiled program's text: {operation: its name with all scopes, such as jit(f)/while/body/store/add}."""
    return dict(re.findall(r"%?([\w.\-]+) = [^\n]*?metadata=\{[^}\n]*?op_name=\"([^\"]+)\"", program))


def read_operations(folder: Path) -> Iterable[list[tuple[float, float, str]]]:
    """Reads the operations in a trace: for each thread or stream a list of (start, end, operation), in seconds."""
    path = max(folder.glob("plugins/profile/*/*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            found = []
            for event in line.events:
                operation = dict(event.stats).get("hlo_op")
                if operation is not None:
                    start = 1e-9 * event.start_ns
                    found.append((start, start + 1e-9 * event.duration_ns, str(operation)))
            if found:
                yield found


def stages(lines: Iterable[list[tuple[float, float, str]]], names: dict[str, str]) -> dict[str, float]:
    """Adds up operations to {stage: seconds} over all threads, longest first; each second counts once."""
    total: dict[str, float] = collections.defaultdict(float)
    for line in lines:
        open_calls: list[tuple[float, str]] = []
        for start, end, operation in sorted(line, key=lambda event: (event[0], -event[1])):
            while open_calls and open_calls[-1][0] <= start:
                open_calls.pop()
            if open_calls:
                total[open_calls[-1][1]] -= end - start
            parts = names.get(operation, "").split("/")
            stage = next((stage for stage in STAGES if stage in parts), REST)
            total[stage] += end - start
            open_calls.append((end, stage))
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def table(result: dict[str, Any]) -> str:
    """Formats the stages as Markdown."""
    head = (
        f"{result['device']} ({result['platform']}), physics {result['physics']}, {', '.join(result['modules'])}; "
        f"{result['num_envs']} envs, {result['updates_per_cycle']} updates of {result['batch_size']} "
        f"({result['update_gflop']:.2f} GFLOP each), store of {result['capacity']:,} episodes; "
        f"{1e3 * result['cycle_s']:,.1f} ms a cycle without the trace"
    )
    rows = ([s["name"], s["what"], f"{1e3 * s['seconds']:,.1f}", f"{100 * s['share']:.1f} %"] for s in result["stages"])
    heads = ("stage", "what", "ms in the traced cycle", "share")
    return f"{head}\n\n{markdown.table(heads, rows, numbers=2)}"
