"""A world that turns NaN in mid-episode costs its episode and nothing else, whatever the physics."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from helpers.parts import tiny_config

from curious_jax import fit
from curious_jax.cli import environment
from curious_jax.learner import trainer

ENVS, STEPS = 16, 200
BROKEN = 5  # the world that breaks


@struct.dataclass
class State:
    """A world with the time in its episode, and whether it is the one that breaks."""

    inner: Any
    time: jax.Array  # [] int32
    breaks: jax.Array  # [] bool
    obs: jax.Array
    overflow: jax.Array


@dataclass(frozen=True, eq=False)
class OneNan:
    """The world whose start has these key bits becomes NaN throughout, physics included, half-way."""

    env: Any
    bits: np.ndarray  # [2] uint32

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def with_worlds(self, num_worlds: int) -> "OneNan":
        return OneNan(self.env.with_worlds(num_worlds), self.bits)

    def reset(self, key: jax.Array) -> State:
        inner = self.env.reset(key)
        breaks = jnp.all(jax.random.key_data(key) == self.bits)
        return State(inner, jnp.int32(0), breaks, inner.obs, inner.overflow)

    def step(self, state: State, action: jax.Array) -> State:
        now = state.breaks & (state.time == self.env.episode_length // 2)
        inner = jax.tree.map(
            lambda x: jnp.where(now, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x, state.inner
        )
        inner = self.env.step(inner, action)
        return State(inner, state.time + 1, state.breaks, inner.obs, inner.overflow)


def first_starts(state):
    """[E, 2]: the bits of the keys that the first cycle's worlds start from, as train_cycle and collect split them."""
    _, _, key_collect, _ = jax.random.split(state.key, 4)
    key_reset, _, _ = jax.random.split(key_collect, 3)
    return np.asarray(jax.random.key_data(jax.random.split(key_reset, ENVS)))


@pytest.mark.slow
@pytest.mark.parametrize("world", ["point", "fetch"])
def test_a_nan_in_one_of_sixteen_worlds(world):
    """In the first cycle; then 200 steps of each world and 20 updates. All episodes are self-evaluations, so that the
    windows would see it."""
    config = tiny_config(world=world, distractors=0, num_envs=ENVS, self_evaluation=1.0, window=200, capacity=160)
    sound = environment.make_env(config)
    cycles = STEPS // sound.episode_length
    config = tiny_config(
        world=world, distractors=0, num_envs=ENVS, self_evaluation=1.0, window=200, capacity=ENVS * cycles,
        episodes=ENVS * cycles, evaluation_interval=ENVS * cycles, updates_per_cycle=20 // cycles,
    )  # fmt: skip
    start = trainer.init(config, sound)
    env = OneNan(sound, first_starts(start)[BROKEN])
    progress = fit.fit(config, env)
    state = progress.state

    assert progress.status == "completed"
    assert (progress.updates, progress.env_steps) == (20, ENVS * STEPS)
    assert progress.rows[-1]["invalid_episodes"] == 1
    numbers = [x for x in jax.tree.leaves(state) if jnp.issubdtype(x.dtype, jnp.inexact)]
    assert all(np.isfinite(x).all() for x in numbers)
    assert int(state.replay.size) == int(state.curriculum.count.sum()) == ENVS * cycles - 1
    np.testing.assert_array_equal(state.normalizer.obs.weight, (ENVS * cycles - 1) * (sound.episode_length + 1))
    # The broken world's start is not in the store, its neighbours' are.
    starts = jax.vmap(sound.reset)(jax.random.wrap_key_data(jnp.asarray(first_starts(start)))).obs
    apart = np.abs(np.asarray(starts)[:, None] - np.asarray(state.replay.obs)[None, :, 0]).max(axis=2)
    np.testing.assert_array_equal(apart.min(axis=1) < 1e-5, np.arange(ENVS) != BROKEN)
