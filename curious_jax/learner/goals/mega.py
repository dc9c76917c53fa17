"""Proposes the least common outcomes that were reached (MEGA, Pitis et al., ICML 2020, arXiv 2007.02832).

The density of a module's outcomes, at the end of episodes that were relevant to it, is estimated by Gaussian kernels
of bandwidth 0.1 on standardised outcomes. Of some outcomes drawn for an environment, the one of lowest density is its
goal: ĝ = argmin p_ag(g). Outcomes outside the module's goal space do not count: on the arm the rarest ones lie under
the table or at the arm's reach, where neither self-evaluations nor evaluations ask for a goal.

Differences from the source: outcomes are a module's last MOST at the end of episodes, not all of all steps; candidates
with a low Q value are not cut off; and there is no annealing towards the goals that are asked for (OMEGA). A module
whose outcome never changed gets uniform goals, and so does one whose goal moves with the world (`Module.goal_at`): an
outcome is a place there, and no goal as such a module draws them. Outcomes come from every start of an episode, and
the goal space is that of the usual one.
"""

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.learner import rollout
from curious_jax.learner.estimators.protocol import Results
from curious_jax.learner.goals import protocol, recent
from curious_jax.learner.goals.protocol import CANDIDATES, Sampler, View
from curious_jax.learner.goals.recent import RecentState
from curious_jax.types import ModuleTable

BANDWIDTH = 0.1  # in deviations of the outcomes
SAME = 1e-5  # a goal that moves by less stands still, in the world's unit of length
DRAWN = 256  # uniform goals whose extent is taken for a module's goal space
MARGIN = 0.1  # of the largest side of that extent: an outcome so far outside it still counts, and is moved into it


def estimate_density(part: jax.Array, held: jax.Array) -> jax.Array:
    """Computes the density at each outcome: [M, R, D], [M, R] bool -> [M, R].

    It is up to a factor that all outcomes of a module share, and infinite where none is held.
    """
    _, deviation = recent.spread(part, held)
    scaled = part / (deviation[:, None] * BANDWIDTH)
    axes = range(part.shape[-1])  # one by one: XLA's CPU program for a sum over so short an axis is ten times slower
    squared = sum((jnp.square(scaled[:, :, None, d] - scaled[:, None, :, d]) for d in axes), jnp.zeros(()))
    density = jnp.einsum("mrs,ms->mr", jnp.exp(-0.5 * squared), held.astype(jnp.float32))
    return jnp.where(held, density, jnp.inf)


def goal_space(modules: ModuleTable) -> tuple[jax.Array, jax.Array]:
    """Gives the smallest and largest values of each module's uniform goals: [M, G], [M, G]."""
    each = jnp.broadcast_to(jnp.arange(modules.num_modules)[:, None], (modules.num_modules, DRAWN))
    goals = protocol.sample_uniform(modules, jax.random.key(0), each)
    return goals.min(axis=1), goals.max(axis=1)


def lies_inside(modules: ModuleTable, reached: jax.Array) -> jax.Array:
    """Says of which modules' goal spaces outcomes lie inside, or close by: [E, G] -> [E, M] bool."""
    low, high = goal_space(modules)
    margin = MARGIN * (high - low).max(axis=1, keepdims=True, initial=0.0)
    within = (reached[:, None] >= low - margin) & (reached[:, None] <= high + margin)
    return jnp.all(within | ~modules.mask(jnp.arange(modules.num_modules)), axis=-1)


def make(config: TrainConfig, modules: ModuleTable, input_size: int, action_size: int) -> Sampler:
    """Makes the sampler."""
    number = modules.num_modules

    def init(key: jax.Array) -> RecentState:
        return recent.init(number, {"reached": (modules.goal_size,)})

    def update(state: RecentState, results: Results) -> RecentState:
        counted = results.relevant & results.valid[:, None] & lies_inside(modules, results.reached)
        return recent.add(state, counted.T, reached=results.reached)

    def propose(state: RecentState, key: jax.Array, module: jax.Array, obs: jax.Array, view: View) -> jax.Array:
        key_uniform, key_candidates = jax.random.split(key)
        reached, held = state.entries["reached"], recent.held(state)
        owner = jnp.broadcast_to(jnp.arange(number)[:, None], held.shape)
        density = estimate_density(protocol.own_part(modules, reached, owner), held)
        # The newest are at the end, so that counting from there always meets one that is held.
        behind = jax.random.uniform(key_candidates, (module.shape[0], CANDIDATES)) * state.size[module][:, None]
        drawn = jnp.clip(recent.MOST - 1 - behind.astype(jnp.int32), 0)  # [E, C]
        rarest = jnp.argmin(density[module[:, None], drawn], axis=1)
        chosen = reached[module, jnp.take_along_axis(drawn, rarest[:, None], axis=1)[:, 0]]
        low, high = goal_space(modules)
        own = jnp.where(modules.mask(module), jnp.clip(chosen, low[module], high[module]), 0.0)
        uniform = protocol.sample_uniform(modules, key_uniform, module)
        uniform = rollout.place_goals(modules, uniform, module, obs)
        stands = jax.vmap(modules.goal_at)(own, module, obs)
        usable = (state.size[module] > 0) & jnp.all(jnp.abs(stands - own) < SAME, axis=1)
        return jnp.where(usable[:, None], own, uniform)

    return Sampler(init, propose, update)
