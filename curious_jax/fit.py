"""The host loop: epochs of the compiled cycle, evaluations between them, one report each."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax import evaluation
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.learner import curriculum, devices, perturbation, trainer
from curious_jax.learner.rollout import check_overflow
from curious_jax.types import Env

__all__ = ["History", "Moment", "Progress", "Report", "fit"]

CONFIRM_EPISODES = 100  # per module, fresh ones, before a run stops at its target
CONFIRM_STREAM = 0xC0F1
SLICE_S = 1.0  # an epoch runs in calls of about so many seconds: a signal waits no longer, or for one cycle


@dataclass(frozen=True)
class Report:
    """What the callback gets after every evaluation."""

    metrics: list[dict[str, float]]  # one row per seed, with the keys of metrics.jsonl
    state: trainer.TrainState  # given up to the next epoch: copy what is to be kept
    status: str  # running, or how the run ended


@dataclass
class History:
    """What a run leaves behind beside its state. With several seeds success figures are lists over seeds."""

    config: TrainConfig
    names: tuple[str, ...]  # achievable modules
    rows: list[dict[str, float]] = field(default_factory=list)
    status: str = "running"  # in the end completed, target_reached, interrupted or diverged
    results: list[evaluation.Result] = field(default_factory=list)  # the last evaluation, one per seed
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


@dataclass(frozen=True)
class Progress:
    """What the host knows of a run between two cycles, as plain data."""

    cycles: int
    invalid: list[int]  # per seed, episodes that left the finite range before the epoch under way
    reached: list[dict[str, float] | None]
    compile_s: float
    train_s: float
    wall_s: float
    epoch_s: float  # in the compiled cycles of the epoch under way


@dataclass(frozen=True)
class Moment:
    """A run between two cycles: all that it takes to go on from there."""

    state: trainer.TrainState
    total: trainer.CycleMetrics  # sums over the epoch under way
    progress: Progress


Callback = Callable[[Report], bool | None]
Between = Callable[[Moment, str], bool | None]


def fit(
    config: TrainConfig,
    env: Env,
    callback: Callback | None = None,
    between: Between | None = None,
    start: Moment | None = None,
) -> tuple[trainer.TrainState, History]:
    """Trains until the episodes are done, the target is reached, numbers diverge, or a callback says stop.

    Args:
      config: the run. `schedule.episodes` is rounded up to whole cycles.
      env: as made by envs.make; its physics is built here, for the run's number of worlds.
      callback: gets a Report after every evaluation; returns True to stop.
      between: gets a Moment and the status every second or so, between two cycles (after the evaluation where
        there was one), and once when the run has ended; returns True to stop. The moment's arrays are the next
        cycle's to overwrite: copy what must last.
      start: the moment to go on from, which is taken over; None begins anew.
    Returns:
      (state, history), the state with a leading axis S when num_seeds > 1.
    Raises:
      OverflowedBuffers: when physics dropped contacts, in training or evaluation.
    """
    return _Loop(config, env, callback, between).run(start)


def check_modules(config: TrainConfig, env: Env) -> None:
    """Refuses an environment of other modules than the config's.

    Raises:
      ConfigError: naming both.
    """
    asked = [*config.modules, *(f"distractor{k + 1}" for k in range(config.distractors))]
    # push1 is push, stack1on2 is stack.
    short = [[re.sub("(1on2|1)$", "", name) for name in names] for names in (asked, env.modules.names)]
    if sorted(short[0]) != sorted(short[1]):
        raise ConfigError(
            f"modules: the config names {', '.join(asked)} and the environment has {', '.join(env.modules.names)}; "
            "make the environment from the config, as curious_jax.make(config) does"
        )


class _Loop:
    """The loop's moving parts, so that each step of it is a short method."""

    def __init__(self, config: TrainConfig, env: Env, callback: Callback | None, between: Between | None):
        check_modules(config, env)
        self.config, self.env, self.callback, self.between = config, env, callback, between
        worlds = config.schedule.num_envs * config.num_seeds // devices.count(config.devices)
        self.run_setup = trainer.setup(config, env.with_worlds(worlds))
        names = tuple(n for n, a in zip(env.modules.names, env.modules.achievable, strict=True) if a)
        self.history = History(config, names, steps_per_episode=env.episode_length)
        self.seeds = trainer.seeds(config)
        self.slice = 1  # cycles per call of the compiled program

    def run(self, start: Moment | None) -> tuple[trainer.TrainState, History]:
        history = self.history
        self._begin(start)
        while history.status == "running":
            self._run_cycles()
            at_end = history.cycles >= self.config.schedule.cycles
            if not self.finite(self.state, self.total):
                history.status = "diverged"
            if at_end or history.status == "diverged" or history.cycles % self.config.schedule.cycles_per_epoch == 0:
                self._evaluate_and_report()
            stop = self.between and self.between(self._moment(), history.status)
            if stop and history.status == "running":
                history.status = "interrupted"
        history.wall_s = time.perf_counter() - self.start
        return self.state, history

    def _begin(self, start: Moment | None) -> None:
        """Takes the starting moment over, compiles, and evaluates once."""
        history, began = self.history, time.perf_counter()
        shapes = start.state if start else jax.eval_shape(lambda: trainer.init(self.config, self.env))
        # Beside the state's making and the first evaluation, on another core: the cycle's program is most of the work.
        compiler = ThreadPoolExecutor(1)
        epoch = compiler.submit(trainer.lowered_epoch(self.run_setup, shapes).compile)
        compiler.shutdown(wait=False)
        if start is None:
            nothing: list[dict[str, float] | None] = [None] * self.config.num_seeds
            progress = Progress(0, [0] * self.config.num_seeds, nothing, 0.0, 0.0, 0.0, 0.0)
            start = Moment(trainer.init(self.config, self.env), trainer.no_metrics(self.config), progress)
        self.state, self.total, progress = start.state, start.total, start.progress
        self.start, self.epoch_s = began - progress.wall_s, progress.epoch_s
        self.invalid = np.array(progress.invalid, np.int64)
        history.cycles, history.reached = progress.cycles, list(progress.reached)
        self.finite = jax.jit(trainer.finite)
        self.evaluate = evaluation.make_evaluator(self.run_setup, self.config.schedule.evaluation_episodes)
        history.results = self._evaluate_now()
        self.epoch = epoch.result()
        history.train_s = progress.train_s
        history.compile_s = progress.compile_s + time.perf_counter() - began
        if all(history.reached):
            history.status, history.results = "target_reached", self._evaluate_afresh()
        elif history.cycles >= self.config.schedule.cycles:
            history.status = "completed"

    def _run_cycles(self) -> None:
        """Some cycles of the epoch under way, about SLICE_S seconds of them."""
        history, schedule = self.history, self.config.schedule
        left = min(
            schedule.cycles_per_epoch - history.cycles % schedule.cycles_per_epoch, schedule.cycles - history.cycles
        )
        cycles, started = min(self.slice, left), time.perf_counter()
        self.state, self.total = jax.block_until_ready(self.epoch(self.state, self.total, jnp.int32(cycles)))
        seconds = time.perf_counter() - started
        self.slice = max(1, int(SLICE_S * cycles / seconds))
        self.epoch_s += seconds
        history.train_s += seconds
        history.cycles += cycles
        check_overflow(self.total.overflow)

    def _moment(self) -> Moment:
        history = self.history
        wall_s, invalid = time.perf_counter() - self.start, self.invalid.tolist()
        times = (history.compile_s, history.train_s, wall_s, self.epoch_s)
        return Moment(self.state, self.total, Progress(history.cycles, invalid, list(history.reached), *times))

    def _evaluate_and_report(self) -> None:
        """Evaluates, decides how the run stands and reports; a whole epoch's sums then begin anew."""
        history, schedule = self.history, self.config.schedule
        history.results = results = self._evaluate_now()
        rows = self._rows(results)
        history.rows += rows
        if history.status == "running":
            if self._confirmed(results):
                history.status = "target_reached"
            elif history.cycles >= schedule.cycles:
                history.status = "completed"
        if self.callback and self.callback(Report(rows, self.state, history.status)) and history.status == "running":
            history.status = "interrupted"
        if history.cycles % schedule.cycles_per_epoch == 0:
            self.invalid += self._epoch_invalid()
            self.total, self.epoch_s = trainer.no_metrics(self.config), 0.0

    def _epoch_invalid(self) -> np.ndarray:
        return np.atleast_1d(np.asarray(self.total.invalid)).astype(np.int64)

    def _evaluate_now(self) -> list[evaluation.Result]:
        return self._evaluate(evaluation.EVALUATION_STREAM, self.config.schedule.evaluation_episodes)

    def _evaluate_afresh(self) -> list[evaluation.Result]:
        """On other episodes than the evaluation before, to confirm what that showed."""
        return self._evaluate(CONFIRM_STREAM, CONFIRM_EPISODES * len(self.history.names))

    def _evaluate(self, stream: int, episodes: int) -> list[evaluation.Result]:
        keys = jnp.stack([evaluation.evaluation_key(s, self.history.episodes, stream) for s in self.seeds])
        several = self.config.num_seeds > 1
        offset = perturbation.offset(self.config.perturbation, self.env, self.history.episodes)
        return self.evaluate(trainer.policy(self.state), keys if several else keys[0], episodes, offset)

    def _confirmed(self, results: list[evaluation.Result]) -> bool:
        """Has every seed reached the target, each confirmed once on fresh episodes?"""
        target = self.config.target_success
        if target is None:
            return False
        candidates = [s for s, r in enumerate(results) if self.history.reached[s] is None and r.mean >= target]
        if candidates:
            fresh = self._evaluate_afresh()
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

    def _rows(self, results: list[evaluation.Result]) -> list[dict[str, float]]:
        several, total = self.config.num_seeds > 1, self.total
        summary = jax.vmap(self._curriculum_summary) if several else self._curriculum_summary
        vectors = [np.asarray(v).reshape(self.config.num_seeds, -1) for v in summary(self.state.curriculum)]
        schedule, env_steps = self.config.schedule, self.env.episode_length
        cycles = 1 + (self.history.cycles - 1) % schedule.cycles_per_epoch  # of this epoch, so far
        losses = [np.atleast_1d(np.asarray(v)) / cycles for v in (total.critic_loss, total.actor_loss, total.q_mean)]
        cycles_per_s, invalid = cycles * self.config.num_seeds / self.epoch_s, self.invalid + self._epoch_invalid()
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
            row["perf/env_steps_per_s"] = cycles_per_s * schedule.num_envs * env_steps
            row["perf/updates_per_s"] = cycles_per_s * schedule.updates_per_cycle
            row["nan_episodes"] = int(invalid[s])
            rows.append(row)
        return rows

    def _curriculum_summary(self, state: curriculum.CurriculumState) -> tuple[jax.Array, jax.Array, jax.Array]:
        c, progress = curriculum.competence_and_progress(state)
        p = curriculum.module_probabilities(state, self.config.curriculum, self.config.curriculum.selection == "lp")
        return c, progress, p
