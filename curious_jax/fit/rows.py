"""The lines of metrics.jsonl: what a run shows of an evaluation and of the epoch before it, one line per seed."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax

from curious_jax.evaluation import Result
from curious_jax.fit.progress import Progress, Row
from curious_jax.learner import curriculum
from curious_jax.learner.state import Setup, by_seed, for_seeds, seed_axis, seeds, setup
from curious_jax.types import Env


def describe_fresh(fresh: Result) -> Row:
    """Lays out a seed's success on fresh episodes for its line of the evaluation that they confirm, or not."""
    row: Row = {"eval/fresh": fresh.mean} | {f"eval/fresh/{name}": rate for name, rate in fresh.rate.items()}
    return row | {f"eval/fresh_n/{name}": n for name, n in fresh.episodes.items()}


def add_figures(progress: Progress, more: Sequence[Row]) -> Progress:
    """Adds figures to each seed's line of the evaluation just made."""
    metrics = tuple(row | added for row, added in zip(progress.metrics, more, strict=True))
    return dataclasses.replace(progress, metrics=metrics, rows=progress.rows[: -len(metrics)] + metrics)


def count_invalid(progress: Progress) -> tuple[int, ...]:
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
    cycles = progress.epoch_cycles
    losses = [by_seed(config, v) / cycles for v in (total.critic_loss, total.actor_loss, total.q_mean)]
    cycles_per_s, invalid = cycles * config.num_seeds / progress.epoch_s, count_invalid(progress)
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
