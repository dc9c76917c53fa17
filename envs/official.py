"""The official Fetch-v4 environments of gymnasium-robotics as judges of our policies.

Their observation holds the same quantities as ours in another order, for one cube or none. Cubes that they do not have
are imagined: level and at rest on the table, where our own episodes would start them, and clear of the goal.

An episode is exactly 50 steps and succeeds when it is solved at the last one. (Their vectorised form is not used: its
automatic reset takes a step of its own, with reward 0, which in Fetch means solved.)
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import numpy_arm
from envs.fetch.observation import ObservationLayout

# Each environment with the module that asks for the same.
MODULES = {"FetchReach-v4": "reach", "FetchPush-v4": "push", "FetchPickAndPlace-v4": "pnp"}

Act = Callable[[np.ndarray, np.ndarray], Any]
"""(our observation [E, O], goal [E, 3] in m) -> action [E, 4]; both float32."""

_EXTRA = 'pip install "curious_jax[official]"'

# Their observation: 10 numbers without a cube (FetchReach), 25 with one.
_GRIPPER = slice(0, 3)
_CUBE, _CUBE_FROM_GRIPPER, _FINGERS, _CUBE_EULER, _CUBE_VELOCITY, _CUBE_SPIN = (
    slice(*ends) for ends in itertools.pairwise((3, 6, 9, 11, 14, 17, 20))
)
_GRIPPER_VELOCITY, _FINGER_VELOCITY = slice(-5, -2), slice(-2, None)
_FINGERS_WITHOUT_CUBE = slice(3, 5)
_WITH_CUBE = 25


@dataclass(frozen=True)
class Outcome:
    """The ends of episodes."""

    success: np.ndarray  # [N] bool, solved at the last step
    any_step_success: np.ndarray  # [N] bool, solved after some step


def check(name: str) -> None:
    """Refuses what is no judge, and all names when gymnasium-robotics is missing.

    Raises:
      ArgumentError: with the right values or the next move.
    """
    known = ", ".join(MODULES)
    version = re.fullmatch(r"(Fetch(?:Reach|Push|PickAndPlace))-v([123])", name)
    if version:
        needs = "needs mujoco-py and starts" if version[2] == "1" else "starts"
        message = (
            f"refused, as it {needs} from wrong or irreproducible states, which gymnasium-robotics put right in v4; "
            f"use {version[1]}-v4"
        )
        raise ArgumentError("env", message, name)
    if name not in MODULES:
        raise ArgumentError("env", f"must be one of {known}", name)
    if importlib.util.find_spec("gymnasium_robotics") is None:
        raise ArgumentError("env", f"gymnasium-robotics is missing; {_EXTRA}", name)


def make(name: str) -> Any:
    """One official environment, as gymnasium makes it with its limit of 50 steps."""
    check(name)
    import gymnasium
    import gymnasium_robotics

    from envs.compat import official as compat

    compat.apply()
    gymnasium.register_envs(gymnasium_robotics)
    return gymnasium.make(name, disable_env_checker=True)


@dataclass(frozen=True)
class Imagined:
    """The parts of an episode that our world has and theirs does not."""

    cubes: np.ndarray  # [N or N - 1, 3] m: all cubes, or all but the first
    distractors: np.ndarray  # [D, 3] m

    @classmethod
    def draw(
        cls, rng: np.random.Generator, layout: ObservationLayout, observation: np.ndarray, goal: np.ndarray
    ) -> Imagined:
        """Cubes within ±0.15 m of the gripper, ≥ 0.1 m from it, from the cube, from each other and from the goal."""
        has_cube = len(observation) == _WITH_CUBE
        apart_from = [goal[:2], observation[_CUBE][:2]] if has_cube else [goal[:2]]
        xy = numpy_arm.place_cubes(rng, layout.num_cubes - has_cube, observation[_GRIPPER][:2], apart_from)
        heights = np.full((len(xy), 1), c.CUBE_REST_HEIGHT)
        return cls(np.concatenate([xy, heights], axis=1), numpy_arm.place_distractors(rng, layout.num_distractors))


def observe(observation: np.ndarray, imagined: Imagined) -> np.ndarray:
    """Their observation [10] or [25] as ours [O], with the imagined cubes at rest.

    All their velocities are per control step of 0.04 s, the cube's is the gripper's taken off, and its rotation is
    in the same Euler angles: as in ours.
    """
    gripper, velocity = observation[_GRIPPER], observation[_GRIPPER_VELOCITY]
    has_cube = len(observation) == _WITH_CUBE
    fingers = observation[_FINGERS] if has_cube else observation[_FINGERS_WITHOUT_CUBE]
    parts = [gripper, velocity, fingers, observation[_FINGER_VELOCITY]]
    if has_cube:
        parts += [observation[part] for part in (_CUBE, _CUBE_FROM_GRIPPER, _CUBE_EULER, _CUBE_VELOCITY, _CUBE_SPIN)]
    for cube in imagined.cubes:
        parts += [cube, cube - gripper, np.zeros(3), -velocity, np.zeros(3)]
    return np.concatenate([*parts, imagined.distractors.reshape(-1)]).astype(np.float32)


def judge(name: str, act: Act, layout: Any, episodes: int, seed: int = 0, num_envs: int = 8) -> Outcome:
    """Plays episodes in an official environment, `num_envs` side by side.

    Args:
      act: is always called with min(num_envs, episodes) rows.
      layout: the ObservationLayout that `act` takes.
      seed: with an episode's number it decides that episode's start and goal, whatever `num_envs` is.
    Raises:
      ValueError: as `check`.
    """
    envs = [make(name) for _ in range(min(num_envs, episodes))]
    solved = [
        _play(envs, act, layout, seed, range(first, min(first + len(envs), episodes)))
        for first in range(0, episodes, len(envs))
    ]
    for env in envs:
        env.close()
    steps = np.concatenate(solved, axis=1)
    return Outcome(success=steps[-1], any_step_success=np.asarray(steps.any(axis=0)))


def _play(envs: list[Any], act: Act, layout: ObservationLayout, seed: int, numbers: range) -> np.ndarray:
    """The episodes of these numbers, one per environment: solved or not after each step, [50, n] bool."""
    n = len(numbers)
    obs = np.zeros((len(envs), layout.size), np.float32)
    goal = np.zeros((len(envs), 3), np.float32)
    imagined = []
    for e, number in enumerate(numbers):
        sequence = np.random.SeedSequence((seed, number))
        first, _ = envs[e].reset(seed=int(sequence.generate_state(1)[0]))
        goal[e] = first["desired_goal"]
        imagined.append(
            Imagined.draw(np.random.default_rng(sequence), layout, first["observation"], first["desired_goal"])
        )
        obs[e] = observe(first["observation"], imagined[e])
    solved = np.zeros((c.EPISODE_LENGTH, n), bool)
    for t in range(c.EPISODE_LENGTH):
        action = np.asarray(act(obs, goal))
        for e in range(n):
            theirs, _, terminated, truncated, info = envs[e].step(action[e])
            assert (terminated or truncated) == (t == c.EPISODE_LENGTH - 1), "an episode is 50 steps"
            obs[e] = observe(theirs["observation"], imagined[e])
            solved[t, e] = bool(info["is_success"])
    return solved
