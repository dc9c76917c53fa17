"""Bidirectional learning progress from moving averages (Kanitscheider et al. 2021, arXiv 2106.14876, Section 3).

A fast average of success follows the results, a slow one follows the fast one, and progress is their distance after a
reweighting f(p) = p(1 - θ) / (p + θ(1 - 2p)) that magnifies differences near 0, where rare first successes are. As OMNI
and Syllabus use it, θ is 0.1.

Both averages start at the success rate of a module's first cycle with results, so that what is solved already is no
progress. They are taken per result and their rate is 2 / (l + 1), which gives them the same mean age as a window of l
results, so that `ema` and `competence` look equally far back. Modules are drawn as CURIOUS draws them.
"""

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner.curriculum import CurriculumState, window
from curious_jax.learner.estimators.protocol import Estimator, Results, tally
from curious_jax.types import ModuleTable

THETA = 0.1


@struct.dataclass
class EmaState:
    """Moving averages of success."""

    fast: jax.Array  # [M]
    slow: jax.Array  # [M]
    seen: jax.Array  # [M] bool, whether there have been results


def reweight(p: jax.Array, theta: float = THETA) -> jax.Array:
    """Computes f(p): 0 and 1 stay, small p grow by up to (1 - θ)/θ."""
    return p * (1.0 - theta) / (p + theta * (1.0 - 2.0 * p))


def make(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the estimator."""
    number = modules.num_modules
    rate = 2.0 / (window(number, config.curriculum) + 1)

    def init(key: jax.Array) -> EmaState:
        return EmaState(fast=jnp.zeros(number), slow=jnp.zeros(number), seen=jnp.zeros(number, bool))

    def update(state: EmaState, results: Results) -> EmaState:
        """Moves both averages by a cycle's n results at once.

        The fast one moves as n results equal to their mean would move it, the slow one as if the fast one had stood at
        its new value all the while.
        """
        count, solved = tally(results, number)
        kept, mean = (1.0 - rate) ** count, solved / jnp.maximum(count, 1.0)
        fast = jnp.where(state.seen, kept * state.fast + (1.0 - kept) * mean, mean)
        slow = jnp.where(state.seen, kept * state.slow + (1.0 - kept) * fast, mean)
        return EmaState(fast=fast, slow=slow, seen=state.seen | (count > 0))

    def scores(state: EmaState, windows: CurriculumState) -> jax.Array:
        return jnp.abs(reweight(state.fast) - reweight(state.slow))

    return Estimator(init, update, scores, predict=lambda state, windows: state.fast)
