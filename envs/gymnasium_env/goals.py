"""Goals as vectors, with a reward from those alone, for goal-conditioned learners of others.

The Gymnasium interface asks for `compute_reward(achieved_goal, desired_goal, info)`, without the observation. So the
achieved goal holds all that a module's reward looks at. Per module, in metres:

    reach         gripper x y z
    push, pnp     cube x y z; a push goal's z is a cube's at rest
    stack         cube x y z, gripper x y z; desired: the place for the cube, twice
    distractor1   distractor x y z; a goal is as push's
    your own      the module's outcome, in its own unit; desired: its goal

Several modules lie side by side, zero outside the active one's slots, with its one-hot descriptor behind them, in the
achieved and the desired goal alike: hindsight then stays within an episode's module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

import envs
from envs import module_names
from envs.errors import ArgumentError
from envs.fetch import modules as m
from envs.fetch import start as starts
from envs.fetch.env import FetchEnv
from envs.gymnasium_env.slots import Slots, make_slots

REWARD_TYPES = ("sparse", "dense")


class GoalSpace:
    """The goals of some modules in one arm's world.

    Args:
      env: the arm with these modules.
      start: where its episodes start; goals lie around the gripper there.
      reward_type: sparse or dense, see `reward`.
    Raises:
      ArgumentError: for a module of one's own whose reward looks at more than its outcome and its goal.
    """

    def __init__(self, env: FetchEnv, start: str, reward_type: str):
        self.layout, self.names = env.layout, env.modules.names
        self._table, self._mixture, self._dense = env.modules, env.mixture, reward_type == "dense"
        self.centre = np.asarray(starts.goal_centre(starts.STARTS[0] if env.mixture else start))
        self._parts = [make_slots(module, env.layout) for module in env.modules.modules]
        ends = np.cumsum([0] + [part.size for part in self._parts])
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
        for i, rows, part, slot in self._active(module):
            desired[rows, slot] = part.sample(rng, points + self._away(i, obs))[rows]
        return self.moved(desired, obs)

    def moved(self, desired: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n, G], [n, O] -> [n, G]: the goals as they stand now; a stack's follows its base cube."""
        module, desired = self.module(desired), desired.copy()
        for _, rows, part, slot in self._active(module):
            desired[rows, slot] = part.moved(desired[:, slot], obs)[rows]
        return desired

    def achieved(self, module: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n], [n, O] -> [n, G]: what the active modules' rewards look at."""
        achieved = self._empty(module)
        for _, rows, part, slot in self._active(module):
            achieved[rows, slot] = part.achieved(obs)[rows]
        return achieved

    def solved(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """[..., G], [..., G] -> [...] bool; NaN is never solved.

        Raises:
          ValueError: for goals of another size.
        """
        return self._ask(lambda part, *goals: part.solved(*goals), bool, achieved, desired)

    def reward(self, achieved: np.ndarray, desired: np.ndarray, solved: np.ndarray | None = None) -> np.ndarray:
        """[..., G], [..., G] -> [...] float32: 0 when solved and -1 otherwise.

        Where the reward is dense: minus the distance in m from the goal to what is to be brought there, for modules of
        one's own from goal to outcome; -1 for NaN.

        Args:
          solved: what `solved` says of them, where it is known already.
        Raises:
          ValueError: for goals of another size.
        """
        if not self._dense:
            solved = self.solved(achieved, desired) if solved is None else solved
            return np.where(solved, 0.0, -1.0).astype(np.float32)
        distance = self._ask(lambda part, *goals: part.distance(*goals), np.float32, achieved, desired)
        return np.where(np.isnan(distance), np.float32(-1.0), -distance)

    def mark(self, desired: np.ndarray, obs: np.ndarray) -> tuple[np.ndarray, float | None]:
        """[G], [O] -> where pictures mark the goal, if its numbers are a place, and the radius of the ball there."""
        i = int(self.module(desired))
        return self._table.place(i, self._parts[i].goal(desired[self._slots[i]]), obs), self._table.radii[i]

    def module(self, desired: np.ndarray) -> np.ndarray:
        """[..., G] -> [...]: the module whose goal it is."""
        if self.num_modules == 1:
            return np.zeros(desired.shape[:-1], int)
        return np.argmax(desired[..., -self.num_modules :], axis=-1)

    def _away(self, index: int, first: np.ndarray) -> np.ndarray:
        """[n, O] -> [n, 3] m: how far a module's goals are from those of the usual start in episodes that begin so."""
        away = np.zeros((len(first), 3))
        if self._mixture is not None:
            x = self._table.slots[index].start
            away[:, :2] = self._mixture.shift[self._mixture.seen(first), index, x : x + 2]
        return away

    def _active(self, module: np.ndarray) -> Iterator[tuple[int, np.ndarray, Slots, slice]]:
        """Yields of each module that occurs in [...]: its number, where it occurs [...], its Slots and their slice."""
        for i, (part, slot) in enumerate(zip(self._parts, self._slots, strict=True)):
            rows = np.asarray(module == i)
            if rows.any():
                yield i, rows, part, slot

    def _ask(self, ask: Callable[..., np.ndarray], dtype: Any, achieved: Any, desired: Any) -> np.ndarray:
        """[..., G], [..., G] -> [...]: what `ask` finds in the slots of each goal's module."""
        achieved, desired = np.asarray(achieved, np.float32), np.asarray(desired, np.float32)
        if not achieved.shape[-1:] == desired.shape[-1:] == (self.size,):
            given = f"{achieved.shape} and {desired.shape}"
            raise ValueError(f"goals of {', '.join(self.names)} are arrays [..., {self.size}], got {given}")
        module = self.module(desired)
        found = np.zeros(np.broadcast_shapes(achieved.shape[:-1], desired.shape[:-1]), dtype)
        for _, rows, part, slot in self._active(module):
            np.copyto(found, ask(part, achieved[..., slot], desired[..., slot]), where=rows)
        return found

    def _empty(self, module: np.ndarray) -> np.ndarray:
        """[n] -> [n, G] float32: zeros, and the descriptors."""
        goal = np.zeros((len(module), self.size), np.float32)
        if self.num_modules > 1:
            goal[:, -self.num_modules :] = np.eye(self.num_modules)[module]
        return goal


def make_arm(
    modules: str | Sequence[str],
    start: str,
    physics: str,
    distractors: int = 0,
    reward_type: str = "sparse",
    sleep: bool = False,
) -> tuple[FetchEnv, GoalSpace]:
    """Builds the arm with these modules, and their goals.

    Raises:
      ArgumentError: on a module, start or reward that does not exist, modules and a start that do not go together, and
        modules of one's own whose reward looks at more than their outcomes and goals.
    """
    if reward_type not in REWARD_TYPES:
        raise ArgumentError("reward_type", f"must be one of {', '.join(REWARD_TYPES)}", reward_type)
    env: Any = envs.make("fetch", modules, distractors, physics, start, sleep)
    return env, GoalSpace(env, start, reward_type)
