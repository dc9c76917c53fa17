"""Draws each episode's start among several (start="mixed"): the usual one, and those of FetchReach-v4 and FetchPush-v4.

Where the fingers are locked nothing can be grasped, so episodes of pnp and stack always have the usual start. Goals and
cubes lie around the gripper of the episode's own start. The observation does not say which start it is.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from envs.fetch import constants as c
from envs.fetch import modules as fetch_modules
from envs.fetch.observation import ObservationLayout
from envs.fetch.start import STARTS, Start, settled_start
from envs.modules import ModuleTable, registered

Array = jax.Array

MIXED = "mixed"
GRASPING = ("pnp", "stack")  # kinds of modules that need fingers
_STREAM = 0x57A7  # folded into an episode's key, whose own draws stay as they are


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture:
    """The starts that episodes draw from. S starts, M modules; row M stands for the flat goal, all modules at once."""

    names: tuple[str, ...]  # [S]
    starts: tuple[Start, ...]  # [S]
    suits: np.ndarray  # [M + 1, S] bool, whether a module can be achieved from a start
    shift: np.ndarray  # [S, M + 1, G] m, where the goals of a start lie, from those of the usual one

    def draw(self, key: Array, module: Array | int) -> Array:
        """Draws the index [] of a start that suits a module; -1, the flat goal, for one that suits them all."""
        allowed = jnp.asarray(self.suits)[module]
        return jax.random.categorical(jax.random.fold_in(key, _STREAM), jnp.where(allowed, 0.0, -jnp.inf))

    def start(self, index: Array) -> Any:
        """Returns the start of an index, with JAX's arrays in place of NumPy's."""
        qpos, qvel, sensordata = (
            jnp.asarray(np.stack([getattr(start, name) for start in self.starts]))[index]
            for name in ("qpos", "qvel", "sensordata")
        )
        locked: Any = jnp.asarray([start.locked for start in self.starts])[index]
        return Start(qpos, qvel, sensordata, locked)  # type: ignore[arg-type]

    def place_goal(self, index: Array, goal: Array, module: Array) -> Array:
        """Moves a goal [G], drawn around the usual start's gripper, to that of the episode's start."""
        return goal + jnp.asarray(self.shift)[index, module]

    def place_by_sight(self, goal: Array, module: Array, first: Array) -> Array:
        """Moves a goal [G] as `place_goal` does, for an episode of this first observation [O].

        Which start it was is told by the gripper's place; starts that share one have their goals in one place, too.
        """
        return self.place_goal(self.seen(first), goal, module)

    def seen(self, first: Any) -> Any:
        """[..., O] -> [...]: the index of the start that lies nearest to a first observation's gripper.

        Takes NumPy or JAX arrays.
        """
        xp = first.__array_namespace__()
        grippers = xp.asarray(np.stack([start.gripper for start in self.starts]))
        away = xp.square(first[..., None, ObservationLayout.gripper_position] - grippers).sum(axis=-1)
        return xp.argmin(away, axis=-1)

    def only(self, name: str) -> Mixture:
        """Returns the mixture of one start alone; modules that it does not suit have none."""
        return dataclasses.replace(self, suits=self.suits & (np.array(self.names) == name))


def make(table: ModuleTable) -> Mixture:
    """Makes the mixture of all starts for these modules; modules of one's own suit every start, and goals stay put."""
    starts = tuple(settled_start(name) for name in STARTS)
    kinds = [_kind(name) for name in table.names]
    locked = np.array([name in c.LOCKED_STARTS for name in STARTS])
    suits = np.array([[not (kind in GRASPING and shut) for shut in locked] for kind in kinds])
    away = np.stack([start.gripper[:2] - starts[0].gripper[:2] for start in starts])
    shift = np.zeros((len(STARTS), len(kinds) + 1, table.goal_size), np.float32)
    for module, (kind, slots) in enumerate(zip(kinds, table.slots, strict=True)):
        if kind is not None:
            shift[:, module, slots.start : slots.start + 2] = away
    shift[:, -1] = shift.sum(axis=1)
    return Mixture(STARTS, starts, np.concatenate([suits, suits.all(axis=0, keepdims=True)]), shift)


def _kind(name: str) -> str | None:
    """Returns reach, push, pnp or stack; None for a distractor, and for a module of one's own."""
    if name in registered() or name.startswith(fetch_modules.DISTRACTOR):
        return None
    return fetch_modules.parse(name)[0]
