"""Progress as the expected absolute change of a success probability beyond chance, by Bayesian filtering.

The paper names the idea as future work ("Bayesian filtering"). A module's success probability has a Beta posterior
whose evidence fades by 1 - 1/l with every result (exponential forgetting, as in discounted Thompson sampling, Raj and
Kalyani 2017), so that it speaks of about the last l results. A second posterior follows the first one's evidence at the
same rate and so speaks of the results before. Progress is E|θ_now - θ_before|, both taken as normal variables with the
posteriors' means and variances, less what it would be if the means were equal. That part never ends, since evidence
fades: with it, modules that cannot be learned would keep a share of the practice for ever. What is left grows with the
square of a small difference, so that chance counts less than in a difference of two means.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jax.scipy.stats import norm

from curious_jax.config import TrainConfig
from curious_jax.learner.curriculum import CurriculumState, window
from curious_jax.learner.estimators.protocol import Estimator, Results, tally
from curious_jax.types import ModuleTable

PRIOR = 1.0  # of success and of failure: Beta(1, 1) is uniform


@struct.dataclass
class BayesState:
    """Faded numbers of successes and failures, beside the prior's."""

    now: jax.Array  # [M, 2]
    before: jax.Array  # [M, 2]


def moments(evidence: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Gives mean and variance of the Beta posterior: [..., 2] -> [...], [...]."""
    a, b = evidence[..., 0] + PRIOR, evidence[..., 1] + PRIOR
    mean = a / (a + b)
    return mean, mean * (1.0 - mean) / (a + b + 1.0)


def expected_change(now: jax.Array, before: jax.Array) -> jax.Array:
    """Computes E|θ_now - θ_before| beyond what it is for equal means: [..., 2], [..., 2] -> [...], not negative.

    The mean of a folded normal variable of mean Δ and deviation s is 2 s φ(Δ/s) + Δ (1 - 2 Φ(-Δ/s)).
    """
    (mean, variance), (earlier, earlier_variance) = moments(now), moments(before)
    gap, deviation = mean - earlier, jnp.sqrt(variance + earlier_variance)
    z = gap / deviation
    beyond = 2.0 * deviation * (norm.pdf(z) - norm.pdf(0.0)) + gap * (1.0 - 2.0 * norm.cdf(-z))
    return jnp.maximum(beyond, 0.0)


def make(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the estimator."""
    number = modules.num_modules
    forgetting = 1.0 / window(number, config.curriculum)

    def init(key: jax.Array) -> BayesState:
        return BayesState(now=jnp.zeros((number, 2)), before=jnp.zeros((number, 2)))

    def update(state: BayesState, results: Results) -> BayesState:
        """Takes in a cycle's n results at once.

        What is known now changes as by n results equal to their mean, what was known before as if the evidence of now
        had stood at its new value all the while.
        """
        count, solved = tally(results, number)
        kept = (1.0 - forgetting) ** count[:, None]
        share = jnp.stack([solved, count - solved], axis=1) / jnp.maximum(count, 1.0)[:, None]
        now = kept * state.now + (1.0 - kept) / forgetting * share
        return BayesState(now=now, before=kept * state.before + (1.0 - kept) * now)

    def scores(state: BayesState, windows: CurriculumState) -> jax.Array:
        return expected_change(state.now, state.before)

    return Estimator(init, update, scores, predict=lambda state, windows: moments(state.now)[0])
