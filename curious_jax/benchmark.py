"""python -m curious_jax.benchmark: how fast physics, rollouts, updates and whole cycles run on this machine.

    python -m curious_jax.benchmark
    python -m curious_jax.benchmark --num-envs 64 --physics c --json
    python -m curious_jax.benchmark --profile profile/          where a cycle's time goes, and a trace
    python -m curious_jax.benchmark --suite suite/              the standard table: worlds, batches, seeds

--num-envs is the number of environments in the rollouts; the whole cycle runs as training would, with the
preset's number (with --profile and --suite the cycle takes --num-envs too). Every figure leaves compilation out and
is a mean over --seconds of running.
"""

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.cli import program, start
from curious_jax.config import PHYSICS
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder


def parser() -> options.Parser:
    """The command line: the config's settings and the program's own."""
    result = options.Parser("benchmark", "Measures the speed of physics, rollouts, updates and whole training cycles.")
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--seconds", default="5", metavar="X", help="how long to measure each part [default: 5]")
    result.add_argument(
        "--profile", type=options.path, metavar="DIR", help="where a cycle's time goes: table and trace into DIR"
    )
    result.add_argument(
        "--suite", type=options.path, metavar="DIR", help="the standard table of speeds into DIR, in these sizes:"
    )
    for name, what in SUITE_OPTIONS.items():
        result.add_argument(f"--suite-{name}", metavar="A,B,...", help=f"{what} [default: by platform]")
    options.add_settings(result)
    return result


SUITE_OPTIONS = {
    "backends": "physics backends of the rollouts",
    "worlds": "numbers of worlds of the rollouts",
    "batches": "batch sizes of the updates",
    "seeds": "numbers of seeds side by side",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    return program.run(lambda: _benchmark(options.read(parser(), argv)))


def _benchmark(arguments: options.Arguments) -> int:
    given = arguments.rest
    seconds = options.convert("--seconds", given["seconds"], float)
    if not 0.0 < seconds <= 600.0:
        raise ConfigError(f"--seconds {given['seconds']}: must be more than 0 and at most 600")
    if given["profile"] and given["suite"]:
        raise ConfigError("--profile and --suite: give one of them")
    chosen = {name: _sizes(name, given[f"suite_{name}"]) for name in SUITE_OPTIONS if given[f"suite_{name}"]}
    if chosen and not given["suite"]:
        raise ConfigError(f"--suite-{next(iter(chosen))}: is for --suite DIR; give that too")
    start.start_jax(given["cache"])
    import jax

    from curious_jax.run import memory

    platform = jax.default_backend()
    rollout_config = configs.make_config(platform, **arguments.settings)
    whole = {k: v for k, v in arguments.settings.items() if k != "num_envs" or given["profile"] or given["suite"]}
    config = configs.make_config(platform, **whole)
    env = program.make_env(config)
    memory.check(config, env)
    if given["profile"]:
        if config.num_seeds > 1 or config.algorithm == "mgme":
            raise ConfigError("--profile: looks at one seed of one learner; leave --num-seeds and mgme out")
        from curious_jax.measure import profile

        result = profile.profile(config, env, seconds, _folder("--profile", given["profile"]))
        text = profile.table(result)
    elif given["suite"]:
        from curious_jax.measure import suite

        folder = _folder("--suite", given["suite"])
        sizes = dataclasses.replace(suite.default_sizes(platform), **chosen)
        result = suite.run(config, sizes, seconds, lambda row: print(row, file=sys.stderr, flush=True))
        suite.write(result, folder)
        text = suite.table(result)
    else:
        from curious_jax.measure import timing

        result = timing.figures(config, env, rollout_config.schedule.num_envs, seconds)
        text = table(result)
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else text)
    return program.DONE


def _sizes(name: str, text: str) -> tuple[Any, ...]:
    """The values of --suite-NAME."""
    option = f"--suite-{name}"
    if name == "backends":
        backends = options.convert(option, text, tuple[str, ...])
        for backend in backends:
            if backend not in PHYSICS[1:]:
                raise ConfigError(f"{option} {text}: must be of {', '.join(PHYSICS[1:])}")
        return backends
    values = tuple(options.convert(option, part, int) for part in options.convert(option, text, tuple[str, ...]))
    if min(values) < 1:
        raise ConfigError(f"{option} {text}: must be whole numbers of 1 or more")
    return values


def _folder(option: str, text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{option} {text}: cannot be made ({error.strerror}); give another folder") from None
    return folder


def table(result: dict[str, Any]) -> str:
    """The figures for people."""
    train = f"{result['train_num_envs']} envs, {result['updates_per_cycle']} updates of {result['batch_size']}"
    lines = [
        ("device", f"{result['device']} ({result['platform']}), physics {result['physics']}"),
        ("modules", ", ".join(result["modules"])),
        ("physics", f"{result['physics_steps_per_s']:,.0f} physics steps/s in rollouts of {result['num_envs']} envs"),
        ("rollout", f"{result['env_steps_per_s']:,.0f} env steps/s with the policy"),
        ("training", f"{result['train_env_steps_per_s']:,.0f} env steps/s in whole cycles ({train})"),
        ("updates", f"{result['updates_per_s']:,.0f} updates/s in whole cycles"),
        ("compile", f"{result['compile_s']:.1f} s"),
        ("memory", f"{result['memory_bytes'] / 2**30:.2f} GiB at most"),
    ]
    return "\n".join(f"{name:10}{text}" for name, text in lines)


if __name__ == "__main__":
    sys.exit(main())
