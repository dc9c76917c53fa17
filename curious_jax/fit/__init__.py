"""Trains a run on the host: epochs of the compiled cycle, evaluations between them, one record of its progress."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp

from curious_jax import config as configs
from curious_jax import evaluation
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.evaluation import Result, check_overflow
from curious_jax.fit.keyboard import Keyboard
from curious_jax.fit.progress import Progress, Row, begin, place, resume, with_config
from curious_jax.fit.rows import add_figures, count_invalid, describe_fresh, make_rows
from curious_jax.learner import devices, mirror, perturbation, trainer
from curious_jax.learner.state import no_metrics, policy_params, seed_axis, seeds, setup
from curious_jax.types import Env, Status

__all__ = ["Progress", "begin", "fit", "resume"]

CONFIRM_EPISODES = 100  # per module, fresh ones, before a run stops at its target
CONFIRM_STREAM = 0xC0F1
WORST_STREAM = 0xC7A2
SLICE_S = 1.0  # target length of one compiled call, so that Ctrl-C is handled within about a second

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
      start: the progress to continue from, whose arrays are overwritten; None for a new run. A run
        that has ended may continue: a completed one with more `episodes`, one that met its target with another
        `target_success`.
    Returns:
      The progress at the end.
    Raises:
      ConfigError: when the environment or `start` belongs to another run than config's.
      OverflowedBuffers: when physics lost contacts in too many episodes, in training or evaluation.
    """
    callbacks = [] if callback is None else [callback] if callable(callback) else list(callback)
    loop = _Loop(config, env)
    progress = loop.begin(start)
    with Keyboard() as keyboard:
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
        start = start and place(with_config(start, self.config))
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
        schedule = self.config.schedule
        episodes = progress.epoch_cycles * schedule.num_envs * self.config.num_seeds
        check_overflow(progress.total.overflow, episodes)
        results = self._evaluate_now(progress)
        progress = self.at_now(dataclasses.replace(progress, results=results, evaluated_at=progress.episodes))
        metrics = tuple(make_rows(progress, self.env))
        progress = dataclasses.replace(progress, metrics=metrics, rows=progress.rows + metrics, unevaluated=False)
        if progress.status is Status.RUNNING:
            progress = self._decide(progress)
        if schedule.cvar_goals and progress.status in (Status.COMPLETED, Status.TARGET_REACHED):
            progress = add_figures(progress, self._find_worst(progress))
        if progress.cycles % schedule.cycles_per_epoch == 0 and progress.status is not Status.DIVERGED:
            nothing = no_metrics(self.config)
            progress = dataclasses.replace(progress, invalid=count_invalid(progress), total=nothing, epoch_s=0.0)
        return self.at_now(progress)

    def _decide(self, progress: Progress) -> Progress:
        """Ends the run when every seed has reached the target, confirmed once on fresh episodes, or all is done."""
        target, reached = self.config.target_success, list(progress.reached)
        if target is not None:
            candidates = [s for s, r in enumerate(progress.results) if reached[s] is None and r.mean >= target]
            fresh = self._evaluate_afresh(progress) if candidates else progress.results
            for s in candidates:
                more = [describe_fresh(one) if i == s else {} for i, one in enumerate(fresh)]
                progress = add_figures(progress, more)
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
