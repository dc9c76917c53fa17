"""How much memory a run takes, worked out before any of it is allocated."""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from curious_jax.config import TrainConfig, fields_by_name
from curious_jax.errors import ConfigError
from curious_jax.learner import devices, replay
from curious_jax.settings import option_name

GIB = 2**30
PROGRAM = GIB // 2  # JAX, compiled programs, Python; measured 0.4 to 0.6 GiB on the CPU
KEEP_FREE = 0.95  # share of the memory there that a run may take


@dataclass(frozen=True)
class Need:
    """Bytes, all seeds together, by the option that decides over them; on the fullest device, or all of them on a CPU,
    where they share the machine's."""

    capacity: int  # the episode store
    num_envs: int  # one cycle's episodes, and the worlds' physics buffers
    evaluation_episodes: int  # one evaluation's, and its worlds' buffers
    batch_size: int  # a minibatch, its activations and gradients
    hidden_size: int  # actor and critics (of every expert): weights, targets, Adam moments, gradients
    updates_per_cycle: int  # their random keys
    window: int  # self-evaluation results
    checkpoint_minutes: int  # on a CPU: a copy of the store while a checkpoint is written

    @property
    def total(self) -> int:
        """All of it, and the program itself."""
        return sum(dataclasses.astuple(self)) + PROGRAM


def need(config: TrainConfig, env: Any) -> Need:
    """What a run allocates.

    Args:
      env: gives the sizes of an episode and of a world's physics buffers.
    """
    number = devices.count(config.devices)
    on_cpu = jax.default_backend() == "cpu"
    copies, shares = (number, 1) if on_cpu else (1, number)  # of what all hold, of what they split
    schedule, modules, network = config.schedule, env.modules, config.network
    sizes = (env.episode_length, env.obs_size, env.action_size, modules.goal_size, modules.num_modules)
    episode = replay.bytes_needed(1, *sizes)
    inputs = env.obs_size + modules.goal_size + modules.num_modules + env.action_size
    activations = 8 * (network.hidden_layers + 1) * network.hidden_size
    weights = network.hidden_size * (inputs + network.hidden_size * network.hidden_layers)
    networks = 3 if config.learner == "td3" else 2
    experts = modules.num_modules if config.algorithm == "mgme" else 1
    physics = getattr(env, "physics_bytes_per_world", 0)
    parts = Need(
        capacity=copies * schedule.capacity * episode,
        # As the rollout's steps, as whole episodes and as normaliser samples.
        num_envs=schedule.num_envs * (3 * copies * episode + physics // shares),
        evaluation_episodes=schedule.evaluation_episodes * (2 * copies * episode + physics // shares),
        batch_size=4 * schedule.batch_size * (4 * inputs + activations) // shares,
        hidden_size=4 * copies * networks * experts * 5 * weights,
        updates_per_cycle=16 * schedule.updates_per_cycle,
        window=16 * config.curriculum.window * modules.num_modules,
        checkpoint_minutes=schedule.capacity * episode if on_cpu else 0,
    )
    return Need(*(config.num_seeds * part for part in dataclasses.astuple(parts)))


def available() -> tuple[int, str]:
    """(bytes free for a run, where): the accelerator's if JAX uses one, else this machine's."""
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0), f"on {device.device_kind}"
    return _host_available(), "free on this machine"


def _host_available() -> int:
    """MemAvailable, or less inside a container with a limit; physical memory where /proc is not there."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
    except OSError:
        pass
    found.extend(_container_available())
    return max(0, min(found))


def _container_available() -> list[int]:
    """What a cgroup leaves, page cache not counted as used; empty where there is no limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return [limit - used + int(stat.get("file", 0))]
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return []


def check(config: TrainConfig, env: Any) -> str:
    """One line saying what the run takes.

    Raises:
      ConfigError: when that is more than there is, naming the option that takes most and what to lower.
    """
    needed, (there, where) = need(config, env), available()
    capacity, seeds = config.schedule.capacity, config.num_seeds
    if needed.total > KEEP_FREE * there:
        option, value, advice = _culprit(config, needed, KEEP_FREE * there)
        sizes = f"needs {needed.total / GIB:.2f} GiB, {there / GIB:.2f} GiB {where}"
        raise ConfigError(f"{option} {value}: {sizes}; lower {advice}")
    number = devices.count(config.devices)
    times = (f" x {seeds} seeds" if seeds > 1 else "") + (f" on each of {number} devices" if number > 1 else "")
    worlds = getattr(env, "physics_bytes_per_world", 0) * config.schedule.num_envs * seeds
    physics = f"{worlds / GIB:.2f} GiB for {env.physics_name} physics, " if worlds else ""
    return (
        f"memory: {needed.capacity / GIB:.2f} GiB for {capacity} episodes{times}, {physics}"
        f"{needed.total / GIB:.2f} GiB in all, {there / GIB:.2f} GiB {where}"
    )


def _culprit(config: TrainConfig, needed: Need, room: float) -> tuple[str, int, str]:
    """(option, its value, what to lower) of a run that does not fit."""
    parts = dataclasses.asdict(needed)
    name = max(parts, key=lambda part: parts[part])
    group, _ = fields_by_name()[name]
    option, value = option_name(name), getattr(getattr(config, str(group)), name)
    part = parts[name] + (parts["checkpoint_minutes"] if name == "capacity" else 0)
    fits = int((room - needed.total + part) / part * value)
    advice = f"{option} to {fits} or less" if fits >= 1 and name == "capacity" else option
    if config.num_seeds > 1:
        advice += f", or --num-seeds (now {config.num_seeds})"
    return option, value, advice
