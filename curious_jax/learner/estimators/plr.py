"""Prioritised Level Replay with modules as levels (Jiang et al., ICML 2021, arXiv 2010.03934, Section 3).

A module's score is the mean |TD error| of the exploring episodes that were last collected for it. Modules are drawn
from (1 - ρ)·P_S + ρ·P_C: P_S in proportion to (1 / rank of the score)^(1/β), P_C to staleness, the cycles since a
module was last drawn. β = 0.1 and ρ = 0.3 are the paper's for Procgen, and there is no other uniform share. A module
without a score ranks first.
"""

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner.curriculum import competence_and_progress
from curious_jax.learner.estimators.protocol import Estimator, Results
from curious_jax.types import ModuleTable

TEMPERATURE = 0.1  # β
STALENESS = 0.3  # ρ


@struct.dataclass
class PlrState:
    """Holds what is known of each module."""

    score: jax.Array  # [M], infinite before the first episode
    stale: jax.Array  # [M], cycles since a module was last drawn


def weights(score: jax.Array, stale: jax.Array) -> jax.Array:
    """Computes (1 - ρ)·P_S + ρ·P_C: [M], [M] -> [M], which adds up to 1."""
    rank = 1 + (score[None, :] > score[:, None]).sum(axis=1)  # equal scores share a rank
    by_rank = (1.0 / rank) ** (1.0 / TEMPERATURE)
    by_rank = by_rank / by_rank.sum()
    total = stale.sum()
    by_staleness = jnp.where(total > 0, stale / jnp.maximum(total, 1.0), by_rank)
    return (1.0 - STALENESS) * by_rank + STALENESS * by_staleness


def make(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the estimator."""
    number = modules.num_modules

    def init(key: jax.Array) -> PlrState:
        return PlrState(score=jnp.full(number, jnp.inf), stale=jnp.zeros(number))

    def update(state: PlrState, results: Results) -> PlrState:
        own = (results.module == jnp.arange(number)[:, None]) & ~results.self_evaluation & results.valid  # [M, E]
        count = own.sum(axis=1)
        mean = jnp.where(own, results.td_error, 0.0).sum(axis=1) / jnp.maximum(count, 1)
        return PlrState(
            score=jnp.where(count > 0, mean, state.score), stale=jnp.where(count > 0, 0.0, state.stale + 1.0)
        )

    return Estimator(
        init,
        update,
        scores=lambda state, windows: weights(state.score, state.stale),
        predict=lambda state, windows: competence_and_progress(windows)[0],
        epsilon=0.0,
        wants_td_errors=True,
    )
