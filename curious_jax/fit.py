"""Trains a run on the host: epochs of the compiled cycle, evaluations between them, one record of its progress."""

import dataclasses
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax import config as configs
from curious_jax import evaluation
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError, SettingError
from curious_jax.evaluation import Result, check_overflow
from curious_jax.learner import curriculum, devices, mirror, perturbation, trainer
from curious_jax.learner.state import (
    CycleMetrics,
    Setup,
    TrainState,
    by_seed,
    for_seeds,
    no_metrics,
    one_or_all,
    policy_params,
    seed_axis,
    seeds,
    setup,
)
from curious_jax.types import Env, Status

__all__ = ["Progress", "begin", "fit", "resume"]

CONFIRM_EPISODES = 100  # per module, fresh ones, before a run stops at its target
CONFIRM_STREAM = 0xC0F1
WORST_STREAM = 0xC7A2
SLICE_S = 1.0  # target length of one compiled call, so that Ctrl-C is handled within about a second

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


Callback = Callable[[Progress], bool | None]


def fit(
    config: TrainConfig,
    env: Env,
    callback: Callback | Sequence[Callback] | None = None,
    start: Progress | None = None,
) -> Progress:
    """Trains until the episodes are done, the target is reached, numbers diverge, or the callback or Ctrl-C says stop.

    Nothing is written: what is to be kept, such as a policy of the progress, the callback keeps, or the caller at the
    end. Once cycles run, Ctrl-C ends the training after those under way, about a second of them, with the status
    `interrupted`, which a program that trains several runs has to look at; a second Ctrl-C raises KeyboardInterrupt at
    once, and so does one while the programs are compiled.

    Args:
      config: the run. `schedule.episodes` is rounded up to whole cycles.
      env: as made by envs.make; its physics is built here, for the run's number of worlds.
      callback: gets the progress about every second, between two cycles, with `metrics` after every evaluation and
        `status` once the run has ended of itself (not for one that was over at its start); returns True to stop. Of
        several each is called, in their order, and any of them may stop the run.
      start: the progress to continue from, whose arrays are overwritten; None for a new run. Other `episodes` or
        another `target_success` than it was made with let a run that has ended go on.
    Returns:
      The progress at the end.
    Raises:
      ConfigError: when the environment or `start` belongs to another run than config's.
      OverflowedBuffers: when physics dropped contacts, in training or evaluation.
    """
    callbacks = [] if callback is None else [callback] if callable(callback) else list(callback)
    loop = _Loop(config, env)
    progress = loop.begin(start)
    with _Keyboard() as keyboard:
        while progress.status is Status.RUNNING:
            if not progress.unevaluated:
                progress = loop.run_cycles(progress)
            if loop.is_evaluation_due(progress):
                progress = loop.evaluate_and_report(progress)
            stop = any([call(progress) for call in callbacks])  # each of them, whatever those before it say
            if (stop or keyboard.pressed) and progress.status is Status.RUNNING:
                progress = dataclasses.replace(progress, status=Status.INTERRUPTED)
    return loop.at_now(progress)


def check_modules(config: TrainConfig, env: Env) -> None:
    """Refuses an environment of other modules than the config's, or in another order, by which a policy knows them.

    Raises:
      ConfigError: naming the modules of both.
    """
    asked = [*config.modules, *(f"distractor{k + 1}" for k in range(config.distractors))]
    if list(map(configs.canonical, asked)) != list(map(configs.canonical, env.modules.names)):
        raise ConfigError(
            f"modules: the config names {', '.join(asked)} and the environment has {', '.join(env.modules.names)}; "
            "make the environment from the config, as curious_jax.make(config) does, with its modules in their order"
        )


def check_env(config: TrainConfig, env: Env) -> None:
    """Refuses what `curious_jax.make` refuses, of an environment that was made in another way.

    Raises:
      ConfigError: naming the setting, or JAX's switch under which a cycle cannot be compiled.
    """
    if jax.config.jax_enable_x64:
        raise ConfigError("jax_enable_x64: must be off to train, whose numbers are float32 and int32; leave it out")
    check_modules(config, env)
    if not any(env.modules.achievable):
        raise ConfigError(f"modules {', '.join(env.modules.names)}: must have one that can be achieved")
    perturbation.check(config.perturbation, env)
    mirror.check(config.hindsight.mirror, env)


def _placed(start: Progress) -> Progress:
    """Puts a progress's arrays where its config's devices want them, which may be others than they were made on."""
    made_on = jax.tree.leaves(start.state)[0].sharding.device_set
    if len(made_on) == devices.count(start.config.devices):
        return start
    one = next(iter(made_on)) if len(made_on) == 1 else jax.devices()[0]
    place = devices.everywhere(start.config.devices) or jax.sharding.SingleDeviceSharding(one)
    state, total = jax.device_put((start.state, start.total), place)
    return dataclasses.replace(start, state=state, total=total)


class _Keyboard:
    """A context manager in which the first Ctrl-C is kept in `pressed`; the second raises KeyboardInterrupt, as ever.

    Where somebody else looks after Ctrl-C, as the programs do, or outside the main thread, it does nothing.
    """

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> "_Keyboard":
        main = threading.current_thread() is threading.main_thread()
        self._ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            signal.signal(signal.SIGINT, self._press)
        return self

    def _press(self, number: int, frame: Any) -> None:
        self.pressed = True
        print("stopping after this cycle; Ctrl-C again stops at once", file=sys.stderr)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *raised: Any) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class _Loop:
    """Holds the run's compiled programs, and takes the steps of the loop: progress in, progress out."""

    def __init__(self, config: TrainConfig, env: Env):
        check_env(config, env)
        self.config, self.env = config, env
        worlds = config.schedule.num_envs * config.num_seeds // devices.count(config.devices)
        self.run = setup(config, env.with_worlds(worlds))
        self.seeds = seeds(config)
        self.slice = 1  # cycles per call of the compiled program

    def begin(self, start: Progress | None) -> Progress:
        """Takes the starting point over, compiles, and evaluates once."""
        self.began = time.perf_counter()
        start = start and _placed(with_config(start, self.config))
        shapes = start.state if start else jax.eval_shape(lambda: trainer.init(self.config, self.env))
        # Beside the state's making and the first evaluation, on another core: the cycle's program is most of the work.
        compiler = ThreadPoolExecutor(1)
        epoch = compiler.submit(trainer.lower_epoch(self.run, shapes).compile)
        compiler.shutdown(wait=False)
        progress = start or begin(self.config, self.env)
        began, self.began = self.began, self.began - progress.wall_s
        self.evaluate = evaluation.make_evaluator(self.run, self.config.schedule.evaluation_episodes)
        results, at = self._evaluate_now(progress), progress.episodes
        progress = dataclasses.replace(progress, results=results, evaluated_at=at, metrics=(), rows=())
        self.epoch = epoch.result()
        compile_s = progress.compile_s + time.perf_counter() - began
        progress = dataclasses.replace(progress, compile_s=compile_s)
        if self.config.target_success is not None and all(progress.reached):
            afresh = self._evaluate_afresh(progress)
            return dataclasses.replace(progress, status=Status.TARGET_REACHED, results=afresh)
        done = progress.cycles >= self.config.schedule.cycles
        due = done and progress.unevaluated
        status = Status.COMPLETED if done and not due else Status.RUNNING
        return dataclasses.replace(progress, status=status, unevaluated=due)

    def at_now(self, progress: Progress) -> Progress:
        """Brings the wall time up to date."""
        return dataclasses.replace(progress, wall_s=time.perf_counter() - self.began)

    def run_cycles(self, progress: Progress) -> Progress:
        """Runs some cycles of the epoch under way, about SLICE_S seconds of them."""
        schedule = self.config.schedule
        left = min(
            schedule.cycles_per_epoch - progress.cycles % schedule.cycles_per_epoch, schedule.cycles - progress.cycles
        )
        cycles, started = min(self.slice, left), time.perf_counter()
        state, total = jax.block_until_ready(self.epoch(progress.state, progress.total, jnp.int32(cycles)))
        seconds = time.perf_counter() - started
        self.slice = max(1, int(SLICE_S * cycles / seconds))
        check_overflow(total.overflow)
        progress = dataclasses.replace(
            progress,
            state=state,
            total=total,
            cycles=progress.cycles + cycles,
            train_s=progress.train_s + seconds,
            epoch_s=progress.epoch_s + seconds,
            status=progress.status if trainer.is_finite(state, total) else Status.DIVERGED,
            metrics=(),
        )
        return self.at_now(progress)

    def is_evaluation_due(self, progress: Progress) -> bool:
        """Tells whether this is the end of an epoch or of the run."""
        schedule = self.config.schedule
        at_end = progress.status is Status.DIVERGED or progress.cycles >= schedule.cycles
        return at_end or progress.cycles % schedule.cycles_per_epoch == 0

    def evaluate_and_report(self, progress: Progress) -> Progress:
        """Evaluates and decides how the run stands; after an epoch its sums start from zero, unless it diverged."""
        schedule, results = self.config.schedule, self._evaluate_now(progress)
        progress = self.at_now(dataclasses.replace(progress, results=results, evaluated_at=progress.episodes))
        metrics = tuple(make_rows(progress, self.env))
        progress = dataclasses.replace(progress, metrics=metrics, rows=progress.rows + metrics, unevaluated=False)
        if progress.status is Status.RUNNING:
            progress = self._decide(progress)
        if schedule.cvar_goals and progress.status in (Status.COMPLETED, Status.TARGET_REACHED):
            progress = _with_more(progress, self._find_worst(progress))
        if progress.cycles % schedule.cycles_per_epoch == 0 and progress.status is not Status.DIVERGED:
            nothing = no_metrics(self.config)
            progress = dataclasses.replace(progress, invalid=_count_invalid(progress), total=nothing, epoch_s=0.0)
        return self.at_now(progress)

    def _decide(self, progress: Progress) -> Progress:
        """Ends the run when every seed has reached the target, confirmed once on fresh episodes, or all is done."""
        target, reached = self.config.target_success, list(progress.reached)
        if target is not None:
            candidates = [s for s, r in enumerate(progress.results) if reached[s] is None and r.mean >= target]
            fresh = self._evaluate_afresh(progress) if candidates else progress.results
            for s in candidates:
                more = [_describe_fresh(one) if i == s else {} for i, one in enumerate(fresh)]
                progress = _with_more(progress, more)
                if fresh[s].mean >= target:
                    reached[s] = _milestone(progress, fresh[s])
            progress = dataclasses.replace(progress, reached=tuple(reached))
            if all(reached):
                return dataclasses.replace(progress, status=Status.TARGET_REACHED, results=fresh)
        done = progress.cycles >= self.config.schedule.cycles
        return dataclasses.replace(progress, status=Status.COMPLETED if done else Status.RUNNING)

    def _find_worst(self, progress: Progress) -> list[Row]:
        """Measures success on the worst goals, at the end of a run that asks for it."""
        measure = evaluation.make_worst_case(self.run, self.config.schedule.cvar_goals or 0)
        keys = jnp.stack([evaluation.evaluation_key(s, progress.episodes, WORST_STREAM) for s in self.seeds])
        offset = perturbation.offset(self.config.perturbation, self.env, progress.episodes)
        found = measure(policy_params(progress.state), keys.reshape(seed_axis(self.config)), offset)
        means = [sum(one.values()) / len(one) for one in found]
        return [
            {"eval/cvar": mean, **{f"eval/cvar/{name}": rate for name, rate in one.items()}}
            for mean, one in zip(means, found, strict=True)
        ]

    def _evaluate_now(self, progress: Progress) -> tuple[Result, ...]:
        return self._evaluate(progress, evaluation.EVALUATION_STREAM, self.config.schedule.evaluation_episodes)

    def _evaluate_afresh(self, progress: Progress) -> tuple[Result, ...]:
        """Evaluates on other episodes than the evaluation before, to confirm what that showed."""
        return self._evaluate(progress, CONFIRM_STREAM, CONFIRM_EPISODES * len(progress.names))

    def _evaluate(self, progress: Progress, stream: int, episodes: int) -> tuple[Result, ...]:
        keys = jnp.stack([evaluation.evaluation_key(s, progress.episodes, stream) for s in self.seeds])
        offset = perturbation.offset(self.config.perturbation, self.env, progress.episodes)
        keys = keys.reshape(seed_axis(self.config))
        return tuple(self.evaluate(policy_params(progress.state), keys, episodes, offset))


def _milestone(progress: Progress, result: Result) -> dict[str, float]:
    return {"episodes": progress.episodes, "train_s": round(progress.train_s, 2), "mean_success": result.mean}


def _describe_fresh(fresh: Result) -> Row:
    """Lays out a seed's success on fresh episodes for its line of the evaluation that they confirm, or not."""
    row: Row = {"eval/fresh": fresh.mean} | {f"eval/fresh/{name}": rate for name, rate in fresh.rate.items()}
    return row | {f"eval/fresh_n/{name}": n for name, n in fresh.episodes.items()}


def _with_more(progress: Progress, more: Sequence[Row]) -> Progress:
    """Adds figures to each seed's line of the evaluation just made."""
    metrics = tuple(row | added for row, added in zip(progress.metrics, more, strict=True))
    return dataclasses.replace(progress, metrics=metrics, rows=progress.rows[: -len(metrics)] + metrics)


def _count_invalid(progress: Progress) -> tuple[int, ...]:
    """Counts the invalid episodes of each seed, those of the epoch under way included."""
    epoch = by_seed(progress.config, progress.total.invalid)
    return tuple(before + int(now) for before, now in zip(progress.invalid, epoch, strict=True))


def _measure_curriculum(run: Setup, estimate: Any, windows: curriculum.CurriculumState) -> tuple[jax.Array, ...]:
    """Gives C, LP and p [M], and with another estimator than the paper's the success that it expects [M]."""
    measured = curriculum.summarize(windows, run.config.curriculum, run.worth(estimate, windows))
    own = run.config.curriculum.estimator != "competence"
    return (*measured, run.estimator.predict(estimate, windows)) if own else measured


def make_rows(progress: Progress, env: Env) -> list[Row]:
    """Makes a line of metrics.jsonl per seed from the last evaluation and the epoch under way."""
    config, total, schedule = progress.config, progress.total, progress.config.schedule
    run, state = setup(config, env), progress.state
    measure = for_seeds(config, functools.partial(_measure_curriculum, run))
    vectors = [by_seed(config, v) for v in measure(state.estimator, state.curriculum)]
    cycles = 1 + (progress.cycles - 1) % schedule.cycles_per_epoch  # of this epoch, so far
    losses = [by_seed(config, v) / cycles for v in (total.critic_loss, total.actor_loss, total.q_mean)]
    cycles_per_s, invalid = cycles * config.num_seeds / progress.epoch_s, _count_invalid(progress)
    rows = []
    for s, result in enumerate(progress.results):
        row: Row = {"seed": seeds(config)[s]} if seed_axis(config) else {}
        row |= {name: getattr(progress, name) for name in ("episodes", "env_steps", "updates", "wall_s")}
        row["eval/success"] = result.mean
        row |= {f"eval/success/{name}": rate for name, rate in result.rate.items()}
        row |= {f"eval/n/{name}": n for name, n in result.episodes.items()}
        for key, vector in zip(("competence", "learning_progress", "p_module", "predicted"), vectors, strict=False):
            row |= {f"{key}/{name}": float(vector[s, i]) for i, name in enumerate(env.modules.names)}
        for key, loss in zip(("critic_loss", "actor_loss", "q_mean"), losses, strict=True):
            row[f"train/{key}"] = float(loss[s])
        row["perf/env_steps_per_s"] = cycles_per_s * schedule.num_envs * env.episode_length
        row["perf/updates_per_s"] = cycles_per_s * schedule.updates_per_cycle
        row["invalid_episodes"] = invalid[s]
        rows.append(row)
    return rows
