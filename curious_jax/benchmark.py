"""python -m curious_jax.benchmark: measures physics, rollouts, updates and whole cycles on this machine.

    python -m curious_jax.benchmark
    python -m curious_jax.benchmark --num-envs 64 --physics c --json
    python -m curious_jax.benchmark --profile profile/          where a cycle's time goes, and a trace
    python -m curious_jax.benchmark --suite suite/              the standard table: worlds, batches, seeds
    python -m curious_jax.benchmark --compile-for h100          what the programs cost on a GPU that is not here

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
from curious_jax.cli import environment, program, start
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder


def parser() -> options.Parser:
    """Makes the command line: the config's settings and the program's own."""
    result = options.Parser("benchmark", "Measures the speed of physics, rollouts, updates and whole training cycles.")
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--seconds", default="5", metavar="X", help="how long to measure each part [default: 5]")
    result.add_argument(
        "--profile", type=options.path, metavar="DIR", help="where a cycle's time goes: table and trace into DIR"
    )
    result.add_argument(
        "--suite",
        type=options.path,
        metavar="DIR",
        help="the standard table of speeds into DIR: more and fewer worlds, batches and seeds than the settings name",
    )
    result.add_argument(
        "--rows",
        metavar="PART=N,N;...",
        help="with --suite: only these rows: numbers of worlds for rollouts, of transitions for updates and of "
        "seeds for cycles, as in rollouts=64,256;cycles=1,10 [default: all three, around the settings]",
    )
    result.add_argument(
        "--compile-for",
        metavar="DEVICE",
        help="compile for h100, h200, a100, v5e or v6e, which need not be there, and count launches, operations and "
        "bytes; nothing is run",
    )
    result.add_argument(
        "--programs",
        metavar="NAME",
        help="with --compile-for: updates, physics, cycle, or all, which is updates and the cycle with its physics "
        "[default: all]; or warp, to count the launches of a physics step of MuJoCo Warp, which is not compiled",
    )
    result.add_argument(
        "--keep-hlo", type=options.path, metavar="DIR", help="with --compile-for: the optimised programs into DIR"
    )
    options.add_settings(result)
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    settings, given = options.read(parser(), argv)
    seconds = options.convert("--seconds", given["seconds"], float)
    if not 0.0 < seconds <= 600.0:
        raise ConfigError(f"--seconds {given['seconds']}: must be more than 0 and at most 600")
    if given["profile"] and given["suite"]:
        raise ConfigError("--profile and --suite: give one of them")
    if given["rows"] is not None and not given["suite"]:
        raise ConfigError(f"--rows {given['rows']}: give it with --suite")
    if given["compile_for"] is not None:
        return _compile_for(settings, given)
    for option in ("programs", "keep_hlo"):
        if given[option] is not None:
            raise ConfigError(f"--{option.replace('_', '-')} {given[option]}: give it with --compile-for")
    start.start_jax(given["cache"])
    import jax

    from curious_jax.run import memory

    platform = jax.default_backend()
    rollout_config = configs.make_config(platform, **settings)
    whole = {k: v for k, v in settings.items() if k != "num_envs" or given["profile"] or given["suite"]}
    config = configs.make_config(platform, **whole)
    env = environment.make_env(config)
    memory.check(config, env)
    if given["profile"]:
        from curious_jax.measure import profile

        result = profile.profile(config, env, seconds, _folder("--profile", given["profile"]))
        text = profile.table(result)
    elif given["suite"]:
        from curious_jax.measure import suite

        rows = None if given["rows"] is None else suite.read_rows(given["rows"])
        folder = _folder("--suite", given["suite"])
        result = suite.run(
            config,
            seconds,
            lambda row: print(row, file=sys.stderr, flush=True),
            rows,
            lambda result: suite.write(result, folder),
        )
        text = suite.table(result)
    else:
        from curious_jax.measure import timing

        result = timing.figures(config, env, rollout_config.schedule.num_envs, seconds)
        text = table(result)
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else text)
    return program.DONE


def _compile_for(settings: dict[str, Any], given: dict[str, Any]) -> int:
    """Compiles for a device that is not here; JAX itself stays on the CPU, and keeps no compiled programs."""
    from curious_jax.measure import targets

    for option in ("profile", "suite"):
        if given[option]:
            raise ConfigError(f"--{option} and --compile-for: give one of them")
    if given["programs"] not in (None, "all", "updates", "physics", "cycle", "warp"):
        raise ConfigError(f"--programs {given['programs']}: must be updates, physics, cycle, all or warp")
    if given["programs"] == "warp" and given["keep_hlo"]:
        raise ConfigError(f"--keep-hlo {given['keep_hlo']}: nothing is compiled with --programs warp; leave it out")
    target = targets.find(given["compile_for"], compiler=given["programs"] != "warp")
    import jax

    jax.config.update("jax_platforms", "cpu")
    start.start_jax("none")
    from curious_jax.measure import compile_for, warp_launches

    if given["programs"] == "warp":
        config = configs.make_config(target.platform, **settings)
        warp_launches.check(target, config)
        counted = warp_launches.count(target, environment.make_env(dataclasses.replace(config, physics="c")).model)
        print(json.dumps(counted) if given["json"] else warp_launches.text(counted))
        return program.DONE
    parts = compile_for.PARTS if given["programs"] in (None, "all") else (given["programs"],)
    config = configs.make_config(target.platform, **settings)
    compile_for.check(config)
    env = environment.make_env(dataclasses.replace(config, physics="jax"))
    keep = _folder("--keep-hlo", given["keep_hlo"]) if given["keep_hlo"] else None
    result = compile_for.measure(target, config, env, parts, keep, lambda row: print(row, file=sys.stderr, flush=True))
    print(json.dumps(runfolder.plain(result), allow_nan=False) if given["json"] else compile_for.table(result))
    return program.DONE


def _folder(option: str, text: str) -> Path:
    folder = Path(text)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{option} {text}: cannot be made ({error.strerror}); give another folder") from None
    return folder


def table(result: dict[str, Any]) -> str:
    """Formats the figures for people."""
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
