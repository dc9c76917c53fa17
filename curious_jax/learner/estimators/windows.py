"""Estimators that need nothing but the windows of self-evaluation results that every run keeps.

`competence` is CURIOUS (Section 3, "Module and Goal Selection"): |LP_i| = |C_i - mean of the l results before|.
`learnability` is p(1 - p) (Sampling for Learnability, Rutherford et al., NeurIPS 2024), with p = C_i.
`uniform` gives every module the same, and `order` one module after the other, as a teacher with a plan would.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig, canonical
from curious_jax.learner.curriculum import CurriculumState, competence_and_progress
from curious_jax.learner.estimators.protocol import Estimator
from curious_jax.types import ModuleTable

MASTERED = 0.9  # competence from which `order` takes the next module


def _make(scores: Callable[[CurriculumState], jax.Array]) -> Estimator:
    """Makes an estimator without a state of its own."""
    return Estimator(
        init=lambda key: (),
        update=lambda state, results: state,
        scores=lambda state, windows: scores(windows),
        predict=lambda state, windows: competence_and_progress(windows)[0],
    )


def competence(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes CURIOUS's own: the absolute difference between the competence now and before."""
    return _make(lambda windows: jnp.abs(competence_and_progress(windows)[1]))


def learnability(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the variance of success, p(1 - p): largest for modules that are solved half of the time."""

    def scores(windows: CurriculumState) -> jax.Array:
        p, _ = competence_and_progress(windows)
        return p * (1.0 - p)

    return _make(scores)


def uniform(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the control: every module is worth the same."""
    return _make(lambda windows: jnp.ones(modules.num_modules))


def order(config: TrainConfig, modules: ModuleTable) -> Estimator:
    """Makes the control with a plan: the first module of --order that is not mastered; uniform once all are.

    Without --order the plan is the table: --modules, then the distractors.
    """
    names = map(canonical, config.curriculum.order or modules.names)
    planned = jnp.array([modules.names.index(name) for name in names])

    def scores(windows: CurriculumState) -> jax.Array:
        left = competence_and_progress(windows)[0][planned] < MASTERED
        one = jax.nn.one_hot(planned[jnp.argmax(left)], modules.num_modules)
        return jnp.where(left.any(), one, jnp.ones(modules.num_modules))

    return _make(scores)
