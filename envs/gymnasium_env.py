"""Our worlds as Gymnasium environments with goals, for other people's trainers. Importing this file registers them.

    import gymnasium
    import envs.gymnasium_env

    gymnasium.make("CuriousFetchPush-v0")
    gymnasium.make("CuriousFetch-v0", modules=("reach", "push2"))
    gymnasium.make_vec("CuriousFetchPush-v0", num_envs=2048, physics="warp")

Single environments run on C MuJoCo and numpy; the vector environment on any physics backend. Observations are dicts of
`observation`, `achieved_goal` and `desired_goal`; reward is 0 when solved and -1 otherwise; `compute_reward` gives it
for other goals, any number at a time, so that hindsight replay works. Nothing is drawn: `python -m curious_jax.play`
makes pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ModuleNotFoundError('envs.gymnasium_env needs gymnasium: pip install "curious_jax[gymnasium]"') from error
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from envs.fetch import constants as c
from envs.fetch import modular, plain
from envs.fetch.goals import GoalSpace
from envs.fetch.modules import cubes_needed
from envs.fetch.observation import ObservationLayout

IDS = {  # id -> modules
    "CuriousFetch-v0": ("reach", "push", "pnp", "stack"),
    "CuriousFetchReach-v0": ("reach",),
    "CuriousFetchPush-v0": ("push",),
    "CuriousFetchPickAndPlace-v0": ("pnp",),
    "CuriousFetchStack-v0": ("stack",),
}

Observation = dict[str, np.ndarray]


def goal_space(modules: Sequence[str], start: str) -> GoalSpace:
    """The goals of these modules around the gripper's start.

    Raises:
      ValueError: on a module or start that does not exist, or does not go with the other.
    """
    if isinstance(modules, str):
        modules = tuple(modules.split(","))
    layout = ObservationLayout(cubes_needed(modules), 0)
    modular.check_fingers(modules, start)
    return GoalSpace(tuple(modules), layout, modular.goal_centre(start))


def observation_space(goals: GoalSpace) -> spaces.Dict:
    """observation [O], achieved_goal [G], desired_goal [G]; metres, radians, per control step."""
    sizes = {"observation": goals.layout.size, "achieved_goal": goals.size, "desired_goal": goals.size}
    return spaces.Dict({name: spaces.Box(-np.inf, np.inf, (size,), np.float32) for name, size in sizes.items()})


def action_space() -> spaces.Box:
    """[4]: x, y, z of the gripper, fingers."""
    return spaces.Box(-1.0, 1.0, (c.ACTION_SIZE,), np.float32)


class CuriousFetchEnv(gymnasium.Env):
    """One Fetch arm at a table, asked for one of its modules in each episode.

    `gymnasium.make` ends episodes after 50 steps. `reset(options={"module": name})` chooses the module; without, it is
    drawn uniformly. A world that diverges ends its episode at once, with `info["diverged"]` set.

    Args:
      modules: names such as reach, push2, stack1on2.
      start: default, or as FetchReach-v4 or FetchPush-v4 starts: fetch-reach, fetch-push.
    """

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": round(1 / c.CONTROL_PERIOD)}

    def __init__(self, modules: Sequence[str] = IDS["CuriousFetch-v0"], start: str = "default"):
        self.goals = goal_space(modules, start)
        self.observation_space = observation_space(self.goals)
        self.action_space = action_space()
        self.fetch = plain.PlainFetch(self.goals.layout.num_cubes, start)
        self._module = np.zeros(1, int)
        self._desired = np.zeros((1, self.goals.size), np.float32)
        self._obs = np.zeros((1, self.goals.layout.size), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """A new episode: cubes, module and goal drawn anew."""
        super().reset(seed=seed)
        module = self.np_random.integers(self.goals.num_modules, size=1)
        if options and "module" in options:
            module[:] = self.goals.index(options["module"])
        cubes = plain.place_cubes(self.np_random, self.goals.layout.num_cubes, self.fetch.start.gripper[:2])
        self.fetch.reset(cubes)
        self._obs = self.fetch.observe()[None].astype(np.float32)
        self._module = module
        self._desired = self.goals.sample(self.np_random, module, self._obs)
        return self._observation(), self._info()

    def step(self, action: np.ndarray) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One control step of 0.04 s."""
        sound = self.fetch.step(np.asarray(action, float))
        if sound:
            self._obs = self.fetch.observe()[None].astype(np.float32)
            self._desired = self.goals.moved(self._desired, self._obs)
        info = self._info() if sound else {"is_success": False, "diverged": True}
        return self._observation(), 0.0 if info["is_success"] else -1.0, False, not sound, info

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> Any:
        """[..., G], [..., G] -> [...]: 0 when solved, -1 otherwise; a float for a single goal."""
        reward = self.goals.reward(achieved_goal, desired_goal)
        return float(reward) if reward.ndim == 0 else reward

    def _observation(self) -> Observation:
        achieved = self.goals.achieved(self._module, self._obs)
        return {"observation": self._obs[0], "achieved_goal": achieved[0], "desired_goal": self._desired[0]}

    def _info(self) -> dict[str, Any]:
        reward = self.goals.reward(self.goals.achieved(self._module, self._obs), self._desired)
        return {"is_success": bool(reward[0] == 0.0)}


class CuriousFetchVectorEnv(VectorEnv):
    """Many of these arms at once, stepped by one compiled JAX program on any physics backend.

    Args:
      num_envs: E.
      modules, start: as for CuriousFetchEnv.
      physics: auto, c, jax or warp.
      max_episode_steps: when episodes are truncated.
      autoreset_mode: of gymnasium.vector.AutoresetMode or its value. NextStep, Gymnasium's default, takes a step of its
        own for the reset, whose reward is -1 here, as 0 would mean solved; with SameStep the last observation is in
        `infos["final_obs"]` and its success in `infos["final_info"]`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        modules: Sequence[str] = IDS["CuriousFetch-v0"],
        start: str = "default",
        physics: str = "auto",
        max_episode_steps: int = c.EPISODE_LENGTH,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
    ):
        import jax

        from envs.fetch.env import FetchEnv

        self.goals = goal_space(modules, start)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = observation_space(self.goals), action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {**CuriousFetchEnv.metadata, "autoreset_mode": self.autoreset_mode}
        self.max_episode_steps = max_episode_steps
        env = FetchEnv.create(self.goals.layout.num_cubes, 0, physics, num_envs, start)
        self._step = jax.jit(jax.vmap(env.step))
        self._reset = jax.jit(jax.vmap(env.reset))
        self._renew = jax.jit(_renew)
        self._state: Any = None
        self._obs = np.zeros((num_envs, self.goals.layout.size), np.float32)
        self._module = np.zeros(num_envs, int)
        self._desired = np.zeros((num_envs, self.goals.size), np.float32)
        self._steps = np.zeros(num_envs, int)
        self._over = np.zeros(num_envs, bool)  # to be reset at the next step

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """New episodes everywhere, or where `options["reset_mask"]` [E] says, of the module `options["module"]`."""
        super().reset(seed=seed)
        options = options or {}
        everywhere = np.ones(self.num_envs, bool)
        self._begin(np.asarray(options.get("reset_mask", everywhere), bool), options.get("module"))
        return self._observation(), self._infos()

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One control step of 0.04 s everywhere, but where the reset of an episode takes the step."""
        resetting = self._over if self.autoreset_mode == AutoresetMode.NEXT_STEP else np.zeros(self.num_envs, bool)
        sound = self._advance(actions, resetting)
        if resetting.any():
            self._begin(resetting)
        success = self._solved() & sound & ~resetting
        truncated = ((self._steps >= self.max_episode_steps) | ~sound) & ~resetting
        infos = _masked({"is_success": success}, np.ones(self.num_envs, bool))
        if not sound.all():
            infos |= _masked({"diverged": ~sound}, ~sound)
        self._over = truncated.copy()
        if self.autoreset_mode == AutoresetMode.SAME_STEP and truncated.any():
            infos = self._final(truncated, infos)
        reward = np.where(success, 0.0, -1.0)
        return self._observation(), reward, np.zeros(self.num_envs, bool), truncated, infos

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> np.ndarray:
        """[..., G], [..., G] -> [...]: 0 when solved, -1 otherwise."""
        return self.goals.reward(achieved_goal, desired_goal)

    def _begin(self, mask: np.ndarray, module: str | None = None) -> None:
        """New episodes where the mask says."""
        import jax

        keys = jax.random.split(jax.random.key(int(self.np_random.integers(2**31))), self.num_envs)
        fresh = self._reset(keys)
        self._state = fresh if self._state is None else self._renew(mask, fresh, self._state)
        drawn = self.np_random.integers(self.goals.num_modules, size=self.num_envs)
        if module is not None:
            drawn[:] = self.goals.index(module)
        self._obs = np.where(mask[:, None], np.asarray(fresh.obs), self._obs)
        self._module = np.where(mask, drawn, self._module)
        goals = self.goals.sample(self.np_random, self._module, self._obs)
        self._desired = np.where(mask[:, None], goals, self._desired)
        self._steps = np.where(mask, 0, self._steps)
        self._over = self._over & ~mask

    def _advance(self, actions: np.ndarray, resetting: np.ndarray) -> np.ndarray:
        """Steps all worlds; which are still finite [E]. A diverged one keeps its last observation."""
        self._state = self._step(self._state, np.asarray(actions, np.float32))
        if np.any(np.asarray(self._state.overflow)):
            raise RuntimeError("physics ran out of contact buffers, so contacts were lost; use physics='c'")
        obs = np.asarray(self._state.obs)
        sound = np.isfinite(obs).all(axis=1) | resetting
        self._obs = np.where((sound & ~resetting)[:, None], obs, self._obs)
        self._desired = self.goals.moved(self._desired, self._obs)
        self._steps = self._steps + 1
        return sound

    def _final(self, truncated: np.ndarray, infos: dict[str, Any]) -> dict[str, Any]:
        """Puts the ended episodes' last observations and infos aside, and begins anew in their place."""
        last, final_obs = self._observation(), np.full(self.num_envs, None, dtype=object)
        for e in np.flatnonzero(truncated):
            final_obs[e] = {name: array[e].copy() for name, array in last.items()}
        final_info = _masked({name: infos[name] for name in infos if not name.startswith("_")}, truncated)
        self._begin(truncated)
        self._over[:] = False
        return self._infos() | _masked({"final_obs": final_obs, "final_info": final_info}, truncated)

    def _solved(self) -> np.ndarray:
        return self.goals.reward(self.goals.achieved(self._module, self._obs), self._desired) == 0.0

    def _infos(self) -> dict[str, Any]:
        return _masked({"is_success": self._solved()}, np.ones(self.num_envs, bool))

    def _observation(self) -> Observation:
        achieved = self.goals.achieved(self._module, self._obs)
        return {"observation": self._obs.copy(), "achieved_goal": achieved, "desired_goal": self._desired.copy()}


def _renew(mask: Any, fresh: Any, state: Any) -> Any:
    """`fresh` where the mask [E] says and `state` elsewhere, leaf by leaf."""
    import jax
    import jax.numpy as jnp

    return jax.tree.map(lambda a, b: jnp.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b), fresh, state)


def _masked(infos: dict[str, Any], mask: np.ndarray) -> dict[str, Any]:
    """Each entry with the mask of the environments it speaks of, as Gymnasium's vector environments have it."""
    return {key: value for name, entry in infos.items() for key, value in ((name, entry), (f"_{name}", mask.copy()))}


for _id, _modules in IDS.items():
    if _id not in gymnasium.registry:
        gymnasium.register(
            _id,
            entry_point="envs.gymnasium_env:CuriousFetchEnv",
            vector_entry_point="envs.gymnasium_env:CuriousFetchVectorEnv",
            max_episode_steps=c.EPISODE_LENGTH,
            kwargs={"modules": _modules},
        )
