"""python -m curious_jax.benchmark: how fast physics, rollouts, updates and whole cycles run on this machine.

    python -m curious_jax.benchmark
    python -m curious_jax.benchmark --num-envs 64 --physics c --json

--num-envs is the number of environments in the rollouts; the whole cycle runs as training would, with the
preset's number. Every figure leaves compilation out and is a mean over --seconds of running.
"""

import dataclasses
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from curious_jax import config as configs
from curious_jax import options, program, runfolder
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError


def parser() -> options.Parser:
    """The command line: the config's settings, --seconds and --json."""
    result = options.Parser("benchmark", "Measures the speed of physics, rollouts, updates and whole training cycles.")
    result.add_argument("--json", action="store_true", help="print one JSON object")
    result.add_argument("--seconds", default="5", metavar="X", help="how long to measure each part [default: 5]")
    options.add_settings(result)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    return program.run(lambda: _benchmark(options.read(parser(), argv)))


def _benchmark(arguments: options.Arguments) -> int:
    seconds = options.convert("--seconds", arguments.rest["seconds"], float)
    if not 0.0 < seconds <= 600.0:
        raise ConfigError(f"--seconds {arguments.rest['seconds']}: must be more than 0 and at most 600")
    import jax

    from curious_jax import memory

    program.keep_compiled(arguments.rest["cache"])
    rollout_config = configs.make_config(jax.default_backend(), **arguments.settings)
    settings = {k: v for k, v in arguments.settings.items() if k != "num_envs"}
    config = configs.make_config(jax.default_backend(), **settings)
    env = program.make_env(config)
    memory.check(config, env)
    result = measure(config, env, rollout_config.schedule.num_envs, seconds)
    print(json.dumps(runfolder.plain(result), allow_nan=False) if arguments.rest["json"] else table(result))
    return program.DONE


def measure(config: TrainConfig, env: Any, num_envs: int, seconds: float) -> dict[str, Any]:
    """The figures of DESIGN's benchmark object.

    Args:
      num_envs: environments in the rollouts.
      seconds: how long to run each part.
    """
    import jax

    steps = env.episode_length
    rollout_s, rollout_compile_s = rollout_time(config, env, num_envs, seconds)
    cycle_s, cycle_compile_s = cycle_time(config, env, seconds)
    schedule, seeds = config.schedule, config.num_seeds
    env_steps_per_s = num_envs * steps / rollout_s
    return {
        "physics": env.physics_name,
        "num_envs": num_envs,
        "physics_steps_per_s": env_steps_per_s * env.physics_steps_per_step,
        "env_steps_per_s": env_steps_per_s,
        "train_env_steps_per_s": seeds * schedule.num_envs * steps / cycle_s,
        "updates_per_s": seeds * schedule.updates_per_cycle / cycle_s,
        "batch_size": schedule.batch_size,
        "compile_s": rollout_compile_s + cycle_compile_s,
        "device": jax.devices()[0].device_kind,
        "memory_bytes": peak_memory(),
        "train_num_envs": schedule.num_envs,
        "updates_per_cycle": schedule.updates_per_cycle,
        "num_seeds": seeds,
        "modules": list(env.modules.names),
        "preset": config.preset,
        "platform": jax.default_backend(),
    }


def rollout_time(config: TrainConfig, env: Any, num_envs: int, seconds: float) -> tuple[float, float]:
    """(seconds per batch of num_envs episodes with a fresh policy and exploration noise, seconds to compile)."""
    import jax
    import jax.numpy as jnp

    from curious_jax import rollout, trainer

    run = trainer.setup(config, env.with_worlds(num_envs))
    schedule = dataclasses.replace(config.schedule, capacity=config.schedule.num_envs)  # no store needed here
    small = run._replace(config=dataclasses.replace(config, schedule=schedule))
    policy = trainer.policy(trainer.init_one(small, jnp.int32(config.seed)))
    module = jnp.arange(num_envs, dtype=jnp.int32) % env.modules.num_modules
    exploring = jnp.ones(num_envs, bool)

    def batch(policy: trainer.Policy, key: jax.Array) -> Any:
        return rollout.collect(trainer.acting(run, policy), run.env, config.exploration, key, module, exploring)

    key = jax.random.key(config.seed)
    start = time.perf_counter()
    compiled = jax.jit(batch).lower(policy, key).compile()
    compile_s = time.perf_counter() - start
    number = iter(range(10**9))
    return _repeat(lambda: compiled(policy, jax.random.fold_in(key, next(number))), seconds), compile_s


def cycle_time(config: TrainConfig, env: Any, seconds: float) -> tuple[float, float]:
    """(seconds per training cycle of all seeds, seconds to compile)."""
    import jax.numpy as jnp

    from curious_jax import trainer

    run = trainer.setup(config, env.with_worlds(config.num_seeds * config.schedule.num_envs))
    state = trainer.init(config, env)
    start = time.perf_counter()
    epoch = trainer.compiled_epoch(run, state)
    compile_s = time.perf_counter() - start

    def cycle() -> Any:
        nonlocal state
        state, total = epoch(state, trainer.no_metrics(config), jnp.int32(1))
        return total

    return _repeat(cycle, seconds), compile_s


def _repeat(run: Callable[[], Any], seconds: float) -> float:
    """Mean seconds per call, over calls of at least `seconds` together, after one that is not counted."""
    import jax

    jax.block_until_ready(run())
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or calls == 0:
        jax.block_until_ready(run())
        calls += 1
    return elapsed / calls


def peak_memory() -> int:
    """Peak bytes in use: on the accelerator if JAX has one, else of this process."""
    import jax

    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


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
