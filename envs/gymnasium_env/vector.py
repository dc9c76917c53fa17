"""Many arms at once as a Gymnasium vector environment, stepped by one compiled JAX program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.fetch import constants as c
from envs.gymnasium_env.goals import make_arm
from envs.gymnasium_env.pictures import Pictures
from envs.gymnasium_env.single import ALL_MODULES, CuriousFetchEnv, Observation, action_space, read_action


class CuriousFetchVectorEnv(VectorEnv, gymnasium.utils.EzPickle):
    """Many arms at once on any physics backend. A copy, or one that was pickled, is as newly made.

    `infos["module"]` [E] names the module of each environment's episode, and in `infos["final_info"]` that of the one
    that ended.

    Args:
      num_envs: E.
      modules, start, distractors, reward_type: as for CuriousFetchEnv.
      physics: auto, c, jax or warp.
      max_episode_steps: when episodes are truncated.
      autoreset_mode: of gymnasium.vector.AutoresetMode or its value. NextStep, Gymnasium's default, takes a step of its
        own for the reset, whose reward is -1 here, as 0 would mean solved; with SameStep the last observation is in
        `infos["final_obs"]` and its success in `infos["final_info"]`.
      render_mode: None or rgb_array.
      sleep: C physics leaves out cubes that rest where nothing can touch them, as for envs.make.
    """

    def __init__(
        self,
        num_envs: int = 1,
        modules: str | Sequence[str] = ALL_MODULES,
        start: str = "default",
        physics: str = "auto",
        max_episode_steps: int = c.EPISODE_LENGTH,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        distractors: int = 0,
        reward_type: str = "sparse",
        sleep: bool = False,
    ):
        import jax

        beside = (distractors, reward_type, sleep)
        gymnasium.utils.EzPickle.__init__(
            self, num_envs, modules, start, physics, max_episode_steps, autoreset_mode, render_mode, *beside
        )
        env, self.goals = make_arm(modules, start, physics, *beside)
        env = env.with_worlds(num_envs)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._pictures = Pictures(self.goals, render_mode, ["rgb_array"])
        self.single_observation_space, self.single_action_space = self.goals.observation_space(), action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        autoreset = {"render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode}
        self.metadata = {**CuriousFetchEnv.metadata, **autoreset}
        self.max_episode_steps = max_episode_steps
        self._step = jax.jit(jax.vmap(env.step))
        self._reset = jax.jit(jax.vmap(env.reset_for))
        self._renew = jax.jit(_renew)
        self._state: Any = None  # before the first reset
        self._obs = np.zeros((num_envs, self.goals.layout.size), np.float32)
        self._module = np.zeros(num_envs, int)
        self._desired = self._achieved = np.zeros((num_envs, self.goals.size), np.float32)
        self._steps = np.zeros(num_envs, int)
        self._over = np.zeros(num_envs, bool)  # to be reset at the next step

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts episodes everywhere, or where `options["reset_mask"]` [E] says, of the module `options["module"]`.

        Raises:
          ValueError: for a mask of another shape, or one that leaves environments out at the first reset.
        """
        super().reset(seed=seed)
        options = options or {}
        mask = np.asarray(options.get("reset_mask", np.ones(self.num_envs, bool)), bool)
        if mask.shape != (self.num_envs,):
            raise ValueError(f"reset_mask: must have the shape ({self.num_envs},), got {mask.shape}")
        if self._state is None and not mask.all():
            raise ValueError("reset_mask: the first reset must be of all environments")
        self._begin(mask, options.get("module"))
        return self._observation(), self._infos(self._solved())

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one control step of 0.04 s everywhere, but where the reset of an episode takes the step.

        Raises:
          ResetNeeded: before the first reset.
          ValueError: for actions of another shape than [E, 4].
        """
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        actions = read_action(actions, (self.num_envs, c.ACTION_SIZE))
        resetting = self._over if self.autoreset_mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        sound = self._advance(actions, resetting)
        if resetting.any():
            self._begin(resetting)
        solved, counts = self._solved(), sound & ~resetting
        success = solved & counts
        reward = np.where(counts, self.goals.reward(self._achieved, self._desired, solved), -1.0).astype(float)
        truncated = ((self._steps >= self.max_episode_steps) | ~sound) & ~resetting
        infos = self._infos(success)
        if not sound.all():
            infos |= _masked({"diverged": ~sound}, ~sound)
        self._over = truncated.copy()
        if self.autoreset_mode == AutoresetMode.SAME_STEP and truncated.any():
            infos = self._final(truncated, infos)
        return self._observation(), reward, np.zeros(self.num_envs, bool), truncated, infos

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """[..., G], [..., G] -> [...]: the reward of `reward_type`."""
        return self.goals.reward(achieved_goal, desired_goal)

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draws each arm and its goal: a picture uint8 [480, 640, 3] of each environment."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("call reset() before render()")
        if self.render_mode is None:
            self._pictures.warn()
            return None
        drawn = zip(np.asarray(self._state.physics.qpos), self._obs, self._desired, self._solved(), strict=True)
        return tuple(self._pictures.draw(*parts) for parts in drawn)

    def close_extras(self, **kwargs: Any) -> None:
        """Frees what drawing took."""
        self._pictures.close()

    def _begin(self, mask: np.ndarray, module: str | None = None) -> None:
        """Starts episodes where the mask says."""
        import jax

        keys = jax.random.split(jax.random.key(int(self.np_random.integers(2**31))), self.num_envs)
        drawn = self.np_random.integers(self.goals.num_modules, size=self.num_envs)
        if module is not None:
            drawn[:] = self.goals.index(module)
        fresh = self._reset(keys, drawn)
        self._state = fresh if self._state is None else self._renew(mask, fresh, self._state)
        self._obs = np.where(mask[:, None], np.asarray(fresh.obs), self._obs)
        self._module = np.where(mask, drawn, self._module)
        goals = self.goals.sample(self.np_random, self._module, self._obs)
        self._desired = np.where(mask[:, None], goals, self._desired)
        self._achieved = self.goals.achieved(self._module, self._obs)
        self._steps = np.where(mask, 0, self._steps)
        self._over = self._over & ~mask

    def _advance(self, actions: np.ndarray, resetting: np.ndarray) -> np.ndarray:
        """Steps all worlds and tells which are still sound [E].

        One that diverged, or whose contacts the physics lost, keeps its last observation.
        """
        self._state = self._step(self._state, actions)
        obs = np.asarray(self._state.obs)
        sound = (np.isfinite(obs).all(axis=1) & ~np.asarray(self._state.overflow)) | resetting
        self._obs = np.where((sound & ~resetting)[:, None], obs, self._obs)
        self._desired = self.goals.moved(self._desired, self._obs)
        self._achieved = self.goals.achieved(self._module, self._obs)
        self._steps = self._steps + 1
        return sound

    def _final(self, truncated: np.ndarray, infos: dict[str, Any]) -> dict[str, Any]:
        """Puts the ended episodes' last observations and infos aside, and starts new ones in their place."""
        last, final_obs = self._observation(), np.full(self.num_envs, None, dtype=object)
        for e in np.flatnonzero(truncated):
            final_obs[e] = {name: array[e].copy() for name, array in last.items()}
        final_info = _masked({name: infos[name] for name in infos if not name.startswith("_")}, truncated)
        self._begin(truncated)
        self._over[:] = False
        return self._infos(self._solved()) | _masked({"final_obs": final_obs, "final_info": final_info}, truncated)

    def _solved(self) -> np.ndarray:
        return self.goals.solved(self._achieved, self._desired)

    def _infos(self, success: np.ndarray) -> dict[str, Any]:
        names = np.array(self.goals.names, dtype=object)[self._module]  # texts, so objects, as Gymnasium has them
        return _masked({"is_success": success, "module": names}, np.ones(self.num_envs, bool))

    def _observation(self) -> Observation:
        seen = {"observation": self._obs, "achieved_goal": self._achieved, "desired_goal": self._desired}
        return {name: array.copy() for name, array in seen.items()}


def _renew(mask: Any, fresh: Any, state: Any) -> Any:
    """`fresh` where the mask [E] says and `state` elsewhere, leaf by leaf."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b), fresh, state)


def _masked(infos: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Each entry with the mask of the environments it speaks of, as Gymnasium's vector environments have it."""
    return {key: value for name, entry in infos.items() for key, value in ((name, entry), (f"_{name}", mask.copy()))}
