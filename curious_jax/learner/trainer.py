"""The training cycle of CURIOUS as one compiled function, and the host loop around it.

`train_cycle` reads beside Algorithm 1 of the paper; everything it changes is in `TrainState`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner import (
    curriculum,
    ddpg,
    devices,
    experts,
    hindsight,
    normalizer,
    perturbation,
    replay,
    rollout,
    td3,
)
from curious_jax.types import FLAT, Env, Learner, LearnerBatch, Transition


@struct.dataclass
class TrainState:
    """All that a run carries from one cycle to the next (leading axis S with several seeds)."""

    learner: Any
    normalizer: normalizer.NormalizerState
    replay: replay.ReplayState
    curriculum: curriculum.CurriculumState
    key: jax.Array
    cycle: jax.Array  # [] int32, cycles done


@struct.dataclass
class CycleMetrics:
    """What one cycle reports, losses as means over its updates; or the sums of that over cycles."""

    critic_loss: jax.Array  # []
    actor_loss: jax.Array  # []
    q_mean: jax.Array  # []
    invalid: jax.Array  # [] int32, episodes that left the finite range
    overflow: jax.Array  # [] int32, 1 when a physics buffer ran out


@struct.dataclass
class Policy:
    """All that acting needs: a few hundred kilobytes."""

    actor: Any
    normalizer: normalizer.NormalizerState


class Setup(NamedTuple):
    """The fixed parts of a run."""

    config: TrainConfig
    env: Env
    learner: Learner


def setup(config: TrainConfig, env: Env) -> Setup:
    """Builds the learner for this environment's sizes; MG-ME's is one per module."""
    modules = env.modules
    sizes = env.obs_size + modules.goal_size + modules.num_modules, env.action_size
    if config.learner == "td3":
        learner = td3.make(config.network, config.ddpg, config.td3, *sizes)
    else:
        learner = ddpg.make(config.network, config.ddpg, *sizes)
    if config.algorithm == "mgme":
        learner = experts.make(learner, modules.num_modules)
    return Setup(config, env, learner)


def init_one(run: Setup, seed: jax.Array) -> TrainState:
    """The state before the first cycle of one seed."""
    config, env, learner = run
    key_learner, key_run = jax.random.split(jax.random.key(seed))
    modules = env.modules
    return TrainState(
        learner=learner.init(key_learner),
        normalizer=normalizer.init(env.obs_size, modules.goal_size),
        replay=replay.init(config.schedule.capacity, *store_shape(env)),
        curriculum=curriculum.init(modules.num_modules, config.curriculum),
        key=key_run,
        cycle=jnp.zeros((), jnp.int32),
    )


def store_shape(env: Env) -> tuple[int, int, int, int, int]:
    """What replay.init and replay.bytes_needed want after the capacity."""
    modules = env.modules
    return env.episode_length, env.obs_size, env.action_size, modules.goal_size, modules.num_modules


def seeds(config: TrainConfig) -> list[int]:
    """The seeds of this run."""
    return list(range(config.seed, config.seed + config.num_seeds))


def init(config: TrainConfig, env: Env) -> TrainState:
    """The state before the first cycle; with several seeds every leaf has a leading axis S."""
    run = setup(config, env)
    one = functools.partial(init_one, run)
    place = devices.everywhere(config.devices)
    if config.num_seeds == 1:
        return jax.jit(one, out_shardings=place)(config.seed)
    return jax.jit(jax.vmap(one), out_shardings=place)(jnp.array(seeds(config)))


def acting(run: Setup, policy: Policy) -> rollout.Policy:
    """The noise-free policy as a function of observation, goal and module."""

    def act(obs: jax.Array, goal: jax.Array, module: jax.Array) -> jax.Array:
        inputs = normalizer.policy_input(policy.normalizer, run.config.normalizer, run.env.modules, obs, goal, module)
        return run.learner.act(policy.actor, inputs)

    return act


def policy(state: TrainState) -> Policy:
    """The acting part of a training state."""
    return Policy(actor=state.learner.actor, normalizer=state.normalizer)


def train_cycle(run: Setup, state: TrainState) -> tuple[TrainState, CycleMetrics]:
    """One cycle of CURIOUS for one seed (Algorithm 1): E episodes, then the updates."""
    config, env, learner = run
    modules, schedule = env.modules, config.schedule
    key, key_choose, key_collect, key_updates = jax.random.split(state.key, 4)

    # Module and goal selection, then E episodes in parallel [lines 4-14].
    module, self_evaluation = curriculum.choose(state.curriculum, config.curriculum, key_choose, schedule.num_envs)
    module = _asked_for(run, state, module)
    offset = perturbation.offset(config.perturbation, env, state.cycle * schedule.num_envs)
    actor = acting(run, policy(state))
    episode, overflow = rollout.collect(actor, env, config.exploration, key_collect, module, ~self_evaluation, offset)

    # Memory, with each episode's relevance to every module [line 15].
    relevant = jax.vmap(modules.relevant)(episode.obs[:, 0], episode.obs[:, -1])
    if not config.hindsight.interest_replay:
        relevant = jnp.ones_like(relevant)
    statistics = normalizer.update(state.normalizer, modules, episode, relevant, config.hindsight.probability)
    store = replay.add(state.replay, episode, relevant)

    # Self-evaluation results → competence, LP, p_LP [lines 16-19].
    windows = curriculum.update(state.curriculum, module, episode.success, self_evaluation & episode.valid)

    # Module and goal replay, rewards, gradient steps [lines 20-22].
    update = update_step(run, store, statistics, _replayed(run, state, windows, store))
    keys = jax.random.split(key_updates, schedule.updates_per_cycle)
    learner_state, losses = jax.lax.scan(update, in_training(run, state), keys)
    updated = _trained(run, state, learner.end_cycle(learner_state))
    updated, losses = _if_any(store, (updated, losses), (state.learner, jax.tree.map(jnp.zeros_like, losses)))
    state = TrainState(
        learner=updated,
        normalizer=statistics,
        replay=store,
        curriculum=windows,
        key=key,
        cycle=state.cycle + 1,
    )
    metrics = CycleMetrics(
        **jax.tree.map(jnp.mean, losses),
        invalid=jnp.sum(~episode.valid).astype(jnp.int32),
        overflow=overflow.astype(jnp.int32),
    )
    return state, metrics


def update_step(
    run: Setup, store: replay.ReplayState, statistics: normalizer.NormalizerState, wanted: jax.Array
) -> Callable[[Any, jax.Array], tuple[Any, dict[str, jax.Array]]]:
    """One gradient step, (learner state, key) -> (learner state, losses): a batch is drawn, rewritten and learned from.

    Args:
      wanted: [B] int32, the module that each transition is for.
    """

    def update(learner_state, key):
        key_sample, key_substitute = jax.random.split(key)
        batch_of = devices.split(_drawn(run, store, key_sample, wanted))
        batch = hindsight.substitute(store, run.env.modules, run.config.hindsight, key_substitute, *batch_of)
        batch = networks_view(run, statistics, batch)
        with jax.named_scope("gradients"):
            return run.learner.update(learner_state, batch)

    return update


def _if_any(store: replay.ReplayState, learned: Any, before: Any) -> Any:
    """What was learned, unless every episode so far was invalid: the store is then empty, and its batches zeros."""
    return jax.tree.map(lambda new, old: jnp.where(store.size > 0, new, old), learned, before)


# Where the baselines differ: the modules practised and replayed, and MG-ME's expert in training.


def _turn(run: Setup, state: TrainState) -> jax.Array:
    """[] int32: whose turn it is among MG-ME's experts."""
    return experts.turn(run.config.schedule, state.learner.order, state.cycle, run.env.modules.num_modules)


def _asked_for(run: Setup, state: TrainState, module: jax.Array) -> jax.Array:
    """[E] -> [E]: the chosen modules; the flat goal for HER, for MG-ME the module of the expert in training."""
    if run.config.algorithm == "her":
        return jnp.full_like(module, FLAT)
    if run.config.algorithm == "mgme":
        return jnp.full_like(module, _turn(run, state))
    return module


def _replayed(
    run: Setup, state: TrainState, windows: curriculum.CurriculumState, store: replay.ReplayState
) -> jax.Array:
    """The module that each transition of a batch is for, [B]; for MG-ME that of the expert in training."""
    config = run.config
    if config.algorithm == "mgme":
        return jnp.full(config.schedule.batch_size, _turn(run, state), jnp.int32)
    lp = config.hindsight.replay == "lp"
    p = curriculum.module_probabilities(windows, config.curriculum, lp, valid=store.count > 0)
    return replay.batch_modules(p, config.schedule.batch_size)


def _drawn(
    run: Setup, store: replay.ReplayState, key: jax.Array, wanted: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(module, slot, t), [B] each, of a batch; with replay `own` (HER's) from any episode, for its own module."""
    if run.config.hindsight.replay == "own":
        slot, t = replay.sample_any(store, key, run.config.schedule.batch_size)
        return store.module[slot], slot, t
    return wanted, *replay.sample(store, key, wanted)


def in_training(run: Setup, state: TrainState) -> Any:
    """The learner's state that this cycle's updates are for: of MG-ME's experts the one whose turn it is."""
    return experts.pick(state.learner, _turn(run, state)) if run.config.algorithm == "mgme" else state.learner


def _trained(run: Setup, state: TrainState, updated: Any) -> Any:
    """The learner's whole state after the updates of the part `in_training`."""
    return experts.put(state.learner, _turn(run, state), updated) if run.config.algorithm == "mgme" else updated


def networks_view(run: Setup, statistics: normalizer.NormalizerState, batch: Transition) -> LearnerBatch:
    view = functools.partial(normalizer.policy_input, statistics, run.config.normalizer, run.env.modules)
    return LearnerBatch(
        inputs=view(batch.obs, batch.goal, batch.module),
        action=batch.action,
        reward=batch.reward,
        next_inputs=view(batch.next_obs, batch.next_goal, batch.module),
    )


def no_metrics(config: TrainConfig) -> CycleMetrics:
    """The sums over no cycles at all, with a leading axis S for several seeds."""
    shape = (config.num_seeds,) if config.num_seeds > 1 else ()
    return CycleMetrics(*(jnp.zeros(shape),) * 3, *(jnp.zeros(shape, jnp.int32),) * 2)


def train_epoch(
    run: Setup, state: TrainState, total: CycleMetrics, cycles: jax.Array
) -> tuple[TrainState, CycleMetrics]:
    """`cycles` cycles (a traced number: any number shares one program) for all seeds.

    Args:
      total: the sums over the epoch's cycles so far. They are carried on one cycle at a time, so an epoch run in
        slices gives the same bits as one run whole.
    Returns:
      The new state and the sums with these cycles added.
    """
    cycle = functools.partial(train_cycle, run)
    cycle = jax.vmap(cycle) if run.config.num_seeds > 1 else cycle

    def body(_, carry):
        state, total = carry
        state, metrics = cycle(state)
        return state, jax.tree.map(jnp.add, total, metrics)

    return jax.lax.fori_loop(0, cycles, body, (state, total))


def lowered_epoch(run: Setup, state: TrainState) -> Any:
    """train_epoch ready to be compiled, to (state, total, cycles) -> (state, total); the state is donated.

    Args:
      state: a state of the run's shapes, or those shapes (jax.eval_shape).
    """
    number = run.config.devices
    everywhere = devices.everywhere(number)
    epoch = jax.jit(functools.partial(train_epoch, run), donate_argnums=0, out_shardings=everywhere)
    # Of shapes alone, so that a resumed run's program is the same as a new one's.
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere), state)
    with devices.using(number):
        return epoch.lower(shapes, no_metrics(run.config), jnp.int32(1))


def compiled_epoch(run: Setup, state: TrainState) -> Any:
    """lowered_epoch, compiled."""
    return lowered_epoch(run, state).compile()


def finite(state: TrainState, total: CycleMetrics) -> jax.Array:
    """[]: are losses and all that the learner holds (parameters, targets, moments) finite?"""
    numbers = [x for x in jax.tree.leaves(state.learner) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in (*numbers, total.critic_loss, total.actor_loss)]))
