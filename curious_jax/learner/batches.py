"""Makes training batches: draws transitions, substitutes modules and goals, and encodes them for the networks."""

import functools
from collections.abc import Callable

import jax

from curious_jax.learner import devices, hindsight, keys, mirror, normalizer, replay
from curious_jax.learner.normalizer import NormalizerState
from curious_jax.learner.state import Setup
from curious_jax.types import LearnerBatch, Transition


def make(
    run: Setup, store: replay.ReplayState, statistics: NormalizerState, wanted: jax.Array
) -> Callable[[keys.Key], LearnerBatch]:
    """Makes the function that draws a batch: key -> LearnerBatch [B, ...].

    Args:
      wanted: [B] int32, the module that each transition is for.
    """
    config, modules = run.config, run.env.modules

    def draw(key: keys.Key) -> LearnerBatch:
        key_sample, key_substitute = keys.split(key)
        drawn = devices.split(replay.draw(store, key_sample, wanted, config.hindsight.replay == "own"))
        batch = hindsight.substitute(store, modules, config.hindsight, key_substitute, *drawn)
        if config.hindsight.mirror:
            batch = mirror.reflect(run.env, keys.whole(key_substitute), batch)
        return encode(run, statistics, batch)

    return draw


def split(key: jax.Array) -> keys.SplitKey:
    """Splits a batch's key ahead, into those of its draws: two for sampling, three for substitution."""
    return keys.ahead(key, 2, 3)


@jax.named_scope("input")
def encode(run: Setup, statistics: NormalizerState, batch: Transition) -> LearnerBatch:
    """Turns a batch into the networks' inputs [B, I]."""
    view = functools.partial(normalizer.policy_input, statistics, run.config.normalizer, run.env.modules)
    return LearnerBatch(
        inputs=view(batch.obs, batch.goal, batch.module),
        action=batch.action,
        reward=batch.reward,
        next_inputs=view(batch.next_obs, batch.next_goal, batch.module),
    )
