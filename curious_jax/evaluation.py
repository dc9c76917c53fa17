"""Evaluation of a frozen policy: no noise, random goals, success per achievable module (SPEC 3).

HER has one goal that asks for every module at once, and so has its evaluation: a module's episodes ask for the flat
goal and succeed when all modules are solved (CURIOUS: "the agent needs to satisfy the constraints described by all
the modules at once"; its curve stays at 0). MG-ME acts on a module with that module's expert.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax.config import TrainConfig
from curious_jax.learner import devices, perturbation, rollout, trainer
from curious_jax.types import FLAT, Env

MAX_WORLDS = 256  # episodes side by side in `evaluate`
EVALUATION_STREAM = 0x5EED  # folded into the seed, so that evaluation never draws training's keys


@dataclass(frozen=True)
class Result:
    """Counts per achievable module."""

    successes: dict[str, int]
    episodes: dict[str, int]

    @property
    def rate(self) -> dict[str, float]:
        """Success rate per module."""
        return {name: self.successes[name] / self.episodes[name] for name in self.successes}

    @property
    def mean(self) -> float:
        """Mean of the modules' rates."""
        return float(np.mean(list(self.rate.values())))


def evaluation_key(seed: int, episodes: int, stream: int = EVALUATION_STREAM) -> jax.Array:
    """The key of the evaluation after so many training episodes: a function of (seed, episodes) alone."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), stream), episodes % 2**32)


def achievable(env: Env) -> np.ndarray:
    """Indices of the achievable modules, int32."""
    return np.flatnonzero(env.modules.achievable).astype(np.int32)


def batch_success(
    run: trainer.Setup, policy: trainer.Policy, key: jax.Array, module: jax.Array, offset: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """One evaluation episode per entry of module [W] -> (success [W], overflow []). An invalid one is a failure."""
    if run.config.algorithm == "her":
        module = jnp.full_like(module, FLAT)
    exploring = jnp.zeros(module.shape, bool)
    acting = trainer.acting(run, policy)
    episode, overflow = rollout.collect(acting, run.env, run.config.exploration, key, module, exploring, offset)
    return episode.success, overflow


Evaluator = Callable[..., list[Result]]


def make_evaluator(run: trainer.Setup, worlds: int) -> Evaluator:
    """Compiles evaluation in batches of `worlds` episodes.

    Returns:
      (policy, keys, episodes, offset) -> one Result per seed, where policy and keys have a leading axis S when
      the run has several seeds, at least `episodes` episodes are spread evenly over the achievable modules, and
      `offset` (None: none) is the sensors' at this point of the run (perturbation.offset).
      It raises errors.OverflowedBuffers when physics dropped contacts.
    """
    several, shares = run.config.num_seeds > 1, devices.count(run.config.devices)
    worlds = shares * -(-worlds // shares)
    run = run._replace(env=run.env.with_worlds(worlds // shares * run.config.num_seeds))

    one = functools.partial(batch_success, run)
    batch = jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)) if several else one)
    ids = achievable(run.env)
    fold = jax.vmap(jax.random.fold_in, (0, None)) if several else jax.random.fold_in

    def evaluate(policy: Any, key: Any, episodes: int, offset: Any = None) -> list[Result]:
        # A new run's and a trained policy alike: arrays that JAX may and may not move would make two programs.
        policy = jax.tree.map(lambda x: jax.device_put(x, jnp.asarray(x).sharding), policy)
        chunks = -(-episodes // worlds)
        module = ids[np.arange(chunks * worlds) % len(ids)].reshape(chunks, worlds)
        # One batch at a time: physics on the host is not asked twice at once.
        with devices.using(run.config.devices):
            batches = [
                jax.device_get(batch(policy, fold(key, c), jnp.asarray(module[c]), offset)) for c in range(chunks)
            ]
        rollout.check_overflow([overflow for _, overflow in batches])
        success = np.stack([solved for solved, _ in batches])
        if not several:
            success = success[:, None]
        return [_count(run.env.modules.names, ids, module, success[:, s]) for s in range(success.shape[1])]

    return evaluate


def _count(names: tuple[str, ...], ids: np.ndarray, module: np.ndarray, success: np.ndarray) -> Result:
    return Result(
        successes={names[i]: int(success[module == i].sum()) for i in ids},
        episodes={names[i]: int((module == i).sum()) for i in ids},
    )


def evaluate(
    config: TrainConfig, env: Env, policy: trainer.Policy, key: jax.Array, num_episodes: int, trained: int = 0
) -> Result:
    """Evaluates one policy on at least num_episodes episodes, and one per module, spread evenly over the achievable.

    Args:
      trained: episodes that the policy was trained for, which decides over a perturbation.
    """
    num_episodes = max(num_episodes, len(achievable(env)))
    run = trainer.setup(dataclasses.replace(config, num_seeds=1, devices=1), env)
    offset = perturbation.offset(config.perturbation, env, trained)
    return make_evaluator(run, min(num_episodes, MAX_WORLDS))(policy, key, num_episodes, offset)[0]
