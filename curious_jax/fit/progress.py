"""The record of a run between two cycles: how it begins, what a checkpoint keeps of it, and how it is continued."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax

from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import SettingError
from curious_jax.evaluation import Result
from curious_jax.learner import devices, trainer
from curious_jax.learner.state import CycleMetrics, TrainState, by_seed, for_seeds, no_metrics, one_or_all, seeds
from curious_jax.types import Env, Status

Row = dict[str, float]  # a line of metrics.jsonl
# Settings that never change a cycle: a run may continue with other ones.
FREE = (
    *("episodes", "target_success", "devices", "imports"),
    *("checkpoint_minutes", "checkpoint_episodes", "keep_checkpoints", "keep_policies", "record_every"),
)
# The fields of Progress that a checkpoint keeps as plain data beside the arrays.
SAVED = ("cycles", "invalid", "reached", "compile_s", "train_s", "wall_s", "epoch_s")


@dataclass(frozen=True)
class Progress:
    """A run between two cycles. With several seeds success figures are lists over seeds."""

    config: TrainConfig
    names: tuple[str, ...]  # achievable modules
    episode_length: int
    state: TrainState  # the next cycle's to overwrite: copy what must last
    total: CycleMetrics  # sums over the epoch under way
    invalid: tuple[int, ...]  # per seed, invalid episodes before the epoch under way
    reached: tuple[dict[str, float] | None, ...]  # per seed, when its target was confirmed
    cycles: int = 0
    compile_s: float = 0.0
    train_s: float = 0.0  # in the compiled epochs alone
    wall_s: float = 0.0
    epoch_s: float = 0.0  # in the compiled cycles of the epoch under way
    status: Status = Status.RUNNING
    results: tuple[Result, ...] = ()  # the last evaluation, per seed
    evaluated_at: int = 0  # training episodes at that evaluation
    metrics: tuple[Row, ...] = ()  # rows of the evaluation just made, one per seed; empty between evaluations
    rows: tuple[Row, ...] = ()  # all rows of this call of `fit`
    unevaluated: bool = False  # the run was shortened to end here, between two evaluations

    @property
    def episodes(self) -> int:
        """Counts the training episodes of each seed."""
        return self.cycles * self.config.schedule.num_envs

    @property
    def epoch_cycles(self) -> int:
        """Counts the cycles of the epoch under way so far, or of the one that has just ended; 0 before the first."""
        return 1 + (self.cycles - 1) % self.config.schedule.cycles_per_epoch if self.cycles else 0

    @property
    def env_steps(self) -> int:
        """Counts the environment steps of each seed."""
        return self.episodes * self.episode_length

    @property
    def updates(self) -> int:
        """Counts the gradient steps of each seed."""
        return self.cycles * self.config.schedule.updates_per_cycle

    @property
    def success(self) -> dict[str, Any]:
        """Gives {module: rate}, or {module: [rate per seed]}; nothing before the first evaluation."""
        if not self.results:
            return {}
        return {name: one_or_all(self.config, [r.rate[name] for r in self.results]) for name in self.names}

    @property
    def mean_success(self) -> Any:
        """Gives the mean over achievable modules, or a list of those over seeds; None before the first evaluation."""
        if not self.results:
            return None
        return one_or_all(self.config, [r.mean for r in self.results])

    @property
    def diverged_seeds(self) -> tuple[int, ...]:
        """Lists the seeds whose losses or learner hold a number that is not finite."""
        finite = by_seed(self.config, for_seeds(self.config, trainer.is_finite)(self.state, self.total))
        return tuple(seed for seed, fine in zip(seeds(self.config), finite, strict=True) if not fine)

    @property
    def saved(self) -> dict[str, Any]:
        """Gives the plain data that `resume` takes back, beside the arrays."""
        return {name: getattr(self, name) for name in SAVED}


def begin(config: TrainConfig, env: Env, state: TrainState | None = None) -> Progress:
    """Makes the progress of a run before its first cycle.

    Args:
      state: as trainer.init makes it; None to make it here.
    """
    names = tuple(n for n, a in zip(env.modules.names, env.modules.achievable, strict=True) if a)
    return Progress(
        config=config,
        names=names,
        episode_length=env.episode_length,
        state=trainer.init(config, env) if state is None else state,
        total=no_metrics(config),
        invalid=(0,) * config.num_seeds,
        reached=(None,) * config.num_seeds,
    )


def resume(config: TrainConfig, env: Env, state: TrainState, total: CycleMetrics, saved: dict[str, Any]) -> Progress:
    """Rebuilds the progress that a checkpoint holds.

    Args:
      saved: what `Progress.saved` gave, perhaps by way of JSON.
    """
    plain = saved | {"invalid": tuple(saved["invalid"]), "reached": tuple(saved["reached"])}
    return dataclasses.replace(begin(config, env, state), total=total, **plain)


def find_difference(was: TrainConfig, wanted: TrainConfig) -> str | None:
    """Finds the first setting that differs and that a cycle depends on; None where one run may continue the other."""
    names = (name for name in configs.fields_by_name() if name not in FREE)
    return next((name for name in names if configs.value(was, name) != configs.value(wanted, name)), None)


def with_config(start: Progress, config: TrainConfig) -> Progress:
    """Gives the progress of a run that continues with another config; a target that changed has yet to be reached.

    Raises:
      ConfigError: when a setting differs that a cycle depends on, naming it and both its values.
    """
    if (name := find_difference(start.config, config)) is not None:
        was, wanted = configs.value(start.config, name), configs.value(config, name)
        raise SettingError(name, wanted, f"{was!r}, as in the run that continues; or begin a new run")
    reached = start.reached if config.target_success == start.config.target_success else (None,) * config.num_seeds
    before, now = start.config.schedule, config.schedule
    shortened = now.cycles <= start.cycles < before.cycles and start.cycles % now.cycles_per_epoch != 0
    return dataclasses.replace(start, config=config, reached=reached, unevaluated=start.unevaluated or shortened)


def place(start: Progress) -> Progress:
    """Puts a progress's arrays where its config's devices want them, which may be others than they were made on."""
    made_on = jax.tree.leaves(start.state)[0].sharding.device_set
    if len(made_on) == devices.count(start.config.devices):
        return start
    one = next(iter(made_on)) if len(made_on) == 1 else jax.devices()[0]
    sharding = devices.everywhere(start.config.devices) or jax.sharding.SingleDeviceSharding(one)
    state, total = jax.device_put((start.state, start.total), sharding)
    return dataclasses.replace(start, state=state, total=total)
