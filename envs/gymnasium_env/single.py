"""One arm as a Gymnasium environment with goals, on C MuJoCo and NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from envs.fetch import constants as c
from envs.fetch import numpy_arm
from envs.gymnasium_env.goals import make_arm
from envs.gymnasium_env.pictures import Pictures

ALL_MODULES = ("reach", "push", "pnp", "stack")
Observation = dict[str, np.ndarray]


def action_space() -> spaces.Box:
    """[4]: x, y, z of the gripper, fingers."""
    return spaces.Box(-1.0, 1.0, (c.ACTION_SIZE,), np.float32)


def read_action(action: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns actions as a float32 array. Raises ValueError when they have another shape."""
    action = np.asarray(action, np.float32)
    if action.shape != shape:
        raise ValueError(f"action: must be an array of shape {shape}, got {action.shape}")
    return action


class CuriousFetchEnv(gymnasium.Env, gymnasium.utils.EzPickle):
    """One Fetch arm at a table, asked for one of its modules in each episode.

    `gymnasium.make` ends episodes after 50 steps. `reset(options={"module": name})` chooses the module; by default it
    is drawn uniformly, and `info["module"]` names it. A world that diverges, or is given an action that is not finite,
    ends its episode at once, with `info["diverged"]` set. A copy, or one that was pickled, is as newly made.

    Args:
      modules: names such as reach, push2, stack1on2.
      start: default, or as FetchReach-v4 or FetchPush-v4 starts: fetch-reach, fetch-push; mixed: each episode draws one
        of them that suits its module.
      render_mode: rgb_array, or human: MuJoCo's viewer, in real time.
      width, height: of an rgb_array, in pixels, at most 4096 each.
      distractors: number of out-of-reach cubes, each with a module of its own that can never be solved.
      reward_type: sparse, 0 when solved and -1 otherwise; or dense, minus the distance to the goal
        (in m, of modules of your own in their unit).
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"], "render_fps": round(1 / c.CONTROL_PERIOD)}

    def __init__(
        self,
        modules: str | Sequence[str] = ALL_MODULES,
        start: str = "default",
        render_mode: str | None = None,
        width: int = 640,
        height: int = 480,
        distractors: int = 0,
        reward_type: str = "sparse",
    ):
        gymnasium.utils.EzPickle.__init__(self, modules, start, render_mode, width, height, distractors, reward_type)
        env, self.goals = make_arm(modules, start, "c", distractors, reward_type)
        self.observation_space, self.action_space = self.goals.observation_space(), action_space()
        self.render_mode = render_mode
        self.fetch, self._mixture = numpy_arm.NumpyFetch(env), env.mixture
        self._pictures = Pictures(self.goals, render_mode, self.metadata["render_modes"], (width, height))
        self._module = np.zeros(1, int)
        self._begun = False
        self._distractors = np.zeros((distractors, 3))
        self._obs = np.zeros((1, self.goals.layout.size), np.float32)
        self._desired = self._achieved = np.zeros((1, self.goals.size), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode with new cubes, module and goal."""
        super().reset(seed=seed)
        module = self.np_random.integers(self.goals.num_modules, size=1)
        if options and options.get("module") is not None:
            module[:] = self.goals.index(options["module"])
        if self._mixture is not None:
            suits = np.flatnonzero(self._mixture.suits[int(module[0])])
            self.fetch.start = self._mixture.starts[self.np_random.choice(suits)]
        cubes = numpy_arm.place_cubes(self.np_random, self.goals.layout.num_cubes, self.fetch.start.gripper[:2])
        self.fetch.reset(cubes)
        self._distractors = numpy_arm.place_distractors(self.np_random, len(self._distractors))
        self._module, self._begun = module, True
        self._look()
        self._desired = self.goals.sample(self.np_random, module, self._obs)
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Makes one control step of 0.04 s.

        Raises:
          ResetNeeded: before the first reset.
          ValueError: for an action of another shape than [4].
        """
        if not self._begun:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        sound = self.fetch.step(read_action(action, (c.ACTION_SIZE,)).astype(float))
        if sound:
            self._distractors = numpy_arm.move_distractors(self.np_random, self._distractors)
            self._look()
            self._desired = self.goals.moved(self._desired, self._obs)
        info = self._info()
        if not sound:
            return self._observation(), -1.0, False, True, info | {"is_success": False, "diverged": True}
        solved = np.array([info["is_success"]])
        reward = float(self.goals.reward(self._achieved, self._desired, solved)[0])
        return self._observation(), reward, False, False, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """[..., G], [..., G] -> [...]: the reward of `reward_type`; a float for a single goal."""
        reward = self.goals.reward(achieved_goal, desired_goal)
        return float(reward) if reward.ndim == 0 else reward

    def render(self) -> Any:
        """Draws the arm and its goal: uint8 [height, width, 3] for rgb_array, None for human."""
        solved = self._begun and self._info()["is_success"]
        return self._pictures.draw(self.fetch.data.qpos, self._obs[0], self._desired[0], solved)

    def close(self) -> None:
        """Closes the window and frees what drawing took."""
        self._pictures.close()

    def _look(self) -> None:
        """Observes the arm, its cubes and the distractors."""
        self._obs = np.concatenate([self.fetch.observe(), self._distractors.reshape(-1)])[None].astype(np.float32)
        self._achieved = self.goals.achieved(self._module, self._obs)

    def _observation(self) -> Observation:
        if self.render_mode == "human":
            self.render()
        return {
            "observation": self._obs[0].copy(),
            "achieved_goal": self._achieved[0].copy(),
            "desired_goal": self._desired[0].copy(),
        }

    def _info(self) -> dict[str, Any]:
        solved = self.goals.solved(self._achieved, self._desired)
        return {"is_success": bool(solved[0]), "module": self.goals.names[int(self._module[0])]}
