"""Proposes goals that are solved half of the time (SFL, Rutherford et al., NeurIPS 2024, arXiv 2408.15099).

A goal's learnability is p(1 - p), p being its probability of success: goals that always or never succeed teach little.
Of uniform goals one is kept in proportion to it, and a fifth of the goals is uniform.

Differences from the source: p comes from a network (`success_model`) trained on the results of self-evaluations,
instead of from rollouts of every candidate; and goals are drawn in proportion to learnability, not from the best of a
large set.
"""

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.learner.estimators.protocol import Results
from curious_jax.learner.goals import protocol
from curious_jax.learner.goals.protocol import Sampler, View
from curious_jax.learner.success_model import ModelState, SuccessModel
from curious_jax.types import ModuleTable

RESULTS = 256  # kept in one ring for all modules, times their number
UNIFORM_SHARE = 0.2


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler:
    """Makes the sampler."""
    model = SuccessModel(modules, RESULTS * modules.num_modules)

    def update(state: ModelState, results: Results) -> ModelState:
        # Not the key that an estimator's model learns with, but the one that it splits off for its third step.
        key = jax.random.fold_in(results.key, 2)
        counted = results.self_evaluation & results.valid
        return model.learn(state, key, results.module, results.goal, results.success, counted, results.cycle)

    def propose(state: ModelState, key: jax.Array, module: jax.Array, obs: jax.Array, view: View) -> jax.Array:
        key_candidates, key_choice = jax.random.split(key)
        candidates = protocol.draw_candidates(modules, key_candidates, module, obs)
        p = model.predict(state, state.params, candidates.module, candidates.now)
        weights = jnp.where(state.size > 0, p * (1.0 - p), 0.0)
        return protocol.choose(key_choice, candidates.goal, weights, UNIFORM_SHARE)

    return Sampler(model.init, propose, update)
