"""Works out how much memory a run takes before any of it is allocated."""

import contextlib
import dataclasses
import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax import config as configs
from curious_jax import evaluation
from curious_jax.config import TrainConfig, option_name
from curious_jax.errors import ConfigError
from curious_jax.learner import devices, estimators
from curious_jax.learner.state import init_one, setup
from curious_jax.types import Env

GIB = 2**30
PROGRAM = GIB // 2  # JAX, compiled programs, Python; measured 0.4 to 0.6 GiB on the CPU
MANY_CUBES = 8  # more than are meant: push99 asks for 99
KEEP_FREE = 0.95  # share of the memory there that a run may take


@dataclass(frozen=True)
class Need:
    """Estimated bytes of all seeds, each under the option that controls them.

    On accelerators they are the fullest device's; on a CPU all devices', which share the machine's memory.
    """

    capacity: int  # the episode store
    num_envs: int  # one cycle's episodes, and the worlds' physics buffers
    evaluation_episodes: int  # one evaluation's, and its worlds' buffers
    cvar_goals: int  # those that the end of a run tries, and their worlds' buffers
    batch_size: int  # a minibatch, its activations and gradients
    hidden_size: int  # actor and critics (of every expert): weights, targets, Adam moments, gradients
    updates_per_cycle: int  # their random keys
    window: int  # self-evaluation results
    checkpoint_minutes: int  # on a CPU: a copy of the store while a checkpoint is written

    @property
    def total(self) -> int:
        """All of it, and the program itself."""
        return sum(dataclasses.astuple(self)) + PROGRAM


def need(config: TrainConfig, env: Env) -> Need:
    """Estimates what a run allocates: its state as JAX will make it, and what a cycle needs beside that.

    Args:
      env: gives the sizes of an episode and of a world's physics buffers.
    """
    number = devices.count(config.devices)
    on_cpu = jax.default_backend() == "cpu"
    copies, shares = (number, 1) if on_cpu else (1, number)  # of what all hold, of what they split
    schedule, network = config.schedule, config.network
    state = jax.eval_shape(lambda: init_one(setup(config, env), jnp.uint32(0)))
    store, learner = _bytes(state.replay), _bytes((state.learner, state.average))
    episode = -(-store // schedule.capacity)
    inputs = env.obs_size + env.modules.goal_size + env.modules.num_modules + env.action_size
    activations = 8 * (network.hidden_layers + 1) * network.hidden_size
    physics = env.physics_bytes_per_world
    wants = estimators.make(config, env.modules).wants_td_errors
    # An estimator that wants TD errors sees a cycle's transitions at once, which pass through actor and critic.
    seen = env.episode_length * 4 * (4 * inputs + 2 * network.hidden_size) if wants else 0
    tried = evaluation.worst_case_worlds(schedule.cvar_goals) if schedule.cvar_goals else 0
    parts = Need(
        capacity=copies * store,
        # As the rollout's steps, as whole episodes and as normaliser samples.
        num_envs=schedule.num_envs * (3 * copies * episode + physics // shares + copies * seen),
        evaluation_episodes=schedule.evaluation_episodes * (2 * copies * episode + physics // shares),
        cvar_goals=tried * (2 * copies * episode + physics // shares),
        batch_size=4 * schedule.batch_size * (4 * inputs + activations) // shares,
        hidden_size=copies * learner * 5 // 4,  # a gradient beside weights, targets and two moments
        updates_per_cycle=16 * schedule.updates_per_cycle,
        window=copies * _bytes((state.curriculum, state.estimator, state.goals)),
        checkpoint_minutes=store if on_cpu else 0,
    )
    return Need(*(config.num_seeds * part for part in dataclasses.astuple(parts)))


def _bytes(tree: Any) -> int:
    """Sums the arrays of a tree of shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def available() -> tuple[int, str]:
    """Returns (bytes free for a run, where): on the accelerator if JAX uses one, else on this machine."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0), f"on {device.device_kind}"
    found = [
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        *_unused(),
        *_left_by_cgroups(),
        *_left_by_limits(),
    ]
    return max(0, min(found)), "free on this machine"


def _unused() -> Iterator[int]:
    """Yields Linux's own estimate, MemAvailable."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024


def _left_by_cgroups(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> Iterator[int]:
    """Yields what each of this process's memory groups leaves it, from its own to the root, of cgroups v1 and v2."""
    with contextlib.suppress(OSError):
        for line in proc.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            base = root / "memory" if controllers else root
            group = base / path.lstrip("/")  # inside a container only the root may be visible
            for folder in (group, *group.parents):
                yield from _left_by_group(folder)
                if folder == base:
                    break


def _left_by_group(folder: Path) -> Iterator[int]:
    """Yields a group's limit less what is used, page cache not counted; nothing where there is no limit."""
    for limit, used, prefix in (
        ("memory.max", "memory.current", ""),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
    ):
        with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
            most, taken = (int((folder / name).read_text()) for name in (limit, used))
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            yield most - taken + sum(int(stat.get(f"{prefix}{kind}_file", 0)) for kind in ("active", "inactive"))


def _left_by_limits() -> Iterator[int]:
    """Yields what `ulimit -v` and `ulimit -d` leave."""
    with contextlib.suppress(OSError):
        sizes = [int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in Path("/proc/self/statm").read_text().split()]
        for kind, used in ((resource.RLIMIT_AS, sizes[0]), (resource.RLIMIT_DATA, sizes[5])):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                yield limit - used


def check(config: TrainConfig, env: Env) -> str:
    """Says in one line what the run takes.

    Raises:
      ConfigError: when that is more than there is, naming the option that takes most and what to lower.
    """
    needed, (there, where) = need(config, env), available()
    capacity, seeds = config.schedule.capacity, config.num_seeds
    if needed.total > KEEP_FREE * there:
        option, value, advice = _culprit(config, needed, KEEP_FREE * there)
        blamed, advice = f"{option} {value}: needs", f"lower {advice}"
        if (cubes := env.layout.num_cubes) > MANY_CUBES:
            blamed = f"--modules {','.join(config.modules)}: {cubes} cubes need"
            advice = f"name modules of fewer cubes, or {advice}"
        raise ConfigError(f"{blamed} {needed.total / GIB:.2f} GiB, {there / GIB:.2f} GiB {where}; {advice}")
    number = devices.count(config.devices)
    times = (f" x {seeds} seeds" if seeds > 1 else "") + (f" on each of {number} devices" if number > 1 else "")
    worlds = env.physics_bytes_per_world * config.schedule.num_envs * seeds
    physics = f"{worlds / GIB:.2f} GiB for {env.physics_name} physics, " if worlds else ""
    return (
        f"memory: {needed.capacity / GIB:.2f} GiB for {capacity} episodes{times}, {physics}"
        f"{needed.total / GIB:.2f} GiB in all, {there / GIB:.2f} GiB {where}"
    )


def _culprit(config: TrainConfig, needed: Need, room: float) -> tuple[str, int, str]:
    """Returns (option, its value, what to lower) of a run that does not fit."""
    parts = dataclasses.asdict(needed)
    name = max(parts, key=lambda part: parts[part])
    if name == "window" and config.curriculum.window_span is not None:
        return option_name("window_span"), config.curriculum.window_span, option_name("window_span")
    option, value = option_name(name), configs.value(config, name)
    part = parts[name] + (parts["checkpoint_minutes"] if name == "capacity" else 0)
    fits = int((room - needed.total + part) / part * value)
    advice = f"{option} to {fits} or less" if fits >= 1 and name == "capacity" else option
    if config.num_seeds > 1:
        advice += f", or --num-seeds (now {config.num_seeds})"
    return option, value, advice
