"""Proposes goals where success changes: ALP-GMM (Portelas et al., CoRL 2019, arXiv 1910.07224).

An episode's absolute learning progress is ALP = |r_new - r_old|, r_old being the result of the nearest earlier goal. A
Gaussian mixture is fitted to a module's recent (goal, ALP); a component is drawn in proportion to its mean ALP, α_k,
and a goal from the component. A fifth of the goals is uniform.

Differences from the source: results are those of self-evaluations, which act without noise and without guides, on
uniform goals. The number of components is fixed instead of chosen by AIC. The mixture is fitted after every cycle,
from seeds that lie far apart, with a fixed number of EM steps. The earlier goals are the last MOST of the module.
Goals are drawn by resampling: of uniform ones, one is kept in proportion to Σ_k α_k N(g | μ_k, Σ_k), so that it lies
in the goal space. With results of 0 and 1, luck counts as progress.
"""

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import TrainConfig
from curious_jax.learner.estimators.protocol import Results
from curious_jax.learner.goals import protocol, recent
from curious_jax.learner.goals.protocol import Sampler, View
from curious_jax.learner.goals.recent import RecentState
from curious_jax.types import ModuleTable

COMPONENTS = 4  # K
STEPS = 10  # of EM
REGULAR = 1e-2  # added to the variances, of goals in their deviations and of ALP
FEWEST = 32  # results below which goals are uniform
UNIFORM_SHARE = 0.2


@struct.dataclass
class Mixture:
    """A Gaussian mixture, with covariances as what whitens them: W = L⁻¹ for Σ = L Lᵀ."""

    share: jax.Array  # [..., K]
    mean: jax.Array  # [..., K, d]
    whiten: jax.Array  # [..., K, d, d], lower triangles


def measure_progress(state: RecentState, part: jax.Array, module: jax.Array, result: jax.Array) -> jax.Array:
    """Computes ALP = |r_new - r_old|; 0 without an earlier goal: [E, D], [E], [E] -> [E].

    Distances are in deviations of the module's earlier goals.
    """
    held = recent.held(state)
    _, deviation = recent.spread(state.entries["goal"], held)
    gap = (state.entries["goal"][module] - part[:, None]) / deviation[module][:, None]  # [E, R, D]
    distance = jnp.where(held[module], jnp.square(gap).sum(axis=-1), jnp.inf)
    before = state.entries["result"][module, jnp.argmin(distance, axis=1)]
    return jnp.where(state.size[module] > 0, jnp.abs(result - before), 0.0)


def log_density(mean: jax.Array, whiten: jax.Array, x: jax.Array) -> jax.Array:
    """Computes log N(x | μ_k, Σ_k): [K, d], [K, d, d], [d] -> [K]."""
    z = (whiten * (x - mean)[:, None, :]).sum(axis=-1)
    scale = jnp.log(jnp.diagonal(whiten, axis1=-2, axis2=-1)).sum(axis=-1)
    return scale - 0.5 * (jnp.square(z).sum(axis=-1) + x.shape[-1] * jnp.log(2 * jnp.pi))


def fit(data: jax.Array, held: jax.Array) -> Mixture:
    """Fits a mixture to the data that are held: [R, d], [R] bool -> [K, ...]."""

    def maximise(responsibility: jax.Array) -> Mixture:
        """Makes the mixture of these responsibilities [R, K]."""
        count = responsibility.sum(axis=0)
        part = responsibility / jnp.maximum(count, 1e-6)
        mean = jnp.einsum("rk,ri->ki", part, data, precision="highest")
        centred = data[:, None] - mean
        covariance = jnp.einsum("rk,rki,rkj->kij", part, centred, centred, precision="highest")
        low = jnp.linalg.cholesky(covariance + REGULAR * jnp.eye(data.shape[1]))
        eye = jnp.broadcast_to(jnp.eye(data.shape[1]), low.shape)
        whiten = jax.scipy.linalg.solve_triangular(low, eye, lower=True)
        return Mixture(share=count / jnp.maximum(held.sum(), 1), mean=mean, whiten=whiten)

    def step(mixture: Mixture, _: None) -> tuple[Mixture, None]:
        log_p = jax.vmap(log_density, (None, None, 0))(mixture.mean, mixture.whiten, data)
        responsibility = jax.nn.softmax(log_p + jnp.log(jnp.maximum(mixture.share, 1e-12)), axis=1)
        return maximise(jnp.where(held[:, None], responsibility, 0.0)), None

    nearest = _squared(data, _scatter(data, held)).argmin(axis=1)
    first = maximise(jnp.where(held[:, None], jax.nn.one_hot(nearest, COMPONENTS), 0.0))
    return jax.lax.scan(step, first, None, length=STEPS)[0]


def _squared(data: jax.Array, seeds: jax.Array) -> jax.Array:
    """Computes squared distances: [R, d], [K, d] -> [R, K]."""
    return jnp.square(data[:, None] - seeds).sum(axis=-1)


def _scatter(data: jax.Array, held: jax.Array) -> jax.Array:
    """Picks seeds, the newest entry and then the one farthest from all before: [R, d], [R] -> [K, d]."""
    seeds = data[-1:]
    for _ in range(COMPONENTS - 1):
        far = jnp.where(held, _squared(data, seeds).min(axis=1), -1.0)
        seeds = jnp.concatenate([seeds, data[jnp.argmax(far)][None]])
    return seeds


def weigh(mixture: Mixture, part: jax.Array) -> jax.Array:
    """Computes Σ_k α_k N(g | μ_k, Σ_k), up to a factor, for one module's candidates: [C, D] -> [C].

    Args:
      mixture: of goal and ALP, [K, D + 1]. Zeros come of one without progress.
    """
    size = part.shape[-1]
    progress = jnp.maximum(mixture.mean[:, -1], 0.0)  # α
    log_p = jax.vmap(log_density, (None, None, 0))(mixture.mean[:, :size], mixture.whiten[:, :size, :size], part)
    log_weight = jax.nn.logsumexp(log_p + jnp.log(progress), axis=1)
    largest = log_weight.max()
    return jnp.where(jnp.isfinite(largest), jnp.exp(log_weight - jnp.where(jnp.isfinite(largest), largest, 0.0)), 0.0)


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler:
    """Makes the sampler."""
    number, size = modules.num_modules, protocol.own_slots(modules)[0].shape[1]

    def init(key: jax.Array) -> RecentState:
        return recent.init(number, {"goal": (size,), "result": (), "progress": ()})

    def update(state: RecentState, results: Results) -> RecentState:
        part = protocol.own_part(modules, results.goal, results.module)
        result = results.success.astype(jnp.float32)
        progress = measure_progress(state, part, results.module, result)
        counted = (results.module == jnp.arange(number)[:, None]) & results.self_evaluation & results.valid
        return recent.add(state, counted, goal=part, result=result, progress=progress)

    def propose(state: RecentState, key: jax.Array, module: jax.Array, obs: jax.Array, view: View) -> jax.Array:
        key_candidates, key_choice = jax.random.split(key)
        candidates = protocol.draw_candidates(modules, key_candidates, module, obs)
        held = recent.held(state)
        mean, deviation = recent.spread(state.entries["goal"], held)
        scaled = (state.entries["goal"] - mean[:, None]) / deviation[:, None]
        mixture = jax.vmap(fit)(jnp.concatenate([scaled, state.entries["progress"][..., None]], axis=-1), held)
        part = protocol.own_part(modules, candidates.now, candidates.module)
        part = (part - mean[module][:, None]) / deviation[module][:, None]
        weights = jax.vmap(weigh)(jax.tree.map(lambda x: x[module], mixture), part)
        weights = jnp.where(state.size[module][:, None] < FEWEST, 0.0, weights)
        return protocol.choose(key_choice, candidates.goal, weights, UNIFORM_SHARE)

    return Sampler(init, propose, update)
