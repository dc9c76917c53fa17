"""One module's slots of the goal vectors: what fills them, and how they are judged; see goals.py.

Both kinds have the same methods. Rows are n environments; goals to be judged have any leading axes.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from envs.errors import ArgumentError
from envs.fetch import modules as m
from envs.fetch.observation import ObservationLayout
from envs.modules import Module


class PlaceSlots:
    """The slots of one of the arm's modules, or of a distractor: the places that its reward looks at.

    The reward is the module's: it is given an observation in which only those places are filled.
    """

    def __init__(self, module: Any, layout: ObservationLayout):  # whose functions take NumPy arrays too
        self._module, self._obs_size = module, layout.size
        self._places = m.judged_by(module.name, layout)
        self.size = 3 * len(self._places)

    def goal(self, desired: np.ndarray) -> np.ndarray:
        """[..., size] -> [..., d]: the goal as the module has it."""
        return desired[..., : self._module.goal_size]

    def sample(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        """[n, 3] points of the goals' box -> [n, size]: goals there."""
        return self._fill(self.goal(points))

    def moved(self, desired: np.ndarray, obs: np.ndarray) -> np.ndarray:
        """[n, size], [n, O] -> [n, size]: the goals as they stand now."""
        return self._fill(self._module.goal_at(self.goal(desired), obs))

    def achieved(self, obs: np.ndarray) -> np.ndarray:
        """[n, O] -> [n, size]: what the reward looks at."""
        return np.concatenate([obs[:, place] for place in self._places], axis=1)

    def solved(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """[..., size], [..., size] -> [...] bool."""
        obs = np.zeros((*achieved.shape[:-1], self._obs_size), np.float32)
        for number, place in enumerate(self._places):
            obs[..., place] = achieved[..., 3 * number : 3 * number + 3]
        return self._module.solved(obs, self.goal(desired))

    def distance(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """[..., size], [..., size] -> [...] m: from the goal to what is to be brought there."""
        return np.linalg.norm(achieved[..., :3] - m.goal_point(self.goal(desired)), axis=-1)

    def _fill(self, goal: np.ndarray) -> np.ndarray:
        """[n, d] -> [n, size]: the goal's place, as often as there are places."""
        return np.tile(m.goal_point(goal), len(self._places))


class OutcomeSlots:
    """The slots of a module of one's own: its outcome and its goal. Its functions run as compiled JAX programs."""

    def __init__(self, module: Any):
        self._tolerance, self.size = module.solved.tolerance, module.goal_size
        self._outcome, self._sample = (jax.jit(jax.vmap(part)) for part in (module.outcome, module.sample_goal))

    def goal(self, desired: np.ndarray) -> np.ndarray:
        return desired

    def sample(self, rng: np.random.Generator, points: np.ndarray) -> np.ndarray:
        key = jax.random.key(int(rng.integers(2**31)))
        return np.asarray(self._sample(jax.random.split(key, len(points))))

    def moved(self, desired: np.ndarray, obs: np.ndarray) -> np.ndarray:
        return desired

    def achieved(self, obs: np.ndarray) -> np.ndarray:
        return np.asarray(self._outcome(obs))

    def solved(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return self.distance(achieved, desired) < self._tolerance

    def distance(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.linalg.norm(achieved - desired, axis=-1)


Slots = PlaceSlots | OutcomeSlots


def make_slots(module: Module, layout: ObservationLayout) -> Slots:
    """Makes a module's slots.

    Raises:
      ArgumentError: for a module of one's own whose reward looks at more than its outcome and its goal.
    """
    if module.name not in m.registered():
        return PlaceSlots(module, layout)
    if module.judged_by_outcome:
        return OutcomeSlots(module)
    way_out = (
        "give it solved=envs.modules.Within(outcome, tolerance) and no goal_at, or train by envs.make or envs.brax_env"
    )
    raise ArgumentError("modules", f"{module.name}: compute_reward sees no observation here; {way_out}")
