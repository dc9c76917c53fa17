"""Modular Goal Fetch Arm: the Fetch environment together with the modules asked of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax

from envs.fetch import constants as c
from envs.fetch import modules as fetch_modules
from envs.fetch import start as starts
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


def create(
    names: Sequence[str],
    num_distractors: int = 0,
    physics: str = "auto",
    num_worlds: int = 1,
    start: str = "default",
) -> ModularFetch:
    """The arm with as many cubes as the modules name, and a distractor module per distractor.

    Goals and cubes lie around the gripper of the start.

    Raises:
      ValueError: one line that names the option and the right values.
    """
    cubes = fetch_modules.cubes_needed(names)
    layout = ObservationLayout(cubes, num_distractors)
    # Before the scene: a bad name should cost nothing.
    table = fetch_modules.table(names, layout, goal_centre(start))
    check_fingers(names, start)
    return ModularFetch(FetchEnv.create(cubes, num_distractors, physics, num_worlds, start), table)


def goal_centre(start: str) -> Sequence[float]:
    """x, y in m around which goals lie: where the gripper starts.

    Raises:
      ValueError: on an unknown start.
    """
    if start == "default":  # the official figure, which is the settled one's to 0.1 mm
        return fetch_modules.START_GRIPPER[:2]
    return starts.settled_start(start).gripper[:2].tolist()


def check_fingers(names: Sequence[str], start: str) -> None:
    """Refuses modules that need fingers where those are locked.

    Raises:
      ValueError: one line that names the option.
    """
    own = fetch_modules.registered()
    grasping = [n for n in names if n not in own and fetch_modules.parse(n)[0] in ("pnp", "stack")]
    if grasping and start in c.LOCKED_STARTS:
        raise ValueError(
            f"--start {start}: its fingers are locked shut, so {grasping[0]} cannot be learned; name modules that only "
            "reach or push"
        )
