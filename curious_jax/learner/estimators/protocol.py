"""Says what an estimator is: three pure functions, and what they are told of a cycle."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.learner.curriculum import CurriculumState


@struct.dataclass
class Results:
    """Holds what one cycle's episodes showed, in environment order."""

    module: jax.Array  # [E] int32
    goal: jax.Array  # [E, G] as it stood at the end
    success: jax.Array  # [E] bool
    self_evaluation: jax.Array  # [E] bool; such episodes have uniform modules and goals, and no noise
    valid: jax.Array  # [E] bool, as Episode.valid; the others are to be ignored
    first: jax.Array  # [E, O], the first observation
    reached: jax.Array  # [E, G], every module's outcome at the end
    relevant: jax.Array  # [E, M] bool, whether the episode changed a module's outcome
    td_error: jax.Array  # [E], mean |TD error|; zeros unless the estimator asks for it
    key: jax.Array  # for draws of the estimator's own
    cycle: jax.Array  # [] int32, cycles before this one


def tally(results: Results, num_modules: int) -> tuple[jax.Array, jax.Array]:
    """Counts the valid self-evaluations of each module and those that were solved: ([M], [M]) float32."""
    counted = results.self_evaluation & results.valid
    hits = (results.module == jnp.arange(num_modules)[:, None]) & counted  # [M, E]
    return hits.sum(axis=1).astype(jnp.float32), (hits & results.success).sum(axis=1).astype(jnp.float32)


class Estimator(NamedTuple):
    """Says how much each module is worth practising.

    A run asks for scores before every cycle, to select modules, and after its episodes, to replay them. They are not
    negative; modules are drawn in proportion to them, but for the share ε of uniform choice. All equal, all zero or
    not finite means uniform.
    """

    init: Callable[[jax.Array], Any]  # key -> state
    update: Callable[[Any, Results], Any]  # state, results of a cycle -> state
    scores: Callable[[Any, CurriculumState], jax.Array]  # state, windows of self-evaluation results -> [M]
    predict: Callable[[Any, CurriculumState], jax.Array]  # the same -> expected success [M], between 0 and 1
    epsilon: float | None = None  # ε in place of the run's --epsilon, where the source has its own
    wants_td_errors: bool = False
