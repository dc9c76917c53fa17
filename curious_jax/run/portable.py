"""Makes plain NumPy arrays of a policy, for programs without JAX.

docs/export.md says what each array is, and acts with them in NumPy; formats.py writes them.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import curious_jax
from curious_jax.errors import ConfigError
from curious_jax.learner import networks
from curious_jax.run.policies import Loaded
from curious_jax.types import FLAT, ModuleTable

VERSION = 1  # of the arrays and their names
PROBES = 8  # random goals and observations on which a goal's rule must hold


@dataclass(frozen=True)
class Portable:
    """A policy as NumPy arrays by name and plain data about them."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


def make(loaded: Loaded) -> Portable:
    """Makes plain arrays of a policy.

    Raises:
      ConfigError: when a module's goal moves in a way that the arrays cannot say, or the policy is not finite.
    """
    config, modules, normalizer = loaded.config.normalizer, loaded.env.modules, loaded.params.normalizer
    layers = networks.actor_layers(loaded.params.actor)
    arrays: dict[str, Any] = {}
    for part, moments in (("obs", normalizer.obs), ("goal", normalizer.goal)):
        mean, deviation = np.asarray(moments.mean), np.sqrt(np.asarray(moments.variance))
        arrays[f"{part}.mean"] = mean if config.normalize else np.zeros_like(mean)
        floored = np.maximum(deviation, np.float32(config.std_floor))
        arrays[f"{part}.std"] = floored if config.normalize else np.ones_like(mean)
    arrays |= _goal_rule(modules, loaded.env.obs_size)
    if loaded.offset is not None:  # x + offset is what the policy knows
        offset = np.asarray(loaded.offset)
        arrays["obs.mean"] = arrays["obs.mean"] - offset
        arrays["goal.offset"] = arrays["goal.offset"] + arrays["goal.scale"] * offset[arrays["goal.index"]]
    arrays["goal.module"] = np.asarray(modules.slot_module, np.int64)
    arrays |= {f"layer.{k}.{name}": leaf for k, layer in enumerate(layers) for name, leaf in layer.items()}
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise ConfigError("the policy has numbers that are not finite; export another, as by --checkpoint best")
    about = {
        "format": "curious_jax actor",
        "format_version": VERSION,
        "version": curious_jax.__version__,
        "algorithm": loaded.config.algorithm,
        "modules": list(modules.names),
        "goal_slots": [[slots.start, slots.stop] for slots in modules.slots],
        "flat_goal": loaded.config.algorithm == "her",  # then the module is -1, and all slots count
        "experts": layers[0]["weight"].ndim == 3,
        "obs_size": loaded.env.obs_size,
        "goal_size": modules.goal_size,
        "action_size": loaded.env.action_size,
        "layers": len(layers),
        # Where nothing is normalised, nothing is clipped.
        "clip": config.clip if config.normalize else float(np.finfo(np.float32).max),
        "norm_epsilon": networks.NORM_EPSILON,
    }
    return Portable(arrays, about)


def _goal_rule(modules: ModuleTable, obs_size: int) -> dict[str, np.ndarray]:
    """Finds how goals follow the observation: goal now = keep · goal + scale · obs[index] + offset, slot by slot.

    Raises:
      ConfigError: naming a module whose goal follows it in another way.
    """

    def now(goal: jax.Array, obs: jax.Array) -> jax.Array:
        return modules.goal_at(goal, jnp.int32(FLAT), obs)

    @jax.jit
    def look(goals: jax.Array, obs: jax.Array) -> Any:
        """Gives slopes and goal at the origin, and goals elsewhere."""
        origin = jnp.zeros(modules.goal_size), jnp.zeros(obs_size)
        return *jax.jacfwd(now, (0, 1))(*origin), now(*origin), jax.vmap(now)(goals, obs)

    draw = np.random.default_rng(0)
    goals, obs = (draw.normal(size=(PROBES, n)).astype(np.float32) for n in (modules.goal_size, obs_size))
    by_goal, by_obs, offset, found = (np.asarray(x) for x in look(goals, obs))
    index = np.abs(by_obs).argmax(axis=1)
    rule = {
        "goal.keep": np.diag(by_goal),
        "goal.index": index.astype(np.int64),
        "goal.scale": by_obs[np.arange(len(index)), index],
        "goal.offset": offset,
    }
    followed = rule["goal.keep"] * goals + rule["goal.scale"] * obs[:, index] + rule["goal.offset"]
    right = np.isclose(followed, found, atol=1e-5).all(axis=0)  # False for NaN
    for slot in np.flatnonzero(~right):
        name = modules.names[modules.slot_module[slot]]
        raise ConfigError(
            f"{name}: its goal follows the observation in a way that no exported file can say; take --format folder"
        )
    return rule
