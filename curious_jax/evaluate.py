"""python -m curious_jax.evaluate RUN: success per module of a run's policy, on fresh episodes.

    python -m curious_jax.evaluate runs/some-run
    python -m curious_jax.evaluate runs/some-run --checkpoint best --episodes 1000 --json
    python -m curious_jax.evaluate runs/some-run --env FetchPickAndPlace-v4 --episodes 200

An episode succeeds when its module's goal is reached at the last step. Intervals are 95 % Wilson intervals.
With --env the policy is judged in one of gymnasium-robotics' own environments, beside as many episodes in ours.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curious_jax import options, program, runfolder
from curious_jax.config import PHYSICS
from curious_jax.errors import ConfigError

if TYPE_CHECKING:
    from curious_jax import checkpoint

MAX_EPISODES = 1_000_000


def parser() -> options.Parser:
    """The command line."""
    result = options.Parser("evaluate", "Success per module of a run's policy.", usage="RUN [OPTION VALUE ...]")
    result.add_argument("run", metavar="RUN", help="the folder of a run")
    result.add_argument("--episodes", default="100", metavar="N", help="episodes per module [default: 100]")
    result.add_argument("--seed", default="0", metavar="K", help="seed of goals and starts [default: 0]")
    result.add_argument(
        "--seed-index", default="0", metavar="I", help="which seed of a run with --num-seeds, from 0 [default: 0]"
    )
    result.add_argument("--checkpoint", default="last", metavar="last|best", help="which policy [default: last]")
    result.add_argument("--physics", metavar="|".join(PHYSICS), help="another physics backend than the run's")
    result.add_argument(
        "--env",
        metavar="FetchReach-v4|FetchPush-v4|FetchPickAndPlace-v4",
        help="also play in this official environment (gymnasium-robotics), beside the same module in ours",
    )
    result.add_argument("--json", action="store_true", help="print one JSON object")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    return program.run(lambda: _evaluate(parser().read(argv)))


def _evaluate(given: dict[str, Any]) -> int:
    episodes = _number(given, "episodes", 1, MAX_EPISODES)
    seed = _number(given, "seed", 0, 2**31 - 1)
    if given["checkpoint"] not in ("last", "best"):
        raise ConfigError(f"--checkpoint {given['checkpoint']}: must be one of last, best")
    from curious_jax import checkpoint

    program.keep_compiled(given["cache"])
    export = checkpoint.find(given["run"], given["checkpoint"])
    index = _number(given, "seed_index", 0, export.config.num_seeds - 1)
    if given["env"] is not None:
        _check_official(given["env"])
    result = measure(export, episodes, seed, index, given["physics"], given["env"])
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else table(result))
    return program.DONE


def _number(given: dict[str, Any], name: str, low: int, high: int) -> int:
    option = "--" + name.replace("_", "-")
    value = options.convert(option, given[name], int)
    if not low <= value <= high:
        allowed = f"{low}" if low == high else f"a whole number between {low} and {high}"
        raise ConfigError(f"{option} {value}: must be {allowed}")
    return value


def _check_official(name: str) -> None:
    """Refuses what is no official judge, or cannot be one here."""
    program.check_envs_package()
    from envs import official

    try:
        official.check(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def measure(
    export: "checkpoint.Export",
    episodes: int,
    seed: int = 0,
    index: int = 0,
    physics: str | None = None,
    official: str | None = None,
) -> dict[str, Any]:
    """Evaluates an export; plain data with success and interval per achievable module.

    Args:
      episodes: per module, at least.
      index: which of the run's seeds.
      physics: a backend other than the run's, or None.
      official: an official environment to judge it in instead, beside its module in ours (judge.compare).
    """
    import jax

    from curious_jax import checkpoint, evaluation, judge, perturbation, trainer

    config = export.config if physics is None else dataclasses.replace(export.config, physics=physics)
    env = program.make_env(config)
    run = trainer.setup(dataclasses.replace(config, num_seeds=1), env)
    if official is not None:
        judge.module_index(official, run)
    like = jax.eval_shape(lambda: trainer.policy(trainer.init(config, env)))
    policy = checkpoint.restore(export, like)
    if config.num_seeds > 1:
        policy = jax.tree.map(lambda leaf: leaf[index], policy)
    about = {
        "run": str(export.path),
        "trained_episodes": export.info["episodes"],
        "algorithm": config.algorithm,
        "physics": env.physics_name,
        "seed": seed,
        "trained_seed": config.seed + index,
    }
    if official is not None:
        offset = perturbation.offset(config.perturbation, env, export.info["episodes"])
        return about | judge.compare(official, run, policy, episodes, seed, offset)
    total = episodes * sum(env.modules.achievable)
    found = evaluation.evaluate(config, env, policy, jax.random.key(seed), total, export.info["episodes"])
    return {
        **about,
        "mean_success": found.mean,
        "success": found.rate,
        "interval": found.intervals,
        "successes": found.successes,
        "episodes": found.episodes,
    }


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    heading = (
        f"{result['run']}: {result['algorithm']}, seed {result['trained_seed']}, "
        f"after {result['trained_episodes']:,} episodes"
    )
    if "env" in result:
        from curious_jax import judge

        return f"{heading}\n{judge.table(result)}"
    width = max(len(name) for name in [*result["success"], "module"])
    lines = [
        heading,
        f"{'module':{width}}  success  95 % interval   episodes",
    ]
    for name, rate in result["success"].items():
        low, high = result["interval"][name]
        lines.append(f"{name:{width}}  {rate:7.3f}  {low:.3f} to {high:.3f}  {result['episodes'][name]:>8,}")
    lines.append(f"{'mean':{width}}  {result['mean_success']:7.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
