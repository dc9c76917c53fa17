"""Proposes goals in regions where success changes (SAGG-RIAC, Baranes and Oudeyer, 2013, arXiv 1301.4862).

CURIOUS suggests it for goals within a module. The interest of a region is |mean of its later half of results - mean of
its earlier half|. Regions are split along the axis and at the place that maximise |R1|·|R2|·|interest(R1) -
interest(R2)|. A region is drawn in proportion to its interest and a goal uniformly in it (the source's first mode), or
a goal uniformly in the whole space (its second mode).

As in the authors' program results are those of self-evaluations, which act without noise.

Differences from the source: a tree of fixed depth is split from the last results after every cycle, instead of one
that grows; the third mode, goals near the least competent one of a region, is left out. A region is drawn by
resampling: of uniform goals, one is kept in proportion to its region's interest over the region's share of them.
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

DEPTH = 3  # splits on the way to a region
LEAVES = 2**DEPTH
QUANTILES = (0.25, 0.5, 0.75)  # of a region's goals, where it may be split
FEWEST = 8  # results of a region
UNIFORM_SHARE = 0.2


@struct.dataclass
class Tree:
    """Splits level by level, and the interest of the regions. Goals from the threshold on are in the second half."""

    axis: jax.Array  # [..., LEAVES - 1] int32
    threshold: jax.Array  # [..., LEAVES - 1], infinite for a region that is not split
    interest: jax.Array  # [..., LEAVES]


def measure_interest(result: jax.Array, inside: jax.Array) -> jax.Array:
    """Computes |mean of the later half - mean of the earlier half|: [R] by age, [..., R] bool -> [...]."""
    rank = _count_up(inside)
    half = rank[..., -1:] // 2  # an odd number's middle one is left out
    later, earlier = inside & (rank > rank[..., -1:] - half), inside & (rank <= half)
    change = jnp.where(later, result, 0.0).sum(axis=-1) - jnp.where(earlier, result, 0.0).sum(axis=-1)
    return jnp.abs(change) / jnp.maximum(half[..., 0], 1.0)


def _count_up(inside: jax.Array) -> jax.Array:
    """Counts along the last axis; as a product with a triangle, for which XLA's programs are faster than for cumsum."""
    return inside.astype(jnp.float32) @ jnp.triu(jnp.ones((inside.shape[-1],) * 2))


def split(part: jax.Array, order: jax.Array, result: jax.Array, inside: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Splits a region where that is best: [R, D], [R, D], [R], [R] bool -> (axis [], threshold []).

    Args:
      order: what sorts the goals along each axis.
    """
    rank = _count_up(inside[order].T)  # [D, R], among the region's goals
    place = jnp.ceil(jnp.array(QUANTILES) * (rank[0, -1] - 1)) + 1
    found = jnp.argmax(rank >= place[:, None, None], axis=-1)  # [Q, D]
    axes = jnp.arange(part.shape[1])
    threshold = part[order[found, axes], axes]
    second = inside & (part.T >= threshold[..., None])  # [Q, D, R]
    first = inside & ~second
    sizes = first.sum(axis=-1), second.sum(axis=-1)
    gap = jnp.abs(measure_interest(result, first) - measure_interest(result, second))
    quality = jnp.where(jnp.minimum(*sizes) >= FEWEST, sizes[0] * sizes[1] * gap, 0.0).reshape(-1)
    best = jnp.argmax(quality)
    return best % part.shape[1], jnp.where(quality[best] > 0, threshold.reshape(-1)[best], jnp.inf)


def grow(part: jax.Array, result: jax.Array, held: jax.Array) -> Tree:
    """Grows the tree of one module from its results by age: [R, D], [R], [R] bool -> Tree."""
    splits, order = [], jnp.argsort(part, axis=0)
    region = jnp.zeros(held.shape, jnp.int32)
    for level in range(DEPTH):
        inside = held & (region == jnp.arange(2**level)[:, None])
        axis, threshold = jax.vmap(split, (None, None, None, 0))(part, order, result, inside)
        splits.append((axis, threshold))
        value = jnp.take_along_axis(part, axis[region][:, None], axis=1)[:, 0]
        region = 2 * region + (value >= threshold[region])
    inside = held & (region == jnp.arange(LEAVES)[:, None])
    axis, threshold = (jnp.concatenate(x) for x in zip(*splits, strict=True))
    return Tree(axis=axis, threshold=threshold, interest=measure_interest(result, inside))


def find_region(tree: Tree, part: jax.Array) -> jax.Array:
    """Finds the region of one goal: [D] -> [] int32."""
    region = jnp.int32(0)
    for level in range(DEPTH):
        node = 2**level - 1 + region
        region = 2 * region + (part[tree.axis[node]] >= tree.threshold[node])
    return region


def weigh(tree: Tree, part: jax.Array) -> jax.Array:
    """Computes interest over share of the candidates, of each one's region, for one module: [C, D] -> [C]."""
    region = jax.vmap(find_region, (None, 0))(tree, part)
    share = (region[:, None] == region).mean(axis=1)
    return tree.interest[region] / share


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler:
    """Makes the sampler."""
    number, size = modules.num_modules, protocol.own_slots(modules)[0].shape[1]

    def init(key: jax.Array) -> RecentState:
        return recent.init(number, {"goal": (size,), "result": ()})

    def update(state: RecentState, results: Results) -> RecentState:
        part = protocol.own_part(modules, results.goal, results.module)
        counted = (results.module == jnp.arange(number)[:, None]) & results.self_evaluation & results.valid
        return recent.add(state, counted, goal=part, result=results.success)

    def propose(state: RecentState, key: jax.Array, module: jax.Array, obs: jax.Array, view: View) -> jax.Array:
        key_candidates, key_choice = jax.random.split(key)
        candidates = protocol.draw_candidates(modules, key_candidates, module, obs)
        tree = jax.vmap(grow)(state.entries["goal"], state.entries["result"], recent.held(state))
        part = protocol.own_part(modules, candidates.now, candidates.module)
        weights = jax.vmap(weigh)(jax.tree.map(lambda x: x[module], tree), part)
        return protocol.choose(key_choice, candidates.goal, weights, UNIFORM_SHARE)

    return Sampler(init, propose, update)
