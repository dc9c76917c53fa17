"""Goals as vectors, with a reward from those alone, for goal-conditioned learners of others; NumPy only.

The Gymnasium interface asks for `compute_reward(achieved_goal, desired_goal, info)`, without the observation. So the
achieved goal holds all that a module's reward looks at. Per module, in metres:

    reach         gripper x y z
    push, pnp     cube x y z; a push goal's z is a cube's at rest
    stack         cube x y z, gripper x y z; desired: the place for the cube, twice

The rewards themselves are the module table's: they are given an observation in which only those places are filled.

Several modules lie side by side, zero outside the active one's slots, with its one-hot descriptor behind them, in the
achieved and the desired goal alike: hindsight then stays within an episode's module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from envs import module_names
from envs.errors import ArgumentError
from envs.fetch import modules as m
from envs.fetch import start as starts
from envs.fetch.env import FetchEnv, create
from envs.modules import list_names


class GoalSpace:
    """The goals of some modules in one arm's world.

    Args:
      env: the arm with these modules.
      start: where its episodes start; goals lie around the gripper there.
    Raises:
      ArgumentError: for registered modules, whose rewards are functions of whole observations.
    """

    def __init__(self, env: FetchEnv, start: str):
        self.layout, self.names = env.layout, env.modules.names
        self._modules: tuple[Any, ...] = env.modules.modules  # their functions take NumPy arrays too
        for name in self.names:
            if name in m.registered():
                raise ArgumentError("modules", f"{name}: only reach, push, pnp and stack have rewards from goals alone")
        self.centre = np.asarray(starts.goal_centre(start))
        self._parts = [m.judged_by(name, env.layout) for name in self.names]
        ends = np.cumsum([0] + [3 * len(parts) for parts in self._parts])
        self._slots = [slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]

    @property
    def num_modules(self) -> int:
        """M."""
        return len(self.names)

    @property
    def size(self) -> int:
        """G: all slots, and the descriptor when there are several modules."""
        return self._slots[-1].stop + (self.num_modules if self.num_modules > 1 else 0)

    @property
    def slots(self) -> dict[str, slice]:
        """Each module's slots in a goal, by name."""
        return dict(zip(self.names, self._slots, strict=True))

    def observation_space(self) -> spaces.Dict:
        """observation [O], achieved_goal [G], desired_goal [G]; metres, radians, per control step."""
        sizes = {"observation": self.layout.size, "achieved_goal": self.size, "desired_goal": self.size}
        return spaces.Dict({name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in sizes.items()})

    def index(self, name: str) -> int:
        """Returns the number of a module. Raises ArgumentError when it is none of these."""
        if module_names.canonical(name) not in self.names:
            raise ArgumentError("module", f"must be one of {', '.join(self.names)}", name)
        return self.names.index(module_names.canonical(name))

    def sample(self, rng: np.random.Generator, module: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n] module numbers, [n, O] first observations -> [n, G] desired goals, as uniform as the modules'."""
        xy = self.centre + rng.uniform(-m.GOAL_RANGE, m.GOAL_RANGE, (len(module), 2))
        points = np.column_stack([xy, m.REST_HEIGHT + rng.uniform(0.0, m.MAX_LIFT, len(module))])
        desired = self._empty(module)
        for i, slot in enumerate(self._slots):
            desired[module == i, slot] = self._desired(i, points[module == i, : self._modules[i].goal_size])
        return self.moved(desired, obs)

    def moved(self, desired: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n, G], [n, O] -> [n, G]: the goals as they stand now; a stack's follows its base cube."""
        module, desired = self.module(desired), desired.copy()
        for i, slot in enumerate(self._slots):
            rows = module == i
            goal = self._modules[i].goal_at(self._goal(i, desired[rows]), obs[rows])
            desired[rows, slot] = self._desired(i, goal)
        return desired

    def achieved(self, module: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n], [n, O] -> [n, G]: what the active modules' rewards look at."""
        achieved = self._empty(module)
        for i, slot in enumerate(self._slots):
            rows = module == i
            achieved[rows, slot] = np.concatenate([obs[rows][:, part] for part in self._parts[i]], axis=1)
        return achieved

    def reward(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """[..., G], [..., G] -> [...] float32: 0 when solved and -1 otherwise; NaN is never solved.

        Raises:
          ValueError: for goals of another size.
        """
        achieved, desired = np.asarray(achieved, np.float32), np.asarray(desired, np.float32)
        if not achieved.shape[-1:] == desired.shape[-1:] == (self.size,):
            given = f"{achieved.shape} and {desired.shape}"
            raise ValueError(f"goals of {', '.join(self.names)} are arrays [..., {self.size}], got {given}")
        module = self.module(desired)
        solved = np.zeros(np.broadcast_shapes(achieved.shape[:-1], module.shape), bool)
        for i, slot in enumerate(self._slots):
            obs = np.zeros((*achieved.shape[:-1], self.layout.size), np.float32)
            for number, part in enumerate(self._parts[i]):
                obs[..., part] = achieved[..., slot][..., 3 * number : 3 * number + 3]
            solved |= self._modules[i].solved(obs, self._goal(i, desired)) & (module == i)
        return np.where(solved, 0.0, -1.0).astype(np.float32)

    def point(self, desired: np.ndarray) -> np.ndarray:
        """[G] -> [3] m: where the goal is."""
        return desired[self._slots[int(self.module(desired))]][:3]

    def module(self, desired: np.ndarray) -> np.ndarray:
        """[..., G] -> [...]: the module whose goal it is."""
        if self.num_modules == 1:
            return np.zeros(desired.shape[:-1], int)
        return np.argmax(desired[..., -self.num_modules :], axis=-1)

    def _goal(self, index: int, desired: np.ndarray) -> np.ndarray:
        """[..., G] -> [..., d]: the goal as the module has it."""
        return desired[..., self._slots[index]][..., : self._modules[index].goal_size]

    def _desired(self, index: int, goal: np.ndarray) -> np.ndarray:
        """[n, d] -> [n, 3 or 6]: the module's goal as it stands in its slots."""
        return np.tile(m.goal_point(goal), len(self._parts[index]))

    def _empty(self, module: np.ndarray) -> np.ndarray:
        """[n] -> [n, G] float32: zeros, and the descriptors."""
        goal = np.zeros((len(module), self.size), np.float32)
        if self.num_modules > 1:
            goal[:, -self.num_modules :] = np.eye(self.num_modules)[module]
        return goal


def make_arm(modules: str | Sequence[str], start: str, physics: str) -> tuple[FetchEnv, GoalSpace]:
    """Builds the arm with these modules, and their goals.

    Raises:
      ArgumentError: on a module or start that does not exist, or does not go with the other.
    """
    env = create(list_names(modules), 0, physics, start)
    return env, GoalSpace(env, start)
