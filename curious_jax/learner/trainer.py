"""Runs the training cycle of CURIOUS, and whole epochs of it as one compiled program.

`train_cycle` reads beside Algorithm 1 of the paper; everything it changes is in `state.TrainState`.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.learner import (
    batches,
    curriculum,
    devices,
    feedback,
    normalizer,
    perturbation,
    products,
    replay,
    rollout,
)
from curious_jax.learner.state import (
    CycleMetrics,
    Setup,
    TrainState,
    acting_params,
    for_seeds,
    init_one,
    make_policy,
    move_average,
    no_metrics,
    seed_axis,
    seeds,
    setup,
)
from curious_jax.types import Env, LearnerBatch


def train_cycle(run: Setup, state: TrainState) -> tuple[TrainState, CycleMetrics]:
    """Runs one cycle for one seed (Algorithm 1): E episodes, then the updates."""
    config, env, learner, algorithm = run[:4]
    modules, schedule = env.modules, config.schedule
    key, key_choose, key_collect, key_updates = jax.random.split(state.key, 4)
    turn = algorithm.turn(state.learner, schedule, state.cycle, modules.num_modules)

    # Module and goal selection, then E episodes in parallel [lines 4-14].
    worth = run.worth(state.estimator, state.curriculum)
    module, self_evaluation = curriculum.choose(
        state.curriculum, config.curriculum, key_choose, schedule.num_envs, worth
    )
    module = algorithm.practise(module, turn)
    offset = perturbation.offset(config.perturbation, env, state.cycle * schedule.num_envs)
    policy = make_policy(run, acting_params(state))
    propose = feedback.make_proposals(run, state, key_choose, ~self_evaluation)
    episode, overflow = rollout.collect(
        policy, env, config.exploration, key_collect, module, ~self_evaluation, offset, propose
    )

    # Memory, with each episode's relevance to every module [line 15].
    relevant = jax.vmap(modules.relevant)(episode.obs[:, 0], episode.obs[:, -1])
    # The modules that an episode serves in replay.
    serves = relevant if config.hindsight.interest_replay else jnp.ones_like(relevant)
    statistics = normalizer.update(state.normalizer, modules, episode, serves, config.hindsight.probability)
    store = replay.add(state.replay, episode, serves)

    # Self-evaluation results → competence, LP, p_LP [lines 16-19].
    windows = curriculum.update(state.curriculum, module, episode.success, self_evaluation & episode.valid)
    results = feedback.gather(run, state, statistics, episode, self_evaluation, relevant, key_choose)
    estimate = run.estimator.update(state.estimator, results)

    # Module and goal replay, rewards, gradient steps [lines 20-22].
    wanted = algorithm.replay(replay_modules(run, windows, store, run.worth(estimate, windows)), turn)
    draw = batches.make(run, store, statistics, wanted)
    keys = jax.random.split(key_updates, schedule.updates_per_cycle)
    updated, losses = learn(run, draw, algorithm.pick(state.learner, turn), keys)
    updated = algorithm.put(state.learner, turn, learner.end_cycle(updated))
    updated, losses = _if_any(store, (updated, losses), (state.learner, jax.tree.map(jnp.zeros_like, losses)))
    state = TrainState(
        learner=updated,
        normalizer=statistics,
        replay=store,
        curriculum=windows,
        key=key,
        cycle=state.cycle + 1,
        estimator=estimate,
        goals=feedback.learn_goals(run, state.goals, results, updated, draw, statistics),
        average=move_average(config, state.average, updated.actor),
    )
    metrics = CycleMetrics(
        **jax.tree.map(jnp.mean, losses),
        invalid=jnp.sum(~episode.valid).astype(jnp.int32),
        overflow=overflow,
    )
    return state, metrics


def replay_modules(
    run: Setup, windows: curriculum.CurriculumState, store: replay.ReplayState, worth: curriculum.Worth | None = None
) -> jax.Array:
    """Chooses the module that each transition of a batch is for, by p_LP or uniformly: [B] int32."""
    config = run.config
    lp = config.hindsight.replay == "lp"
    p = curriculum.module_probabilities(windows, config.curriculum, lp, valid=store.count > 0, worth=worth)
    return replay.batch_modules(p, config.schedule.batch_size)


def learn(
    run: Setup, draw: Callable[[Any], LearnerBatch], learner_state: Any, keys: jax.Array
) -> tuple[Any, dict[str, jax.Array]]:
    """Makes one gradient step for each key [N]: draw a batch, learn. Returns the learner's state and losses.

    Args:
      draw: as `batches.make` makes it.
    """
    arrangement = run.learner.arrangement

    def update(learner_state, key):
        batch = draw(key)
        with jax.named_scope("gradients"):
            return run.learner.update(learner_state, batch)

    def update_arranged(arranged, now):
        batch = draw(now[0])
        with jax.named_scope("gradients"):
            return arrangement.update(arranged, batch, now[1]), None

    if arrangement is None:
        return jax.lax.scan(update, learner_state, keys)
    number = keys.shape[0]
    now = jax.vmap(batches.split)(keys), arrangement.corrections(learner_state, number)
    arranged, _ = jax.lax.scan(update_arranged, arrangement.pack(learner_state), now)
    return arrangement.unpack(arranged, learner_state, number)


def _if_any(store: replay.ReplayState, learned: Any, before: Any) -> Any:
    """Keeps what was learned, unless every episode so far was invalid: the batches of an empty store are zeros."""
    return jax.tree.map(lambda new, old: jnp.where(store.size > 0, new, old), learned, before)


def train_epoch(
    run: Setup, state: TrainState, total: CycleMetrics, cycles: jax.Array
) -> tuple[TrainState, CycleMetrics]:
    """Runs `cycles` cycles (a traced number: any number shares one program) for all seeds.

    Args:
      total: the sums over the epoch's cycles so far. They are carried on one cycle at a time, so an epoch run in
        slices gives the same bits as one run whole.
    Returns:
      The new state and the sums with these cycles added.
    """
    cycle = for_seeds(run.config, functools.partial(train_cycle, run))

    def body(_, carry):
        state, total = carry
        state, metrics = cycle(state)
        return state, jax.tree.map(jnp.add, total, metrics)

    return jax.lax.fori_loop(0, cycles, body, (state, total))


def init(config: TrainConfig, env: Env) -> TrainState:
    """Makes the state before the first cycle; with several seeds every leaf has a leading axis S."""
    start = for_seeds(config, functools.partial(init_one, setup(config, env)))
    first = jnp.array(seeds(config), jnp.int32).reshape(seed_axis(config))
    return jax.jit(start, out_shardings=devices.everywhere(config.devices))(first)


def lower_epoch(run: Setup, state: TrainState) -> Any:
    """Traces train_epoch, to be compiled to (state, total, cycles) -> (state, total); the state is donated.

    Args:
      state: a state of the run's shapes, or those shapes (jax.eval_shape).
    """
    number = run.config.devices
    everywhere = devices.everywhere(number)
    options = products.compiler_options(run.config)
    epoch = jax.jit(
        functools.partial(train_epoch, run), donate_argnums=0, out_shardings=everywhere, compiler_options=options
    )
    # Of shapes alone, so that a resumed run's program is the same as a new one's.
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=everywhere), state)
    with devices.using(number):
        return epoch.lower(shapes, no_metrics(run.config), jnp.int32(1))


def compile_epoch(run: Setup, state: TrainState) -> Any:
    """Compiles what lower_epoch traced."""
    return lower_epoch(run, state).compile()


@jax.jit
def is_finite(state: TrainState, total: CycleMetrics) -> jax.Array:
    """Tells whether losses and all that the learner holds (parameters, targets, moments) are finite: []."""
    numbers = [x for x in jax.tree.leaves(state.learner) if jnp.issubdtype(x.dtype, jnp.inexact)]
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in (*numbers, total.critic_loss, total.actor_loss)]))
