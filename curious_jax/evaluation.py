"""Evaluates a frozen policy: no noise, random goals, success per achievable module (CURIOUS, "Evaluation").

What an evaluation episode of a module asks for is the algorithm's (learner/algorithms.py): HER's asks for all modules.
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
from curious_jax.errors import OverflowedBuffers
from curious_jax.learner import devices, perturbation, rollout
from curious_jax.learner.state import PolicyParams, Setup, for_seeds, make_policy, setup
from curious_jax.types import Env

MAX_WORLDS = 256  # episodes side by side in `evaluate`
WORST, TRIES = 0.1, 10  # share of the goals that are the worst; episodes that find them, and as many that judge them
TRIAL_STREAM = 0x7E57  # folded into the key that draws goals, before the number of a trial
CHUNK_STREAM = 0xC4A2  # folded into a module's key, for its goals beyond the first MAX_WORLDS
EVALUATION_STREAM = 0x5EED  # folded into the seed of a run, so that its evaluations never draw training's keys
OVERFLOW_SHARE = 0.05  # of the episodes may lose contacts (of fewer than 20, one); with more a run stops


@dataclass(frozen=True)
class Result:
    """Counts of episodes and successes per module."""

    successes: dict[str, int]
    episodes: dict[str, int]

    @property
    def rate(self) -> dict[str, float]:
        """Gives the success rate per module."""
        return {name: self.successes[name] / self.episodes[name] for name in self.successes}

    @property
    def mean(self) -> float:
        """Gives the mean of the modules' rates."""
        return float(np.mean(list(self.rate.values())))


def evaluation_key(seed: int, episodes: int, stream: int = EVALUATION_STREAM) -> jax.Array:
    """Makes the key of an evaluation after `episodes` training episodes: a function of (seed, episodes) alone."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), stream), episodes % 2**32)


def achievable(env: Env) -> np.ndarray:
    """Lists the indices of the achievable modules, int32."""
    return np.flatnonzero(env.modules.achievable).astype(np.int32)


def check_overflow(overflow: Any, episodes: int) -> None:
    """Stops a run in which the physics lost contacts in more than OVERFLOW_SHARE of the episodes, and in more than one.

    In a few it costs nothing but those episodes, which are invalid.

    Args:
      overflow: in how many episodes it did (any shape, to be summed; on the host).
    Raises:
      OverflowedBuffers: saying what to change.
    """
    lost = int(np.sum(overflow))
    if lost > max(1, OVERFLOW_SHARE * episodes):
        raise OverflowedBuffers(
            f"physics ran out of contact buffers and lost contacts in {lost} of {episodes} episodes; use --physics c, "
            "or raise naconmax or njmax in envs/physics/warp.py (buffer_sizes)"
        )


def batch_success(
    run: Setup, params: PolicyParams, key: jax.Array, module: jax.Array, offset: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Plays one evaluation episode per entry of module [W]: (success [W], overflow []), as rollout.collect has it.

    An invalid one is a failure.
    """
    exploring = jnp.zeros(module.shape, bool)
    policy, module = make_policy(run, params), run.algorithm.test(module)
    episode, overflow = rollout.collect(policy, run.env, run.config.exploration, key, module, exploring, offset)
    return episode.success, overflow


Evaluator = Callable[..., list[Result]]


def make_evaluator(run: Setup, worlds: int, ids: np.ndarray | None = None) -> Evaluator:
    """Compiles evaluation in batches of `worlds` episodes.

    Args:
      ids: the modules to evaluate, int32; None for the achievable ones.
    Returns:
      (params, keys, episodes, offset) -> one Result per seed, where params and keys have a leading axis S when
      the run has several seeds, at least `episodes` episodes are spread evenly over the modules, and
      `offset` (None: none) is the sensors' at this point of the run (perturbation.offset).
      It raises errors.OverflowedBuffers as check_overflow does.
    """
    config, shares = run.config, devices.count(run.config.devices)
    worlds = shares * -(-worlds // shares)
    run = run._replace(env=run.env.with_worlds(worlds // shares * config.num_seeds))
    batch = jax.jit(for_seeds(config, functools.partial(batch_success, run), (0, 0, None, None)))
    fold = for_seeds(config, jax.random.fold_in, (0, None))
    ids = achievable(run.env) if ids is None else ids

    def evaluate(params: Any, key: Any, episodes: int, offset: Any = None) -> list[Result]:
        # A new run's and a trained policy alike: arrays that JAX may and may not move would make two programs.
        params = jax.tree.map(lambda x: jax.device_put(x, jnp.asarray(x).sharding), params)
        chunks = -(-episodes // worlds)
        module = ids[np.arange(chunks * worlds) % len(ids)].reshape(chunks, worlds)
        # One batch at a time: physics on the host is not asked twice at once.
        with devices.using(config.devices):
            batches = [
                jax.device_get(batch(params, fold(key, c), jnp.asarray(module[c]), offset)) for c in range(chunks)
            ]
        check_overflow([overflow for _, overflow in batches], chunks * worlds * config.num_seeds)
        success = np.stack([solved for solved, _ in batches]).reshape(chunks, config.num_seeds, worlds)
        return [_count(run.env.modules.names, ids, module, success[:, s]) for s in range(config.num_seeds)]

    return evaluate


def _count(names: tuple[str, ...], ids: np.ndarray, module: np.ndarray, success: np.ndarray) -> Result:
    return Result(
        successes={names[i]: int(success[module == i].sum()) for i in ids},
        episodes={names[i]: int((module == i).sum()) for i in ids},
    )


def worst_goals(found: np.ndarray, judged: np.ndarray) -> float:
    """Computes the mean success over the worst goals, CVaR (Rutherford et al. 2024): [N], [N] -> mean of a share WORST.

    The goals that did worst in some episodes are judged by others: the worst of many goals by a few episodes each are
    largely the unlucky ones, and those episodes would show them worse than they are. At least one goal counts.

    Args:
      found: the rates that find the worst goals.
      judged: the rates of the same goals in other episodes.
    """
    worst = np.argsort(found, kind="stable")[: max(1, round(WORST * found.size))]
    return float(judged[worst].mean())


def worst_case_worlds(goals: int) -> int:
    """Counts the worlds in which the worst goals are looked for, per seed."""
    return min(-(-goals // TRIES) * TRIES, MAX_WORLDS)


def make_worst_case(run: Setup, goals: int) -> Callable[..., list[dict[str, float]]]:
    """Compiles the test of the worst goals: `goals` of each achievable module, twice TRIES episodes each.

    The first TRIES of a goal find the worst ones, the others judge them.

    Returns:
      (params, keys, offset), as make_evaluator takes them -> per seed {module: success on the worst tenth of goals}.
    """
    config, number = run.config, -(-goals // TRIES) * TRIES
    worlds = worst_case_worlds(goals)
    run = run._replace(env=run.env.with_worlds(worlds * config.num_seeds))

    def batch(params: PolicyParams, key: jax.Array, trial: jax.Array, module: jax.Array, offset: Any) -> Any:
        """Tries as many goals of a module as there are worlds once: (success [W], overflow [])."""
        modules = run.algorithm.test(jnp.full(worlds, module))
        wanted = jax.vmap(run.env.modules.sample_goal)(jax.random.split(key, worlds), modules)
        policy, exploring = make_policy(run, params), jnp.zeros(worlds, bool)
        episode, overflow = rollout.collect(
            policy,
            run.env,
            run.config.exploration,
            jax.random.fold_in(jax.random.fold_in(key, TRIAL_STREAM), trial),
            modules,
            exploring,
            offset,
            propose=lambda module, obs, goal: rollout.place_goals(run.env.modules, wanted, module, obs),
        )
        return episode.success, overflow

    program = jax.jit(for_seeds(config, batch, (0, 0, None, None, None)))
    fold = for_seeds(config, jax.random.fold_in, (0, None))

    def rates(params: Any, keys: Any, module: Any, offset: Any) -> np.ndarray:
        """Success on as many goals as there are worlds, in episodes that find and in those that judge: [2, S, W]."""
        trials = range(2 * TRIES)
        tries = [jax.device_get(program(params, keys, jnp.int32(t), jnp.int32(module), offset)) for t in trials]
        check_overflow([overflow for _, overflow in tries], len(tries) * worlds * config.num_seeds)
        success = np.array([success for success, _ in tries]).reshape(2, TRIES, config.num_seeds, worlds)
        return success.mean(axis=1)

    def measure(params: Any, keys: Any, offset: Any = None) -> list[dict[str, float]]:
        found: list[dict[str, float]] = [{} for _ in range(config.num_seeds)]
        for module in achievable(run.env):
            own = fold(keys, int(module))
            chunks = [own, *(fold(own, CHUNK_STREAM + c) for c in range(1, -(-number // worlds)))]
            every = np.concatenate([rates(params, chunk, module, offset) for chunk in chunks], axis=2)[..., :number]
            for s, seed in enumerate(found):
                seed[run.env.modules.names[module]] = worst_goals(*every[:, s])
        return found

    return measure


def evaluate(
    config: TrainConfig, env: Env, params: PolicyParams, key: jax.Array, num_episodes: int, trained: int = 0
) -> Result:
    """Evaluates one policy on at least num_episodes episodes, and one per module, spread evenly over the achievable.

    Args:
      trained: training episodes so far; determines whether the perturbation is active.
    """
    num_episodes = max(num_episodes, len(achievable(env)))
    run = setup(dataclasses.replace(config, num_seeds=1, devices=1), env)
    offset = perturbation.offset(config.perturbation, env, trained)
    return make_evaluator(run, min(num_episodes, MAX_WORLDS))(params, key, num_episodes, offset)[0]
