"""Progress from a learned model of competence (MAGELLAN, Gaven et al., ICML 2025, arXiv 2502.07709, in small).

A network predicts the success of (module, goal, time) from self-evaluation results, so that what is learned about one
goal is known of its neighbours. Progress of a module is the mean over some of its goals of |prediction now - prediction
of a lagged copy|. The copy is between K and 2K cycles old, K being about the cycles that bring a module l results.
Until it is a copy of a network that has learned for K cycles, no module has progress, and all are alike.

The goals that are asked about are drawn once, uniformly, but for a module whose goals stand elsewhere than they were
drawn (stack's moves with its base): there they are those of the results that the network learns from, where there are
any.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner.curriculum import CurriculumState, window
from curious_jax.learner.estimators.protocol import Estimator, Results
from curious_jax.learner.success_model import ModelState, SuccessModel
from curious_jax.types import ModuleTable

GOALS = 32  # per module, over which predictions are averaged
MOST = 4096  # results kept at most


@struct.dataclass
class LaggedState:
    """The model, two copies of its parameters, and the goals that it is asked about."""

    model: ModelState
    newer: Any  # less than K cycles old
    older: Any  # K cycles older than that
    goals: jax.Array  # [M, GOALS, G]
    copies: jax.Array  # [] int32, copies taken so far


def make(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the estimator."""
    number, windows_l = modules.num_modules, window(modules.num_modules, config.curriculum)
    per_cycle = max(config.curriculum.self_evaluation * config.schedule.num_envs, 1e-6)
    lag = max(1, min(10**6, math.ceil(windows_l * number / per_cycle)))  # K
    model = SuccessModel(modules, min(MOST, 2 * windows_l * number))

    def init(key: jax.Array) -> LaggedState:
        key_model, key_goals = jax.random.split(key)
        keys = jax.random.split(key_goals, (number, GOALS))
        goals = jax.vmap(jax.vmap(modules.sample_goal, (0, None)))(keys, jnp.arange(number))
        state = model.init(key_model)
        newer, older = (jax.tree.map(jnp.copy, state.params) for _ in range(2))
        return LaggedState(model=state, newer=newer, older=older, goals=goals, copies=jnp.int32(0))

    def update(state: LaggedState, results: Results) -> LaggedState:
        counted = results.self_evaluation & results.valid
        shown = (results.module, results.goal, results.success, counted)
        due = (results.cycle % lag == 0) & (results.cycle > 0)
        keep = lambda new, old: jax.tree.map(lambda a, b: jnp.where(due, a, b), new, old)  # noqa: E731
        older, newer = keep(state.newer, state.older), keep(state.model.params, state.newer)
        learned = model.learn(state.model, results.key, *shown, results.cycle)
        return state.replace(model=learned, older=older, newer=newer, copies=state.copies + due)

    def ask(state: LaggedState, params: Any) -> jax.Array:
        """Gives the predictions [M, GOALS]."""
        module = jnp.broadcast_to(jnp.arange(number)[:, None], state.goals.shape[:2])
        return model.predict(state.model, params, module, goals(state))

    def goals(state: LaggedState) -> jax.Array:
        """Gives the goals that are asked about [M, GOALS, G]."""
        if not any(modules.moving):
            return state.goals
        shown, count = model.newest(state.model, number, GOALS)
        return jnp.where((jnp.array(modules.moving) & (count > 0))[:, None, None], shown, state.goals)

    def scores(state: LaggedState, windows: CurriculumState) -> jax.Array:
        progress = jnp.abs(ask(state, state.model.params) - ask(state, state.older)).mean(axis=1)
        return jnp.where(state.copies >= 2, progress, 0.0)  # the first copy is the newer one until there is another

    def predict(state: LaggedState, windows: CurriculumState) -> jax.Array:
        return ask(state, state.model.params).mean(axis=1)

    return Estimator(init, update, scores, predict)
