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
from curious_jax.config import PHYSICS, TrainConfig
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
        result, shown = measure_official(export, given["env"], episodes, seed, index, given["physics"]), official_table
    else:
        result, shown = measure(export, episodes, seed, index, given["physics"]), table
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else shown(result))
    return program.DONE


def _number(given: dict[str, Any], name: str, low: int, high: int) -> int:
    option = "--" + name.replace("_", "-")
    value = options.convert(option, given[name], int)
    if not low <= value <= high:
        allowed = f"{low}" if low == high else f"a whole number between {low} and {high}"
        raise ConfigError(f"{option} {value}: must be {allowed}")
    return value


def measure(
    export: "checkpoint.Export", episodes: int, seed: int = 0, index: int = 0, physics: str | None = None
) -> dict[str, Any]:
    """Evaluates an export; plain data with success and interval per achievable module.

    Args:
      episodes: per module, at least.
      index: which of the run's seeds.
      physics: a backend other than the run's, or None.
    """
    import jax

    from curious_jax import evaluation

    config, env = _opened(export, physics)
    policy = _policy(export, config, env, index)
    total = episodes * sum(env.modules.achievable)
    found = evaluation.evaluate(config, env, policy, jax.random.key(seed), total, export.info["episodes"])
    return {
        **_about(export, config, env, seed, index),
        "mean_success": found.mean,
        "success": found.rate,
        "interval": found.intervals,
        "successes": found.successes,
        "episodes": found.episodes,
    }


def measure_official(
    export: "checkpoint.Export", name: str, episodes: int, seed: int = 0, index: int = 0, physics: str | None = None
) -> dict[str, Any]:
    """Judges an export in an official environment; plain data with that figure, ours, and their difference.

    Args:
      name: FetchReach-v4, FetchPush-v4 or FetchPickAndPlace-v4.
      episodes, seed, index, physics: as for `measure`; physics is our world's.
    Raises:
      ConfigError: when it is no judge, is not installed, or asks for a module that the run did not learn.
    """
    from curious_jax import judge, perturbation, trainer

    program.check_envs_package()
    from envs import official

    try:
        official.check(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    config, env = _opened(export, physics)
    run = trainer.setup(dataclasses.replace(config, num_seeds=1), env)
    judge.module_index(name, run)
    policy = _policy(export, config, env, index)
    offset = perturbation.offset(config.perturbation, env, export.info["episodes"])
    return _about(export, config, env, seed, index) | judge.compare(name, run, policy, episodes, seed, offset)


def _opened(export: "checkpoint.Export", physics: str | None) -> tuple[TrainConfig, Any]:
    """The export's config and environment, on another physics backend where one is named."""
    config = export.config if physics is None else dataclasses.replace(export.config, physics=physics)
    return config, program.make_env(config)


def _policy(export: "checkpoint.Export", config: TrainConfig, env: Any, index: int) -> Any:
    """The policy of one of the run's seeds."""
    import jax

    from curious_jax import checkpoint, trainer

    like = jax.eval_shape(lambda: trainer.policy(trainer.init(config, env)))
    policy = checkpoint.restore(export, like)
    return jax.tree.map(lambda leaf: leaf[index], policy) if config.num_seeds > 1 else policy


def _about(export: "checkpoint.Export", config: TrainConfig, env: Any, seed: int, index: int) -> dict[str, Any]:
    """What was evaluated."""
    return {
        "run": str(export.path),
        "trained_episodes": export.info["episodes"],
        "algorithm": config.algorithm,
        "physics": env.physics_name,
        "seed": seed,
        "trained_seed": config.seed + index,
    }


def _heading(result: dict[str, Any]) -> str:
    return (
        f"{result['run']}: {result['algorithm']}, seed {result['trained_seed']}, "
        f"after {result['trained_episodes']:,} episodes"
    )


def official_table(result: dict[str, Any]) -> str:
    """An official environment's figures for people."""
    from curious_jax import judge

    return f"{_heading(result)}\n{judge.table(result)}"


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    width = max(len(name) for name in [*result["success"], "module"])
    lines = [
        _heading(result),
        f"{'module':{width}}  success  95 % interval   episodes",
    ]
    for name, rate in result["success"].items():
        low, high = result["interval"][name]
        lines.append(f"{name:{width}}  {rate:7.3f}  {low:.3f} to {high:.3f}  {result['episodes'][name]:>8,}")
    lines.append(f"{'mean':{width}}  {result['mean_success']:7.3f}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
