"""How much memory a run takes, worked out before any of it is allocated."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from curious_jax import replay
from curious_jax.config import ConfigError, TrainConfig

GIB = 2**30
PROGRAM = GIB // 2  # JAX, compiled programs, Python; measured 0.4 to 0.6 GiB on the CPU
KEEP_FREE = 0.95  # share of the memory there that a run may take


@dataclass(frozen=True)
class Need:
    """Bytes, all seeds together."""

    store: int  # the episode store
    buffers: int  # one cycle's episodes and minibatch, networks and the program itself

    @property
    def total(self) -> int:
        """All of it."""
        return self.store + self.buffers


def need(config: TrainConfig, env: Any) -> Need:
    """What a run allocates.

    Args:
      env: gives the sizes of an episode.
    """
    schedule, modules = config.schedule, env.modules
    sizes = (env.episode_length, env.obs_size, env.action_size, modules.goal_size, modules.num_modules)
    store = replay.bytes_needed(schedule.capacity, *sizes)
    # A cycle's episodes exist as the rollout's steps, as whole episodes and as normaliser samples.
    episodes = 3 * replay.bytes_needed(schedule.num_envs, *sizes)
    inputs = env.obs_size + modules.goal_size + modules.num_modules + env.action_size
    activations = 8 * (config.network.hidden_layers + 1) * config.network.hidden_size
    batch = 4 * schedule.batch_size * (4 * inputs + activations)
    weights = config.network.hidden_size * (inputs + config.network.hidden_size * config.network.hidden_layers)
    networks = 4 * 2 * 5 * weights  # actor and critic: weights, targets, two Adam moments, gradients
    return Need(config.num_seeds * store, config.num_seeds * (episodes + batch + networks) + PROGRAM)


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
      ConfigError: when that is more than there is, saying what to lower.
    """
    needed, (there, where) = need(config, env), available()
    capacity, seeds = config.schedule.capacity, config.num_seeds
    if needed.total > KEEP_FREE * there:
        room = KEEP_FREE * there - needed.buffers
        per_episode = needed.store / capacity
        fits = int(room / per_episode)
        lower = f"--capacity to {fits} or less" if fits >= config.schedule.num_envs else "--num-envs and --capacity"
        also = f" (or --num-seeds {seeds})" if seeds > 1 else ""
        sizes = f"needs {needed.total / GIB:.2f} GiB, {there / GIB:.2f} GiB {where}"
        raise ConfigError(f"--capacity {capacity}: {sizes}; lower {lower}{also}")
    return (
        f"memory: {needed.store / GIB:.2f} GiB for {capacity} episodes{f' x {seeds} seeds' if seeds > 1 else ''}, "
        f"{needed.total / GIB:.2f} GiB in all, {there / GIB:.2f} GiB {where}"
    )
