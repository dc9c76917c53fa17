"""Lets one module act in another's place while exploring (after RHER, arXiv 2208.00843, where reach alone guides).

A module names its guides (envs.modules.Guide): another module, the goal that it is given, and when it acts. In each
step of an exploring episode, with the guidance probability, the policy is asked for the guide's module and goal in
place of the episode's own: the same pass of the network with another input. The episode stays one of the module that
asked. Self-evaluations, evaluations and play are never guided.
"""

import chex
import jax
import jax.numpy as jnp

from curious_jax.types import ModuleTable

STREAM = 0x601D  # folded into a step's key, so that a run without guidance draws the same numbers


def guide(
    modules: ModuleTable,
    probability: float,
    key: jax.Array,
    obs: jax.Array,
    goal: jax.Array,
    module: jax.Array,
    exploring: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Chooses what the policy is asked for in this step: (goal [E, G], module [E]).

    Args:
      probability: of guidance, per step; 0 changes nothing, and costs nothing.
      key: the step's.
      obs, goal, module, exploring: [E, O], [E, G] as it stands now, [E] int32, [E] bool.
    """
    if not probability:
        return goal, module
    chex.assert_equal_shape((module, exploring))
    guiding, given = jax.vmap(modules.guide)(obs, goal, module)
    guided = exploring & jax.random.bernoulli(jax.random.fold_in(key, STREAM), probability, module.shape)
    return jnp.where(guided[:, None], given, goal), jnp.where(guided, guiding, module)
