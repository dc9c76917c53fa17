"""python -m curious_jax.evaluate RUN: success per module of a run's policy, on fresh episodes.

    python -m curious_jax.evaluate runs/some-run
    python -m curious_jax.evaluate runs/some-run --checkpoint best --episodes 1000 --json
    python -m curious_jax.evaluate runs/some-run --modules push,pnp
    python -m curious_jax.evaluate runs/some-run --env FetchPickAndPlace-v4 --episodes 200

An episode succeeds when its module's goal is reached at the last step. Intervals are 95 % Wilson intervals.
With --env the policy is judged in one of gymnasium-robotics' own environments, beside the same module in ours.
"""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curious_jax.cli import environment, program
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.run import trained
from curious_jax.show import stats

if TYPE_CHECKING:
    from curious_jax.run import policies
    from curious_jax.run.acting import TrainedPolicy

MAX_EPISODES = 1_000_000


def parser() -> options.Parser:
    """The command line."""
    result = options.Parser("evaluate", "Success per module of a run's policy.", usage="RUN [OPTION VALUE ...]")
    trained.add_options(result)
    result.add_argument("--modules", metavar="A,B,...", help="evaluate these alone [default: all that can be achieved]")
    result.add_argument(
        "--episodes",
        default="100",
        metavar="N",
        help="episodes per module, at least: they are shared out over whole batches [default: 100]",
    )
    result.add_argument("--seed", default="0", metavar="K", help="seed of goals and starts [default: 0]")
    result.add_argument(
        "--env",
        metavar="FetchReach-v4|FetchPush-v4|FetchPickAndPlace-v4",
        help="also play in this official environment (gymnasium-robotics), beside the same module in ours",
    )
    result.add_argument("--json", action="store_true", help="print one JSON object")
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    episodes = options.number(given, "episodes", 1, MAX_EPISODES)
    seed = options.number(given, "seed", 0, 2**31 - 1)
    modules = options.convert("--modules", given["modules"], tuple[str, ...]) if given["modules"] is not None else None
    if modules is not None and given["env"] is not None:
        raise ConfigError("--modules: --env says which module is evaluated; leave one of the two out")
    export, index = trained.find(given)
    if given["env"] is not None:
        environment.check_envs_package()
        from envs import official

        official.check(given["env"])
    result = measure(export, episodes, seed, index, given["physics"], given["env"], modules)
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else table(result))
    return program.DONE


def measure(
    export: "policies.SavedPolicy",
    episodes: int,
    seed: int = 0,
    index: int = 0,
    physics: str | None = None,
    official: str | None = None,
    modules: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Evaluates an export; plain data with success and interval per achievable module.

    Args:
      episodes: per module, at least.
      index: which of the run's seeds.
      physics: a backend other than the run's, or None.
      official: an official environment to judge it in instead, beside its module in ours (judge.compare).
      modules: names of those to evaluate; None for all that can be achieved.
    """
    from curious_jax.learner.state import setup
    from curious_jax.measure import official as judge
    from curious_jax.run import policies
    from curious_jax.run.acting import TrainedPolicy

    config, env, params, offset, _ = policies.load(export, seed_index=index, physics=physics)
    about = {
        "run": str(export.path),
        "trained_episodes": export.info["episodes"],
        "algorithm": config.algorithm,
        "physics": env.physics_name,
        "seed": seed,
        "trained_seed": config.seed,
    }
    if official is not None:
        return about | judge.compare(official, setup(config, env), params, episodes, seed, offset)
    return about | evaluate(TrainedPolicy(config, env, params, export.info["episodes"]), episodes, seed, modules)


def evaluate(
    policy: "TrainedPolicy", episodes: int = 100, seed: int = 0, modules: Sequence[str] | None = None
) -> dict[str, Any]:
    """Success of a policy on fresh episodes, without exploration noise.

    Args:
      policy: what `curious_jax.load_policy` gave.
      episodes: per module, at least.
      seed: of goals and starts.
      modules: names of those to evaluate; None for all that can be achieved.
    Returns:
      The mean success (`mean_success`), and by module success, interval (95 % Wilson), successes and episodes; where
      episodes draw their starts (start "mixed"), the same from each start alone, by its name (`starts`).
    Raises:
      ConfigError: on a module that the policy does not have.
    """
    import jax

    from curious_jax import evaluation

    modules = modules.split(",") if isinstance(modules, str) else modules
    env = policy.env if modules is None else environment.with_modules_evaluated(policy.env, modules)
    total = episodes * sum(env.modules.achievable)
    found = evaluation.evaluate(policy.config, env, policy.params, jax.random.key(seed), total, policy.episodes)
    starts = {}
    if (mixture := getattr(env, "mixture", None)) is not None:  # success from each of the starts alone
        world: Any = env
        for name in mixture.names:
            one = world.at_start(name)
            number = episodes * sum(one.modules.achievable)
            flat = policy.config.algorithm == "her"  # which asks for all modules at once
            if number and not (flat and not one.mixture.suits[-1].any()):
                key = jax.random.key(seed)
                own = evaluation.evaluate(policy.config, one, policy.params, key, number, policy.episodes)
                starts[name] = {"success": own.rate, "successes": own.successes, "episodes": own.episodes}
    return {
        "mean_success": found.mean,
        "success": found.rate,
        "interval": {name: stats.wilson(found.successes[name], n) for name, n in found.episodes.items()},
        "successes": found.successes,
        "episodes": found.episodes,
        **({"starts": starts} if starts else {}),
    }


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    heading = (
        f"{result['run']}: {result['algorithm']}, seed {result['trained_seed']}, "
        f"after {result['trained_episodes']:,} episodes"
    )
    if "env" in result:
        from curious_jax.measure import official as judge

        return f"{heading}\n{judge.table(result)}"
    width = max(len(name) for name in [*result["success"], "module"])
    lines = [heading, f"{'module':{width}}  success  95 % interval   episodes"]
    for name, rate in result["success"].items():
        low, high = result["interval"][name]
        lines.append(f"{name:{width}}  {rate:7.3f}  {low:.3f} to {high:.3f}  {result['episodes'][name]:>8,}")
    lines.append(f"{'mean':{width}}  {result['mean_success']:7.3f}")
    for start, own in result.get("starts", {}).items():
        rates = ", ".join(f"{name} {rate:.3f}" for name, rate in own["success"].items())
        lines.append(f"from the start {start}: {rates}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
