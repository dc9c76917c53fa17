"""Holds what a run carries from cycle to cycle, and the fixed parts that it is made of."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner import algorithms, curriculum, ddpg, devices, estimators, goals, normalizer, replay, td3
from curious_jax.types import Env, Learner, Policy

STREAM = 0xE571  # folded into keys for estimator and goals, so that a run without them draws the same numbers


@struct.dataclass
class TrainState:
    """Everything that changes in a cycle (leading axis S with several seeds)."""

    learner: Any
    normalizer: normalizer.NormalizerState
    replay: replay.ReplayState
    curriculum: curriculum.CurriculumState
    key: jax.Array
    cycle: jax.Array  # [] int32, cycles done
    estimator: Any = ()  # what it keeps beside the windows
    goals: Any = ()  # what the goal sampler keeps
    average: Any = ()  # the actor's running average over cycles, where one is asked for


@struct.dataclass
class CycleMetrics:
    """Metrics of one cycle (losses averaged over its updates), or their sum over several cycles."""

    critic_loss: jax.Array  # []
    actor_loss: jax.Array  # []
    q_mean: jax.Array  # []
    invalid: jax.Array  # [] int32, episodes that left the finite range or in which the physics lost contacts
    overflow: jax.Array  # [] int32, the latter alone


@struct.dataclass
class PolicyParams:
    """Everything that acting needs: a few hundred kilobytes."""

    actor: Any
    normalizer: normalizer.NormalizerState


class Setup(NamedTuple):
    """The fixed parts of a run."""

    config: TrainConfig
    env: Env
    learner: Learner
    algorithm: algorithms.Algorithm
    estimator: estimators.Estimator
    goals: goals.Sampler | None  # None: the modules' own, uniform goals

    def worth(self, state: Any, windows: curriculum.CurriculumState) -> curriculum.Worth:
        """Asks the estimator what the modules are worth.

        Args:
          state: the estimator's.
        """
        return curriculum.Worth(self.estimator.scores(state, windows), self.estimator.epsilon)


def setup(config: TrainConfig, env: Env) -> Setup:
    """Builds learner, estimator and goal sampler for this environment's sizes.

    Raises:
      ConfigError: on an estimator or goal sampler that nobody registered.
    """
    modules = env.modules
    sizes = env.obs_size + modules.goal_size + modules.num_modules, env.action_size
    # The packed update joins arrays along the axis that several devices share, which they would have to exchange.
    settings = dataclasses.replace(config.ddpg, packed=config.ddpg.packed and devices.count(config.devices) == 1)
    if config.learner == "td3":
        learner = td3.make(config.network, settings, config.td3, *sizes)
    else:
        learner = ddpg.make(config.network, settings, *sizes)
    algorithm = algorithms.ALGORITHMS[config.algorithm]
    return Setup(
        config,
        env,
        algorithm.extend(learner, modules.num_modules),
        algorithm,
        estimators.make(config, modules),
        goals.make(config, modules, *sizes),
    )


def init_one(run: Setup, seed: jax.Array) -> TrainState:
    """Makes the state of one seed before its first cycle."""
    config, env, learner = run.config, run.env, run.learner
    key = jax.random.key(seed)
    key_learner, key_run = jax.random.split(key)
    key_estimator, key_goals = jax.random.split(jax.random.fold_in(key, STREAM))
    modules = env.modules
    first = learner.init(key_learner)
    return TrainState(
        learner=first,
        normalizer=normalizer.init(env.obs_size, modules.goal_size),
        replay=replay.init(
            config.schedule.capacity,
            env.episode_length,
            env.obs_size,
            env.action_size,
            modules.goal_size,
            modules.num_modules,
        ),
        curriculum=curriculum.init(modules.num_modules, config.curriculum),
        key=key_run,
        cycle=jnp.zeros((), jnp.int32),
        estimator=run.estimator.init(key_estimator),
        goals=run.goals.init(key_goals) if run.goals else (),
        average=jax.tree.map(jnp.copy, first.actor) if averages(config) else (),
    )


def averages(config: TrainConfig) -> bool:
    """Says whether the policy that is evaluated and kept is a running average of the actor."""
    return config.ddpg.policy_average < 1.0


def move_average(config: TrainConfig, average: Any, actor: Any) -> Any:
    """Moves the running average towards the actor of this cycle, where one is asked for."""
    return ddpg.average(average, actor, config.ddpg.policy_average) if averages(config) else average


def policy_params(state: TrainState) -> PolicyParams:
    """Takes out of a training state what is evaluated, kept and played: the actor, or its running average."""
    has_average = not isinstance(state.average, tuple) or len(state.average) > 0  # () where none is asked for
    actor = state.average if has_average else state.learner.actor
    return PolicyParams(actor=actor, normalizer=state.normalizer)


def acting_params(state: TrainState) -> PolicyParams:
    """Takes out of a training state what plays the episodes of training: the actor as it is now."""
    return PolicyParams(actor=state.learner.actor, normalizer=state.normalizer)


def make_policy(run: Setup, params: PolicyParams) -> Policy:
    """Makes the noise-free policy, a function of observation, goal and module."""

    def act(obs: jax.Array, goal: jax.Array, module: jax.Array) -> jax.Array:
        inputs = normalizer.policy_input(params.normalizer, run.config.normalizer, run.env.modules, obs, goal, module)
        return run.learner.act(params.actor, inputs)

    return act


# One seed has no leading axis: XLA's CPU programs for an axis of one are other programs, and TD3's delayed actor would
# be computed at every update. The functions below are the only ones that tell one seed from several.


def seeds(config: TrainConfig) -> list[int]:
    """Lists the seeds of this run."""
    return list(range(config.seed, config.seed + config.num_seeds))


def seed_axis(config: TrainConfig) -> tuple[int, ...]:
    """Gives the leading axes of a run's arrays: (S,) for several seeds, none for one."""
    return (config.num_seeds,) if config.num_seeds > 1 else ()


def for_seeds(config: TrainConfig, function: Callable[..., Any], in_axes: Any = 0) -> Callable[..., Any]:
    """Turns a function of one seed into one of all the run's seeds."""
    return jax.vmap(function, in_axes) if seed_axis(config) else function


def by_seed(config: TrainConfig, values: Any) -> np.ndarray:
    """Brings values to the host with a leading axis S, for one seed as for several."""
    values = np.asarray(values)
    return values.reshape(config.num_seeds, *values.shape[len(seed_axis(config)) :])


def one_or_all(config: TrainConfig, values: Any) -> Any:
    """Gives the only seed's value, or the list over seeds, as JSON files have them."""
    return list(values) if seed_axis(config) else values[0]


def no_metrics(config: TrainConfig) -> CycleMetrics:
    """Makes the sums over no cycles, with a leading axis S for several seeds."""
    zero, none = jnp.zeros(seed_axis(config)), jnp.zeros(seed_axis(config), jnp.int32)
    return CycleMetrics(critic_loss=zero, actor_loss=zero, q_mean=zero, invalid=none, overflow=none)
