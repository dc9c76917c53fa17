"""Modular Goal Fetch Arm: the Fetch environment together with the modules asked of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax

from envs.fetch import modules as fetch_modules
from envs.fetch.env import FetchEnv, FetchState
from envs.fetch.observation import ObservationLayout
from envs.modules import ModuleTable
from envs.physics import protocol

OBS_BOUND = 10.0  # an episode with any |observation| beyond this (m, rad) has left the workspace


@dataclasses.dataclass(frozen=True, eq=False)
class ModularFetch:
    """See curious_jax.types.Env. Methods are for one environment; vmap them."""

    fetch: FetchEnv
    modules: ModuleTable

    action_size = FetchEnv.action_size
    episode_length = FetchEnv.episode_length
    obs_bound = OBS_BOUND
    physics_steps_per_step = protocol.SUBSTEPS

    @property
    def layout(self) -> ObservationLayout:
        """Where everything stands in the observation."""
        return self.fetch.layout

    @property
    def obs_size(self) -> int:
        """O."""
        return self.fetch.obs_size

    @property
    def physics_name(self) -> str:
        """c, jax or warp."""
        return self.fetch.physics.name

    @property
    def physics_bytes_per_world(self) -> int:
        """Memory of the physics buffers, about."""
        return self.fetch.physics.bytes_per_world

    def with_worlds(self, num_worlds: int) -> ModularFetch:
        """The same environment with physics buffers for `num_worlds` worlds, all vmapped axes together."""
        return dataclasses.replace(self, fetch=self.fetch.with_worlds(num_worlds))

    def reset(self, key: jax.Array) -> FetchState:
        """Start of an episode, a function of the key alone."""
        return self.fetch.reset(key)

    def step(self, state: FetchState, action: jax.Array) -> FetchState:
        """One control step of 0.04 s with an action [4] in [-1, 1]."""
        return self.fetch.step(state, action)


def create(names: Sequence[str], num_distractors: int = 0, physics: str = "auto", num_worlds: int = 1) -> ModularFetch:
    """The arm with as many cubes as the modules name, and a distractor module per distractor.

    Raises:
      ValueError: one line that names the option and the right values.
    """
    cubes = fetch_modules.cubes_needed(names)
    layout = ObservationLayout(cubes, num_distractors)
    table = fetch_modules.table(names, layout)  # before the scene: a bad name should cost nothing
    return ModularFetch(FetchEnv.create(cubes, num_distractors, physics, num_worlds), table)
