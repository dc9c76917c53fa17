"""Modules for goal-conditioned learners of others: goals as vectors, and a reward from those alone, in numpy.

The Gymnasium interface asks for `compute_reward(achieved_goal, desired_goal, info)`, without the observation. So the
achieved goal holds all that a module's reward looks at. Per module, in metres:

  reach         gripper x y z
  push, pnp     cube x y z; a push goal's z is a cube's at rest
  stack         cube x y z, gripper x y z; desired: the place for the cube, twice

Several modules lie side by side, zero outside the active one's slots, with its one-hot descriptor behind them, in the
achieved and the desired goal alike: hindsight then stays within an episode's module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from envs.fetch import modules as m
from envs.fetch.observation import ObservationLayout


@dataclasses.dataclass(frozen=True)
class GoalSpace:
    """The goals of these modules.

    Attributes:
      names: as on the command line; registered modules are refused, their rewards are functions of observations.
      layout: of the observations that goals are read from.
      centre: x, y (m) around which goals lie.
    """

    names: tuple[str, ...]
    layout: ObservationLayout
    centre: Sequence[float]

    def __post_init__(self) -> None:
        m.table(self.names, self.layout, self.centre)  # refuses bad names, and names given twice
        for name in self.names:
            if name in m.registered():
                raise ValueError(f"module {name}: only reach, push, pnp and stack have rewards from goals alone")

    @property
    def num_modules(self) -> int:
        """M."""
        return len(self.names)

    @property
    def size(self) -> int:
        """G: all slots, and the descriptor when there are several modules."""
        return self._slots[-1].stop + (self.num_modules if self.num_modules > 1 else 0)

    def index(self, name: str) -> int:
        """The number of a module.

        Raises:
          ValueError: when it is none of these.
        """
        names = [m.canonical(n) for n in self.names]
        if m.canonical(name) not in names:
            raise ValueError(f"module {name}: must be one of {', '.join(names)}")
        return names.index(m.canonical(name))

    def sample(self, rng: np.random.Generator, module: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n] module numbers, [n, O] first observations -> [n, G] desired goals, as the modules' own samplers draw."""
        n = len(module)
        xy = np.asarray(self.centre) + rng.uniform(-m.GOAL_RANGE, m.GOAL_RANGE, (n, 2))
        lift = rng.uniform(0.0, m.MAX_LIFT, n)
        desired = self._empty(module)
        for i, slot in enumerate(self._slots):
            rows = module == i
            height = m.REST_HEIGHT + lift[rows] * (self._kind(i) != "push")
            desired[rows, slot.start : slot.start + 3] = np.column_stack([xy[rows], height])
        return self.moved(desired, obs)

    def moved(self, desired: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n, G], [n, O] -> [n, G]: the goals as they stand now; a stack's follows its base cube."""
        module, desired = self.module(desired), desired.copy()
        for i, slot in enumerate(self._slots):
            if self._kind(i) == "stack":
                rows = module == i
                base = obs[rows][:, self.layout.cube_position(m.parse(self.names[i])[2])]
                place = np.column_stack([base[:, :2], np.full(len(base), m.STACK_HEIGHT)])
                desired[rows, slot] = np.tile(place, 2)
        return desired

    def achieved(self, module: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n], [n, O] -> [n, G]: what the active modules' rewards look at."""
        achieved = self._empty(module)
        for i, slot in enumerate(self._slots):
            rows, kind = module == i, self._kind(i)
            gripper = obs[rows][:, self.layout.gripper_position]
            if kind == "reach":
                achieved[rows, slot] = gripper
                continue
            cube = obs[rows][:, self.layout.cube_position(m.parse(self.names[i])[1])]
            achieved[rows, slot] = np.concatenate([cube, gripper], axis=1) if kind == "stack" else cube
        return achieved

    def reward(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """[..., G], [..., G] -> [...] float32: 0 when solved and -1 otherwise; NaN is never solved."""
        achieved, desired = np.asarray(achieved), np.asarray(desired)
        module = self.module(desired)
        solved = np.zeros(module.shape, bool)
        for i, slot in enumerate(self._slots):
            a, d = achieved[..., slot], desired[..., slot]
            near = np.linalg.norm(a[..., :3] - d[..., :3], axis=-1) < m.TOLERANCE
            if self._kind(i) == "stack":
                near &= np.linalg.norm(a[..., 3:] - d[..., :3], axis=-1) >= m.STACK_CLEARANCE
            solved |= near & (module == i)
        return np.where(solved, 0.0, -1.0).astype(np.float32)

    def module(self, desired: np.ndarray) -> np.ndarray:
        """[..., G] -> [...]: the module whose goal it is."""
        if self.num_modules == 1:
            return np.zeros(desired.shape[:-1], int)
        return np.argmax(desired[..., -self.num_modules :], axis=-1)

    @property
    def slots(self) -> dict[str, slice]:
        """Each module's slots in a goal, by name (push for push1)."""
        return dict(zip(map(m.canonical, self.names), self._slots, strict=True))

    @property
    def _slots(self) -> tuple[slice, ...]:
        ends = np.cumsum([0] + [6 if self._kind(i) == "stack" else 3 for i in range(self.num_modules)])
        return tuple(slice(int(a), int(b)) for a, b in zip(ends[:-1], ends[1:], strict=True))

    def _kind(self, index: int) -> str:
        return m.parse(self.names[index])[0]

    def _empty(self, module: np.ndarray) -> np.ndarray:
        """[n] -> [n, G] float32: zeros, and the descriptors."""
        goal = np.zeros((len(module), self.size), np.float32)
        if self.num_modules > 1:
            goal[:, -self.num_modules :] = np.eye(self.num_modules)[module]
        return goal
