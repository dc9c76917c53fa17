"""Trained policies to act with, and the way to keep one after `fit`."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.fit import Progress
from curious_jax.learner import perturbation
from curious_jax.learner.state import make_policy, policy_params, setup
from curious_jax.run import policies
from curious_jax.types import FLAT, Env

ALL = "all"  # the flat goal of her, which asks for all modules at once


class TrainedPolicy:
    """A policy with the world that it was trained in. Made by `load_policy`.

    Attributes:
      config: settings.
      env: the world, as envs.make makes it; `env.with_worlds(E)` builds its physics for E worlds at once.
      params: parameters (learner.state.PolicyParams).
      modules: names of the modules, distractors included.
      goal_sizes: d of each module's goal, by name.
      offset: [O], what the run's sensors were off by at the end (`--perturb-at`) and the policy expects, or None. It is
        added to every observation here.
    """

    def __init__(self, config: TrainConfig, env: Env, params: Any, episodes: int = 0):
        self.config, self.env, self.params, self.episodes = config, env, params, episodes
        self.modules = tuple(env.modules.names)
        self._slots = [np.flatnonzero(env.modules.slot_module == i) for i in range(len(self.modules))]
        self.goal_sizes = {name: len(slots) for name, slots in zip(self.modules, self._slots, strict=True)}
        self.offset = perturbation.offset(config.perturbation, env, episodes)
        act = make_policy(setup(config, env), params)

        def one(obs: jax.Array, goal: jax.Array, module: jax.Array) -> jax.Array:
            obs = obs if self.offset is None else obs + self.offset
            return act(obs, env.modules.goal_at(goal, module, obs), module)

        self._act = jax.jit(jax.vmap(one))

    def act(self, obs: Any, module: str, goal: Any = ()) -> np.ndarray:
        """The action for an observation, without exploration noise.

        Args:
          obs: [O], or [E, O] for E environments; as the world's `reset` and `step` give it.
          module: a name of `modules`; "all" for a policy of algorithm her, whose goal asks for all modules at once.
          goal: [d] or [E, d], of that module alone, d = goal_sizes[module]. On the arm, in metres: reach and pnp
            x y z, push x y, stack x y z (any values: the place on top of the lower cube is read from the observation).
        Returns:
          [A] or [E, A] in [-1, 1], float32.
        Raises:
          ConfigError: when a shape or the module does not fit the policy.
        """
        obs, index = np.asarray(obs, np.float32), self._index(module)
        slots = np.arange(self.env.modules.goal_size) if index == FLAT else self._slots[index]
        goal = np.asarray(goal, np.float32)
        if obs.shape[-1:] != (self.env.obs_size,) or obs.ndim > 2:
            raise ConfigError(f"obs has shape {obs.shape}: must be [{self.env.obs_size}], or [E, {self.env.obs_size}]")
        fits = {(len(slots),), (*obs.shape[:-1], len(slots)), (1,) * (obs.ndim - 1) + (len(slots),)}
        if goal.shape not in fits:
            rows = f", or {[len(obs), len(slots)]}" if obs.ndim == 2 else ""
            raise ConfigError(f"goal has shape {goal.shape}: {module} takes [{len(slots)}]{rows}")
        whole = np.zeros((*obs.shape[:-1], self.env.modules.goal_size), np.float32)
        whole[..., slots] = goal
        action = self._batch(np.atleast_2d(obs), np.atleast_2d(whole), np.full(len(np.atleast_2d(obs)), index))
        return action.reshape(*obs.shape[:-1], -1)

    def for_gymnasium(self, env: Any) -> Callable[[Mapping[str, Any]], np.ndarray]:
        """The policy as a function of the observation dicts of one of our Gymnasium environments.

        Args:
          env: made by gymnasium.make or make_vec with an id of envs.gymnasium_env; of a vector in other
            processes (AsyncVectorEnv) give one such environment, as the function takes a vector's observations, too.
        Returns:
          observation dict -> action [A], or [E, A] for a vector environment.
        Raises:
          ConfigError: when the policy was trained in a world that these environments do not have, does not know one of
            the environment's modules, or its cubes or distractors are others.
        """
        self._check_world()
        goals, known = _goals_of(env), self.modules
        self._check_gymnasium(goals)

        def act(observation: Mapping[str, Any]) -> np.ndarray:
            obs, desired = (np.atleast_2d(observation[key]) for key in ("observation", "desired_goal"))
            number, goal = goals.module(desired), np.zeros((len(obs), self.env.modules.goal_size), np.float32)
            for i, (name, place) in enumerate(goals.slots.items()):
                slots = self._slots[known.index(name)]
                goal[np.ix_(number == i, slots)] = desired[number == i, place.start : place.start + len(slots)]
            flat = self.config.algorithm == "her"
            module = np.full(len(obs), FLAT) if flat else np.array([known.index(n) for n in goals.slots])[number]
            return self._batch(obs, goal, module).reshape(*np.shape(observation["observation"])[:-1], -1)

        return act

    def _check_world(self) -> None:
        """Refuses what no environment of envs.gymnasium_env can ask of this policy. Raises ConfigError."""
        reason = ""
        if self.config.world != "fetch":
            reason = f"was trained in the world {self.config.world}, and these environments are the arm's"
        elif self.config.algorithm == "her" and len(self.modules) > 1:
            reason = "has one goal for all its modules together, and these environments ask for one module at a time"
        if reason:
            raise ConfigError(f"the policy {reason}; use its own world: policy.env.with_worlds(1) and policy.act")

    def _check_gymnasium(self, goals: Any) -> None:
        """Refuses environments with modules, cubes or distractors that the policy does not know. Raises ConfigError."""
        table, ours, theirs = self.env.modules, self.env.layout, goals.layout
        own = tuple(name for name, achievable in zip(table.names, table.achievable, strict=True) if achievable)
        beside = f", distractors={ours.num_distractors}" if ours.num_distractors else ""
        make = f'make the environment as by gymnasium.make("CuriousFetch-v0", modules={own}{beside})'
        for name in goals.slots:
            if name not in self.modules:
                raise ConfigError(f"the environment asks for {name}: the policy has {', '.join(self.modules)}; {make}")
        if theirs != ours:
            raise ConfigError(
                f"the environment has {theirs.num_cubes} cubes and {theirs.num_distractors} distractors, and the "
                f"policy takes {ours.num_cubes} and {ours.num_distractors}; {make}"
            )

    def _batch(self, obs: np.ndarray, goal: np.ndarray, module: np.ndarray) -> np.ndarray:
        """[E, O], [E, G], [E] -> [E, A]."""
        return np.asarray(self._act(obs, goal, jnp.asarray(module, jnp.int32)))

    def _index(self, module: str) -> int:
        flat, module = self.config.algorithm == "her", configs.canonical(module)
        if flat != (module == ALL) or (not flat and module not in self.modules):
            raise ConfigError(f"module {module!r}: must be {ALL if flat else 'one of ' + ', '.join(self.modules)}")
        return FLAT if flat else self.modules.index(module)


def _goals_of(env: Any) -> Any:
    """Returns the goal space of one of our Gymnasium environments, or of those in a vector.

    Raises:
      ConfigError: when it is another's.
    """
    import gymnasium

    own = env.unwrapped
    if isinstance(own, gymnasium.vector.AsyncVectorEnv):
        raise ConfigError(
            "the environment is in other processes: give gymnasium.make of the same id and modules; the function that "
            "you get takes a vector's observations, too"
        )
    goals = getattr(own, "goals", None)
    if isinstance(own, gymnasium.vector.SyncVectorEnv):
        with contextlib.suppress(AttributeError):
            goals = own.get_attr("goals")[0]
    if not hasattr(goals, "slots"):
        raise ConfigError('the environment is none of envs.gymnasium_env; take gymnasium.make("CuriousFetch-v0")')
    return goals


def load_policy(
    path: str | Path, which: str | int = "last", seed_index: int = 0, physics: str | None = None
) -> TrainedPolicy:
    """A policy from disk, with its world.

    Args:
      path: the folder of a run or of an exported policy, the name of one that comes along (four-modules), or that of
        one on the Hugging Face hub (hub:OWNER/NAME, or hub:OWNER/NAME@REVISION; extra "hub").
      which: last or best, or the training episodes of a policy that was kept on the way.
      seed_index: which seed of a run with several.
      physics: a backend other than the run's.
    Raises:
      ConfigError: when there is no such policy, it cannot be read, or the hub's client is not installed.
    """
    loaded = policies.load(path, which, seed_index, physics)
    return TrainedPolicy(loaded.config, loaded.env, loaded.params, loaded.episodes)


def save_policy(path: str | Path, progress: Progress) -> None:
    """Keeps the policy that `fit` trained, as `load_policy`, evaluate and play read it.

    Args:
      path: a new or empty folder, or one that holds a policy, which is replaced.
      progress: what `fit` returned.
    Raises:
      ConfigError: when the folder holds anything but a policy; nothing is touched then.
    """
    policies.check_place(path)
    known = progress.evaluated_at == progress.episodes  # else the figure is of an earlier policy
    about = {"episodes": progress.episodes, "mean_success": progress.mean_success if known else None}
    policies.save(path, policy_params(progress.state), progress.config, about)
