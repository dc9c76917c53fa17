"""Turns self-evaluation results into competence, learning progress and module choice (CURIOUS, "Active learning").

C_i is the mean of module i's last l results, LP_i the difference to the l before, and modules are drawn
with p_LP(i) = ε/N + (1-ε)·|LP_i| / Σ|LP|.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import CurriculumConfig
from curious_jax.types import FLAT


@struct.dataclass
class CurriculumState:
    """The last 2l self-evaluation results of each module, as rings."""

    results: jax.Array  # [M, 2l] float32, 1 solved, 0 not
    next: jax.Array  # [M] int32, where the next result goes
    count: jax.Array  # [M] int32, results held, at most 2l


def init(num_modules: int, config: CurriculumConfig) -> CurriculumState:
    """Makes empty windows for M modules."""
    return CurriculumState(
        results=jnp.zeros((num_modules, 2 * window(num_modules, config))),
        next=jnp.zeros(num_modules, jnp.int32),
        count=jnp.zeros(num_modules, jnp.int32),
    )


def window(num_modules: int, config: CurriculumConfig) -> int:
    """Returns l, the results per window: as given, or those that `window_span` training episodes bring a module."""
    if config.window_span is None:
        return config.window
    return max(2, round(config.window_span * config.self_evaluation / num_modules))


@jax.named_scope("curriculum")
def update(state: CurriculumState, module: jax.Array, success: jax.Array, counted: jax.Array) -> CurriculumState:
    """Appends the self-evaluation results of one cycle, in environment order.

    Args:
      state: windows.
      module: [E] int32. FLAT asks for every module at once, so its result enters every window.
      success: [E] bool.
      counted: [E] bool: a valid self-evaluation; others leave the windows alone.
    """
    chex.assert_equal_shape((module, success, counted))
    num_modules, size = state.results.shape
    hits = ((module == jnp.arange(num_modules)[:, None]) | (module == FLAT)) & counted  # [M, E]
    rank = jnp.cumsum(hits, axis=1) - 1
    new = hits.sum(axis=1)
    # Of more than 2l results at once the oldest would be overwritten in the same scatter: leave them out.
    stays = hits & (rank >= (new - size)[:, None])
    position = jnp.where(stays, (state.next[:, None] + rank) % size, size)
    rows = jnp.arange(num_modules)[:, None]
    values = jnp.broadcast_to(success.astype(jnp.float32), hits.shape)
    return CurriculumState(
        results=state.results.at[rows, position].set(values, mode="drop"),
        next=(state.next + new) % size,
        count=jnp.minimum(state.count + new, size),
    )


def competence_and_progress(state: CurriculumState) -> tuple[jax.Array, jax.Array]:
    """Returns (C [M], LP [M]): LP_i = C_i - mean of the l results before.

    With n < 2l results l becomes n // 2; with fewer than 3 results both are 0.
    """
    size = state.results.shape[1]
    window = state.count // 2  # n // 2, which is l once the ring is full
    age = (state.next[:, None] - 1 - jnp.arange(size)) % size  # 0 for the newest
    recent = age < window[:, None]
    before = (age >= window[:, None]) & (age < 2 * window[:, None])
    divisor = jnp.maximum(window, 1)
    competence = jnp.sum(state.results * recent, axis=1) / divisor
    earlier = jnp.sum(state.results * before, axis=1) / divisor
    enough = state.count >= 3
    return jnp.where(enough, competence, 0.0), jnp.where(enough, competence - earlier, 0.0)


def probabilities(progress: jax.Array, epsilon: float, valid: jax.Array | None = None) -> jax.Array:
    """Returns p_LP [M] over the valid modules; uniform over them when no LP is positive and finite.

    Args:
      progress: LP [M]; its absolute value counts, so falling competence counts too.
      epsilon: share of uniform choice.
      valid: [M] bool, None for all. With none valid the result is uniform over all modules.
    """
    valid = jnp.ones(progress.shape, bool) if valid is None else valid
    valid = valid | ~valid.any()
    uniform = valid / valid.sum()
    weight = jnp.where(valid, jnp.abs(progress), 0.0)
    total = weight.sum()
    usable = jnp.isfinite(total) & (total > 0)
    share = jnp.where(usable, weight / jnp.where(usable, total, 1.0), uniform)
    return epsilon * uniform + (1.0 - epsilon) * share


class Worth(NamedTuple):
    """Holds what an estimator (learner/estimators) makes of the modules, in place of |LP|."""

    scores: jax.Array  # [M], not negative
    epsilon: float | None = None  # share of uniform choice; None for the run's


def module_probabilities(
    state: CurriculumState,
    config: CurriculumConfig,
    lp: bool,
    valid: jax.Array | None = None,
    worth: Worth | None = None,
) -> jax.Array:
    """Returns p(i) [M] for selection or replay: p_LP, or uniform over the valid modules when lp is False.

    Args:
      worth: an estimator's; None for the paper's, |LP|.
    """
    _, progress = competence_and_progress(state)
    scores, epsilon = (progress, None) if worth is None else worth
    epsilon = config.epsilon if epsilon is None else epsilon
    return probabilities(scores if lp else jnp.zeros_like(progress), epsilon, valid)


def summarize(
    state: CurriculumState, config: CurriculumConfig, worth: Worth | None = None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns (C [M], LP [M], p of selection [M]), as metrics.jsonl reports them."""
    competence, progress = competence_and_progress(state)
    return competence, progress, module_probabilities(state, config, config.selection == "lp", worth=worth)


@jax.named_scope("curriculum")
def choose(
    state: CurriculumState, config: CurriculumConfig, key: jax.Array, num_envs: int, worth: Worth | None = None
) -> tuple[jax.Array, jax.Array]:
    """Draws (module [E] int32, self-evaluation flag [E] bool), one per environment (Algorithm 1, lines 4-5).

    Self-evaluations draw their module uniformly, the others from p_LP or (selection uniform) uniformly too.
    """
    key_flag, key_uniform, key_module = jax.random.split(key, 3)
    num_modules = state.results.shape[0]
    flag = jax.random.bernoulli(key_flag, config.self_evaluation, (num_envs,))
    uniform = jax.random.randint(key_uniform, (num_envs,), 0, num_modules)
    p = module_probabilities(state, config, config.selection == "lp", worth=worth)
    chosen = jax.random.choice(key_module, num_modules, (num_envs,), p=p)
    return jnp.where(flag, uniform, chosen).astype(jnp.int32), flag
