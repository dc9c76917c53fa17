"""Shifts what a sensor reads from a given time on (CURIOUS, "Resilience to forgetting and sensor failures").

From a given number of training episodes on, the observed x of one cube is off by a constant: its position and its
position relative to the gripper, so its outcomes, goals reached and hindsight goals too, in training and evaluation.
The world itself stays as it is.
"""

from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.config import PerturbationConfig
from curious_jax.errors import ConfigError
from curious_jax.types import Env


def offset(config: PerturbationConfig, env: Env, episodes: Any) -> jax.Array | None:
    """Returns what is added to every observation after that many training episodes [O]; None without perturbation.

    Args:
      episodes: a number or a traced one, so that a run is one program. The shift is there once it is at least
        `perturb_at`: the evaluation after `perturb_at` episodes is the first to see it.
    Raises:
      ConfigError: when the scene has no such cube.
    """
    if config.perturb_at is None:
        return None
    check(config, env)
    places = (env.layout.cube_position(config.perturb_cube), env.layout.cube_relative_position(config.perturb_cube))
    shift = jnp.where(jnp.asarray(episodes) >= config.perturb_at, config.perturb_shift, 0.0)
    return jnp.zeros(env.obs_size).at[jnp.array([place.start for place in places])].set(shift)


def check(config: PerturbationConfig, env: Env) -> None:
    """Refuses a cube that the scene does not have.

    Raises:
      ConfigError: naming the option.
    """
    if config.perturb_at is None:
        return
    cubes = env.layout.num_cubes
    if config.perturb_cube > cubes:
        raise ConfigError(f"--perturb-cube {config.perturb_cube}: must be at most {cubes}, the scene's number of cubes")
