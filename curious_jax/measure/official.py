"""Measures a policy in an official Fetch environment and beside it in ours, for `evaluate --env`."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from curious_jax import evaluation
from curious_jax.errors import ConfigError
from curious_jax.learner.state import PolicyParams, Setup, make_policy
from curious_jax.show import stats

OFFICIAL_ENVS = 8  # side by side, so that the policy is called once for all of them


def find_module(name: str, run: Setup) -> int:
    """Finds the index of the run's module that asks for what the official environment asks for.

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
    name: str, run: Setup, params: PolicyParams, episodes: int, seed: int, offset: jax.Array | None = None
) -> dict[str, Any]:
    """Plays there and here, and returns plain data with the number of episodes of each.

    Args:
      name: FetchReach-v4, FetchPush-v4 or FetchPickAndPlace-v4.
      episodes: there; here at least, since they fill whole batches.
      offset: what the run's sensors are off by (perturbation.offset).
    """
    from envs import official

    index = find_module(name, run)
    act = make_act(run, params, index, offset)
    theirs = official.judge(name, act, run.env.layout, episodes, seed, OFFICIAL_ENVS)
    evaluate = evaluation.make_evaluator(run, min(episodes, evaluation.MAX_WORLDS), np.array([index], np.int32))
    ours = evaluate(params, jax.random.key(seed), episodes, offset)[0]
    module = run.env.modules.names[index]
    here = describe(ours.successes[module], ours.episodes[module])
    there = describe(int(theirs.success.sum()), episodes)
    return {
        "env": name,
        "module": module,
        "episodes": episodes,
        "official": there | {"any_step_success": float(theirs.any_step_success.mean())},
        "ours": here,
        "difference": there["success"] - here["success"],
    }


def describe(successes: int, episodes: int) -> dict[str, Any]:
    """Gives the rate and its 95 % Wilson interval."""
    rate, interval = successes / episodes, stats.wilson(successes, episodes)
    return {"success": rate, "interval": interval, "successes": successes, "episodes": episodes}


def make_act(run: Setup, params: PolicyParams, index: int, offset: jax.Array | None) -> Any:
    """Compiles (obs [E, O], target [E, 3]) -> action [E, 4]: the policy asked for its module's goal."""
    policy, modules = make_policy(run, params), run.env.modules
    slots = np.flatnonzero(modules.slot_module == index)

    @jax.jit
    def act(obs: jax.Array, target: jax.Array) -> jax.Array:
        goal = jnp.zeros((obs.shape[0], modules.goal_size)).at[:, slots].set(target[:, : len(slots)])
        obs = obs if offset is None else obs + offset
        return policy(obs, goal, run.algorithm.test(jnp.full(obs.shape[0], index, jnp.int32)))

    return act


def table(result: dict[str, Any]) -> str:
    """Formats the figures for people."""
    width = max(len(result["env"]), len("difference"))
    lines = [f"{'':{width}}  success  95 % interval   episodes  at any step"]
    rows = ((result["env"], result["official"]), (f"our {result['module']}", result["ours"]))
    for name, row in rows:
        low, high = row["interval"]
        any_step = f"{row['any_step_success']:11.3f}" if "any_step_success" in row else ""
        interval = f"{low:.3f} to {high:.3f}"
        lines.append(f"{name:{width}}  {row['success']:7.3f}  {interval}  {row['episodes']:>8,}  {any_step}".rstrip())
    lines.append(f"{'difference':{width}}  {result['difference']:+7.3f}")
    return "\n".join(lines)
