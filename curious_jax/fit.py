"""The host loop: epochs of the compiled cycle, evaluations between them, one report each."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax import curriculum, evaluation, perturbation, trainer
from curious_jax.config import TrainConfig
from curious_jax.types import Env

CONFIRM_EPISODES = 100  # per module, fresh ones, before a run stops at its target
CONFIRM_STREAM = 0xC0F1


class OverflowedBuffers(RuntimeError):
    """A physics buffer ran out: contacts were dropped, so the run's results cannot be trusted."""


@dataclass(frozen=True)
class Report:
    """What the callback gets after every evaluation."""

    metrics: list[dict[str, float]]  # one row per seed, with the keys of metrics.jsonl
    state: trainer.TrainState
    status: str  # running, or how the run ended


@dataclass
class History:
    """What a run leaves behind beside its state. With several seeds success figures are lists over seeds."""

    config: TrainConfig
    names: tuple[str, ...]  # achievable modules
    rows: list[dict[str, float]] = field(default_factory=list)
    status: str = "completed"
    results: list[evaluation.Result] = field(default_factory=list)  # the final evaluation, one per seed
    reached: list[dict[str, float] | None] = field(default_factory=list)  # when each seed's target was confirmed
    compile_s: float = 0.0
    train_s: float = 0.0  # in the compiled epochs alone
    wall_s: float = 0.0
    cycles: int = 0
    steps_per_episode: int = 0

    @property
    def episodes(self) -> int:
        """Training episodes of each seed."""
        return self.cycles * self.config.schedule.num_envs

    @property
    def env_steps(self) -> int:
        """Environment steps of each seed."""
        return self.episodes * self.steps_per_episode

    @property
    def updates(self) -> int:
        """Gradient steps of each seed."""
        return self.cycles * self.config.schedule.updates_per_cycle

    @property
    def success(self) -> dict[str, Any]:
        """{module: rate}, or {module: [rate per seed]}."""
        rates = {name: [r.rate[name] for r in self.results] for name in self.names}
        return rates if self.config.num_seeds > 1 else {name: r[0] for name, r in rates.items()}

    @property
    def mean_success(self) -> Any:
        """Mean over achievable modules, or a list of those over seeds."""
        means = [r.mean for r in self.results]
        return means if self.config.num_seeds > 1 else means[0]


Callback = Callable[[Report], bool | None]


def fit(config: TrainConfig, env: Env, callback: Callback | None = None) -> tuple[trainer.TrainState, History]:
    """Trains until the episodes are done, the target is reached, or the callback says stop.

    Args:
      config: the run. `schedule.episodes` is rounded up to whole cycles.
      env: as made by envs.world.make(..., num_worlds=num_envs * num_seeds).
      callback: gets a Report after every evaluation; returns True to stop.
    Returns:
      (state, history), the state with a leading axis S when num_seeds > 1.
    Raises:
      OverflowedBuffers: when physics dropped contacts.
    """
    return _Loop(config, env, callback).run()


class _Loop:
    """The loop's moving parts, so that each step of it is a short method."""

    def __init__(self, config: TrainConfig, env: Env, callback: Callback | None):
        self.config, self.env, self.callback = config, env, callback
        self.run_setup = trainer.setup(config, env)
        names = tuple(n for n, a in zip(env.modules.names, env.modules.achievable, strict=True) if a)
        self.history = History(config, names, steps_per_episode=env.episode_length)
        self.history.reached = [None] * config.num_seeds
        self.seeds = trainer.seeds(config)
        self.invalid = np.zeros(config.num_seeds, np.int64)
        self.start = time.perf_counter()

    def run(self) -> tuple[trainer.TrainState, History]:
        history, schedule = self.history, self.config.schedule
        state = trainer.init(self.config, self.env)
        epoch = trainer.compiled_epoch(self.run_setup, state)
        self.evaluate = evaluation.make_evaluator(self.run_setup, schedule.evaluation_episodes)
        self._evaluate(state, evaluation.EVALUATION_STREAM, schedule.evaluation_episodes)
        history.compile_s = time.perf_counter() - self.start
        stop = False
        while history.cycles < schedule.cycles and not stop:
            cycles = min(schedule.cycles_per_epoch, schedule.cycles - history.cycles)
            started = time.perf_counter()
            state, metrics = jax.block_until_ready(epoch(state, jnp.int32(cycles)))
            epoch_s = time.perf_counter() - started
            history.train_s += epoch_s
            history.cycles += cycles
            self._check(metrics)
            stop = self._after_epoch(state, metrics, cycles, epoch_s)
        history.wall_s = time.perf_counter() - self.start
        return state, history

    def _check(self, metrics: trainer.CycleMetrics) -> None:
        self.invalid += np.atleast_1d(np.asarray(metrics.invalid)).astype(np.int64)
        if np.any(np.asarray(metrics.overflow)):
            raise OverflowedBuffers(
                "physics ran out of contact buffers, so contacts were lost; use --physics c, or raise naconmax or "
                "njmax in envs/physics/mjx.py"
            )

    def _after_epoch(
        self, state: trainer.TrainState, metrics: trainer.CycleMetrics, cycles: int, epoch_s: float
    ) -> bool:
        """Evaluates, decides how the run stands and reports; True to stop."""
        history, schedule = self.history, self.config.schedule
        results = self._evaluate(state, evaluation.EVALUATION_STREAM, schedule.evaluation_episodes)
        history.results = results
        rows = self._rows(state, metrics, results, cycles, epoch_s)
        history.rows += rows
        status = "completed" if history.cycles >= schedule.cycles else "running"
        if not np.all(np.isfinite(np.asarray(metrics.critic_loss + metrics.actor_loss))):
            status = "diverged"
        elif self._confirmed(state, results):
            status = "target_reached"
        if self.callback and self.callback(Report(rows, state, status)) and status == "running":
            status = "interrupted"
        history.status = status
        return status != "running"

    def _evaluate(self, state: trainer.TrainState, stream: int, episodes: int) -> list[evaluation.Result]:
        keys = jnp.stack([evaluation.evaluation_key(s, self.history.episodes, stream) for s in self.seeds])
        several = self.config.num_seeds > 1
        offset = perturbation.offset(self.config.perturbation, self.env, self.history.episodes)
        return self.evaluate(trainer.policy(state), keys if several else keys[0], episodes, offset)

    def _confirmed(self, state: trainer.TrainState, results: list[evaluation.Result]) -> bool:
        """Has every seed reached the target, each confirmed once on fresh episodes?"""
        target = self.config.target_success
        if target is None:
            return False
        candidates = [s for s, r in enumerate(results) if self.history.reached[s] is None and r.mean >= target]
        if candidates:
            fresh = self._evaluate(state, CONFIRM_STREAM, CONFIRM_EPISODES * len(self.history.names))
            for s in candidates:
                if fresh[s].mean >= target:
                    self.history.reached[s] = self._milestone(fresh[s])
            if all(self.history.reached):
                self.history.results = fresh
        return all(self.history.reached)

    def _milestone(self, result: evaluation.Result) -> dict[str, float]:
        return {
            "episodes": self.history.episodes,
            "train_s": round(self.history.train_s, 2),
            "mean_success": result.mean,
        }

    def _rows(
        self,
        state: trainer.TrainState,
        metrics: trainer.CycleMetrics,
        results: list[evaluation.Result],
        cycles: int,
        epoch_s: float,
    ) -> list[dict[str, float]]:
        several = self.config.num_seeds > 1
        summary = jax.vmap(self._curriculum_summary) if several else self._curriculum_summary
        vectors = [np.asarray(v).reshape(self.config.num_seeds, -1) for v in summary(state.curriculum)]
        losses = [np.atleast_1d(np.asarray(v)) for v in (metrics.critic_loss, metrics.actor_loss, metrics.q_mean)]
        episodes = cycles * self.config.schedule.num_envs
        rows = []
        for s, result in enumerate(results):
            row: dict[str, float] = {"seed": self.seeds[s]} if several else {}
            row |= {
                "episodes": self.history.episodes,
                "env_steps": self.history.env_steps,
                "updates": self.history.updates,
                "wall_s": time.perf_counter() - self.start,
                "eval/success": result.mean,
            }
            row |= {f"eval/success/{name}": rate for name, rate in result.rate.items()}
            row |= {f"eval/n/{name}": n for name, n in result.episodes.items()}
            for key, vector in zip(("competence", "learning_progress", "p_module"), vectors, strict=True):
                row |= {f"{key}/{name}": float(vector[s, i]) for i, name in enumerate(self.env.modules.names)}
            for key, loss in zip(("critic_loss", "actor_loss", "q_mean"), losses, strict=True):
                row[f"train/{key}"] = float(loss[s])
            row["perf/env_steps_per_s"] = episodes * self.env.episode_length * self.config.num_seeds / epoch_s
            row["perf/updates_per_s"] = (
                cycles * self.config.schedule.updates_per_cycle * self.config.num_seeds / epoch_s
            )
            row["nan_episodes"] = int(self.invalid[s])
            rows.append(row)
        return rows

    def _curriculum_summary(self, state: curriculum.CurriculumState) -> tuple[jax.Array, jax.Array, jax.Array]:
        c, progress = curriculum.competence_and_progress(state)
        p = curriculum.module_probabilities(state, self.config.curriculum, self.config.curriculum.selection == "lp")
        return c, progress, p
