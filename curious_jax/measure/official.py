"""A policy's success in an official Fetch environment beside its success in ours, for `evaluate --env`."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax import evaluation
from curious_jax.errors import ConfigError
from curious_jax.learner import rollout
from curious_jax.learner.state import PolicyParams, Setup, make_policy
from curious_jax.show import stats
from curious_jax.types import FLAT

OFFICIAL_ENVS = 8  # side by side, so that the policy is called once for all of them


def module_index(name: str, run: Setup) -> int:
    """The index of the run's module that asks for what the official environment asks for.

    Raises:
      ConfigError: when the run has none, or asks for all its modules at once (HER).
    """
    from envs import official

    wanted, names = official.MODULES[name], run.env.modules.names
    if run.config.world != "fetch":
        raise ConfigError(f"--env {name}: the run is of --world {run.config.world}, not of the Fetch arm")
    if wanted not in names:
        raise ConfigError(
            f"--env {name}: asks for {wanted}, which this run did not learn; its modules: {', '.join(names)}"
        )
    if run.config.algorithm == "her" and len(names) > 1:
        raise ConfigError(
            f"--env {name}: asks for one module, but a run of --algorithm her has one goal for all of them"
        )
    return names.index(wanted)


def compare(
    name: str,
    run: Setup,
    policy: PolicyParams,
    episodes: int,
    seed: int,
    offset: jax.Array | None = None,
) -> dict[str, Any]:
    """Plays as many episodes there as here; plain data.

    Args:
      name: FetchReach-v4, FetchPush-v4 or FetchPickAndPlace-v4.
      offset: what the run's sensors are off by (perturbation.offset).
    """
    from envs import official

    index = module_index(name, run)
    act = official_act(run, policy, index, offset)
    theirs = official.judge(name, act, run.env.layout, episodes, seed, OFFICIAL_ENVS)
    ours = own_successes(run, policy, index, episodes, seed, offset)
    here, there = figures(ours, episodes), figures(int(theirs.success.sum()), episodes)
    return {
        "env": name,
        "module": run.env.modules.names[index],
        "episodes": episodes,
        "official": there | {"any_step_success": float(theirs.any_step_success.mean())},
        "ours": here,
        "difference": there["success"] - here["success"],
    }


def figures(successes: int, episodes: int) -> dict[str, Any]:
    """Rate and 95 % Wilson interval."""
    return {
        "success": successes / episodes,
        "interval": stats.wilson(successes, episodes),
        "successes": successes,
    }


def official_act(run: Setup, policy: PolicyParams, index: int, offset: jax.Array | None) -> Any:
    """(obs [E, O], target [E, 3]) -> action [E, 4], compiled: the policy asked for its module's goal."""
    acting, modules = make_policy(run, policy), run.env.modules
    slots = np.flatnonzero(modules.slot_module == index)
    asked = FLAT if run.config.algorithm == "her" else index

    @jax.jit
    def act(obs: jax.Array, target: jax.Array) -> jax.Array:
        goal = jnp.zeros((obs.shape[0], modules.goal_size)).at[:, slots].set(target[:, : len(slots)])
        obs = obs if offset is None else obs + offset
        return acting(obs, goal, jnp.full(obs.shape[0], asked, jnp.int32))

    return act


def own_successes(
    run: Setup, policy: PolicyParams, index: int, episodes: int, seed: int, offset: jax.Array | None
) -> int:
    """Successes in `episodes` evaluation episodes of one module in our world.

    Raises:
      OverflowedBuffers: when physics dropped contacts.
    """
    worlds = min(episodes, evaluation.MAX_WORLDS)
    run = run._replace(env=run.env.with_worlds(worlds))
    batch = jax.jit(functools.partial(evaluation.batch_success, run))
    module = jnp.full(worlds, index, jnp.int32)
    success: list[np.ndarray] = []
    for chunk in range(-(-episodes // worlds)):
        solved, overflow = jax.device_get(
            batch(policy, jax.random.fold_in(jax.random.key(seed), chunk), module, offset)
        )
        rollout.check_overflow(overflow)
        success.append(solved)
    return int(np.concatenate(success)[:episodes].sum())


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    width = max(len(result["env"]), len("difference"))
    lines = [f"{'':{width}}  success  95 % interval   episodes  at any step"]
    rows = ((result["env"], result["official"]), (f"our {result['module']}", result["ours"]))
    for name, row in rows:
        low, high = row["interval"]
        any_step = f"{row['any_step_success']:11.3f}" if "any_step_success" in row else ""
        interval = f"{low:.3f} to {high:.3f}"
        lines.append(
            f"{name:{width}}  {row['success']:7.3f}  {interval}  {result['episodes']:>8,}  {any_step}".rstrip()
        )
    lines.append(f"{'difference':{width}}  {result['difference']:+7.3f}")
    return "\n".join(lines)
