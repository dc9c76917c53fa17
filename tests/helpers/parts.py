"""What several tests share: small configs, hand-made episodes and observations, environments with faults."""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from scipy import stats

import envs
from curious_jax import config as configs
from curious_jax.learner import curriculum, trainer
from curious_jax.learner.state import Setup, TrainState, setup
from curious_jax.types import Episode
from envs.fetch import modules as fetch_modules
from envs.fetch.observation import ObservationLayout
from envs.modules import Module, ModuleTable, distance_solved


def tiny_config(**settings: Any) -> configs.TrainConfig:
    """The smallest run that has every part: a few hundred parameters, two updates a cycle."""
    small = {
        **dict(world="point", modules=("reach", "push"), distractors=1, preset="cpu", window=4),
        **dict(num_envs=8, updates_per_cycle=2, batch_size=8, capacity=160, hidden_size=8, hidden_layers=1),
        **dict(episodes=32, evaluation_interval=16, evaluation_episodes=8),
    }
    return configs.make_config(**{**small, **settings})


def probe_config(**settings: Any) -> configs.TrainConfig:
    """A run that masters the probe's reach and push, in seconds and some 3,500 episodes.

    Many self-evaluations and a short window, so that the curriculum is seen at work in so short a run.
    """
    learns = {
        **dict(world="point", modules=("reach", "push"), distractors=1, preset="cpu", window=30),
        **dict(num_envs=32, updates_per_cycle=80, batch_size=128, capacity=8000, hidden_size=128, hidden_layers=2),
        **dict(actor_lr=3e-3, critic_lr=3e-3, self_evaluation=0.3),
    }
    return configs.make_config(**{**learns, **settings})


def make_run(config: configs.TrainConfig, env: Any = None) -> Setup:
    """The parts of a run, in its own world unless another is given."""
    return setup(config, env or envs.make(config.world, config.modules, config.distractors))


@struct.dataclass
class CycleRecord:
    """The curriculum after a cycle, with a leading axis of cycles."""

    competence: jax.Array  # [N, M]
    progress: jax.Array  # [N, M]
    p: jax.Array  # [N, M]
    relevant: jax.Array  # [N, M] int32, episodes in each module's queue


@functools.partial(jax.jit, static_argnums=(0, 2))
def run_cycles(run: Setup, state: TrainState, cycles: int) -> tuple[TrainState, CycleRecord]:
    """So many cycles of one seed, recording the curriculum after each."""

    def cycle(state, _):
        state, _ = trainer.train_cycle(run, state)
        c, progress = curriculum.competence_and_progress(state.curriculum)
        p = curriculum.module_probabilities(
            state.curriculum, run.config.curriculum, run.config.curriculum.selection == "lp"
        )
        return state, CycleRecord(c, progress, p, state.replay.count)

    return jax.lax.scan(cycle, state, None, length=cycles)


def assert_same(a: Any, b: Any) -> None:
    """Every leaf equal, bit for bit."""
    plain = functools.partial(jax.tree.map, lambda x: jax.random.key_data(x) if _is_key(x) else x)
    jax.tree.map(np.testing.assert_array_equal, plain(a), plain(b))


def _is_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def assert_uniform(draws: Any, values: Any, weights: Any = None) -> None:
    """All draws are among the values, in the given proportions (equal if none) by a chi-square test."""
    draws, values = np.asarray(draws).ravel(), np.asarray(values)
    counts = np.array([(draws == v).sum() for v in values])
    assert counts.sum() == draws.size, f"also drew {sorted(set(draws.tolist()) - set(values.tolist()))}"
    if len(values) == 1:
        return
    share = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    assert stats.chisquare(counts, draws.size * share / share.sum()).pvalue > 1e-4, counts


# Modules on the coordinates of an observation.


def line_module(name: str, coordinate: int, sample: float = 100.0) -> Module:
    """Solved within 0.5 of a point on one coordinate; its goals are drawn from sample + U(0, 1)."""
    at = slice(coordinate, coordinate + 1)
    return Module(
        name=name,
        goal_size=1,
        outcome=lambda obs: obs[at],
        sample_goal=lambda key: sample + jax.random.uniform(key, (1,)),
        solved=lambda obs, goal: distance_solved(obs[at], goal, 0.5),
    )


def empty_module(name: str, coordinate: int) -> Module:
    """No goal: its descriptor alone asks for the coordinate to be above 1."""
    return Module(
        name=name,
        goal_size=0,
        outcome=lambda obs: obs[:0],
        sample_goal=lambda key: jnp.zeros(0),
        solved=lambda obs, goal: obs[coordinate] > 1.0,
        interest=lambda obs: obs[coordinate : coordinate + 1],
    )


def line_table(*coordinates: int) -> ModuleTable:
    """A line module per coordinate, named a, b, c, ..."""
    return ModuleTable(tuple(line_module("abcdef"[i], c) for i, c in enumerate(coordinates)))


def episodes(obs: Any, module: Any = 0, goal: Any = None, valid: Any = True, goal_size: int = 1) -> Episode:
    """Episodes with these observations [E, T+1, O] and one action coordinate, the time of the step."""
    obs = jnp.asarray(obs, jnp.float32)
    number, steps = obs.shape[0], obs.shape[1] - 1
    goal = jnp.zeros((number, goal_size)) if goal is None else jnp.asarray(goal, jnp.float32)
    return Episode(
        obs=obs,
        action=jnp.broadcast_to(jnp.arange(steps, dtype=jnp.float32)[:, None], (number, steps, 1)),
        goal=goal,
        module=jnp.broadcast_to(jnp.asarray(module, jnp.int32), (number,)),
        success=jnp.zeros(number, bool),
        valid=jnp.broadcast_to(jnp.asarray(valid), (number,)),
    )


# The Fetch arm without its physics.


def fetch_table(*names: str, distractors: int = 0) -> tuple[ModuleTable, ObservationLayout]:
    """The module table for these names and the layout it reads."""
    layout = ObservationLayout(fetch_modules.cubes_needed(names), distractors)
    return fetch_modules.table(names, layout), layout


def fetch_obs(layout: ObservationLayout, gripper: Any = (1.34, 0.75, 0.53), **positions: Any) -> jax.Array:
    """An observation with the gripper, cube1, cube2, ..., distractor1, ... at these places, zero elsewhere."""
    obs = np.zeros(layout.size, np.float32)
    obs[layout.gripper_position] = gripper
    for name, position in positions.items():
        kind, number = name[:-1], int(name[-1])
        obs[getattr(layout, f"{kind}_position")(number)] = position
    return jnp.asarray(obs)


# Worlds with faults.


@struct.dataclass
class FaultyState:
    """A world, how often it stepped, and whether this one breaks."""

    inner: Any
    time: jax.Array  # [] int32
    broken: jax.Array  # [] bool
    obs: jax.Array  # [O]
    overflow: jax.Array  # [] bool


@dataclass(frozen=True, eq=False)
class FaultyEnv:
    """A world in which some episodes, chosen by their key, break half-way.

    Attributes:
      value: what the first observation coordinate reads for one step; None to leave it alone.
      share: of episodes that break.
      overflows: a broken one reports an overflow.
    """

    env: Any
    value: float | None = float("nan")
    share: float = 0.3
    overflows: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def with_worlds(self, num_worlds: int) -> "FaultyEnv":
        return self

    def reset(self, key: jax.Array) -> FaultyState:
        inner = self.env.reset(key)
        broken = jax.random.uniform(jax.random.fold_in(key, 77)) < self.share
        return FaultyState(inner, jnp.int32(0), broken, inner.obs, jnp.array(False))

    def step(self, state: FaultyState, action: jax.Array) -> FaultyState:
        inner = self.env.step(state.inner, action)
        time = state.time + 1
        now = state.broken & (time == self.env.episode_length // 2)  # for one step: the end looks sound again
        obs = inner.obs if self.value is None else inner.obs.at[0].set(jnp.where(now, self.value, inner.obs[0]))
        return FaultyState(inner, time, state.broken, obs, state.overflow | (now & self.overflows))
