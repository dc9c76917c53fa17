"""Compiles the training programs for an accelerator that is not here, and counts what they launch, compute and move.

Three programs: `updates`, the gradient steps of one cycle by themselves; `physics`, one control step by itself; and
`cycle`, whole training cycles. An update's or a control step's cost is read from the body of its loop in the optimised
program.
"""

import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.learner import batches, devices, trainer
from curious_jax.learner.state import Setup, TrainState, for_seeds, no_metrics, setup
from curious_jax.measure import hlo
from curious_jax.measure.targets import Target, make_device
from curious_jax.types import Env

PARTS = ("updates", "cycle")  # compiled unless others are asked for: a cycle holds the physics too
# The loops of which one pass is described, by the scopes that they hold and do not hold.
LOOPS = {
    "update": ("gradients", "physics"),
    "control_step": ("physics", "gradients"),
    "physics_step": ("physics", "policy"),  # of jax physics
}
# Without a device nothing can be timed, so XLA chooses its kernels by rules.
OPTIONS: dict[str, dict[str, Any]] = {"cuda": {"xla_gpu_autotune_level": 0}, "tpu": {}}


def check(config: TrainConfig) -> None:
    """Refuses what a program for one accelerator cannot have.

    Raises:
      ConfigError: naming the option.
    """
    if config.physics in ("c", "warp"):
        why = "runs on CPUs" if config.physics == "c" else "is compiled on the GPU itself"
        raise ConfigError(f"--physics {config.physics}: {why}; with --compile-for leave it out, or choose jax")
    if devices.count(config.devices) > 1:
        raise ConfigError(f"--devices {config.devices}: --compile-for compiles for one device; leave it out")


def measure(
    target: Target,
    config: TrainConfig,
    env: Env,
    parts: tuple[str, ...] = PARTS,
    keep: Path | None = None,
    say: Callable[[str], Any] = print,
) -> dict[str, Any]:
    """Compiles the programs and returns plain data.

    Args:
      env: with jax physics.
      parts: of updates, physics and cycle.
      keep: a folder for the optimised programs, NAME.hlo.
      say: gets a line before each compilation.
    """
    run = setup(config, env.with_worlds(config.num_seeds * config.schedule.num_envs))
    sharding = jax.sharding.SingleDeviceSharding(make_device(target))
    schedule = config.schedule
    result: dict[str, Any] = {
        "target": target.name,
        "device": target.device,
        "launch_s": target.launch_s,
        "bytes_per_s": target.bytes_per_s,
        "product_flop_per_s": target.product_flop_per_s,
        "memory": target.memory,
        "preset": config.preset,
        "modules": list(env.modules.names),
        "physics": env.physics_name,
        "num_envs": schedule.num_envs,
        "batch_size": schedule.batch_size,
        "updates_per_cycle": schedule.updates_per_cycle,
        "control_steps": env.episode_length,
        "num_seeds": config.num_seeds,
        "jax": jax.__version__,
        "programs": {},
    }
    passes = {
        "update": schedule.updates_per_cycle,
        "control_step": env.episode_length,
        "physics_step": env.physics_steps_per_step,
    }
    for part in parts:
        say(f"compiling {part} for {target.device}")
        program, seconds = compile_program(run, part, target, sharding)
        text = program.as_text()
        if keep is not None:
            (keep / f"{target.name}-{part}.hlo").write_text(text)
        read = hlo.read(text)
        result["programs"][part] = sizes(program, seconds)
        if part == "physics":
            result["programs"][part]["control_step"] = describe(read.cost(), target)
        for name, scopes in LOOPS.items():
            loop = read.loop(*scopes) if name not in result["programs"][part] else None
            if loop is not None:
                # XLA may have unrolled a loop: then a pass is several of ours.
                cost = loop.cost.times((loop.trips or passes[name]) / passes[name])
                result["programs"][part][name] = describe(cost, target)
    return result


def compile_program(run: Setup, part: str, target: Target, sharding: jax.sharding.Sharding) -> tuple[Any, float]:
    """Compiles the program of this name for the target: (the program, seconds of XLA alone)."""
    function, shapes = {"updates": updates, "physics": physics, "cycle": cycle}[part](run)
    there = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), shapes)
    lowered = jax.jit(function, donate_argnums=0).trace(*there).lower(lowering_platforms=(target.platform,))
    start = time.perf_counter()
    program = lowered.compile(compiler_options=OPTIONS[target.platform])
    return program, time.perf_counter() - start


def initial(run: Setup) -> Any:
    """Gives the shapes of the state that training starts with."""
    return jax.eval_shape(lambda: trainer.init(run.config, run.env))


def cycle(run: Setup) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Gives the program of whole cycles, and the shapes of its arguments; the first is donated."""
    return functools.partial(trainer.train_epoch, run), (initial(run), no_metrics(run.config), jnp.int32(1))


def physics(run: Setup) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Gives the program of a control step of all environments, and its arguments' shapes; the first is donated."""
    number = run.config.num_seeds * run.config.schedule.num_envs

    def step(states: Any, actions: jax.Array) -> Any:
        with jax.named_scope("physics"):
            return jax.vmap(run.env.step)(states, actions)

    states = jax.eval_shape(lambda key: jax.vmap(run.env.reset)(jax.random.split(key, number)), jax.random.key(0))
    return step, (states, jax.ShapeDtypeStruct((number, run.env.action_size), jnp.float32))


def updates(run: Setup) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Gives the program of one cycle's gradient steps, and the shapes of its arguments; the first is donated."""
    schedule = run.config.schedule

    def one(learner: Any, state: TrainState, turn: jax.Array) -> Any:
        wanted = jnp.arange(schedule.batch_size, dtype=jnp.int32) % run.env.modules.num_modules
        draw = batches.make(run, state.replay, state.normalizer, run.algorithm.replay(wanted, turn))
        keys = jax.random.split(state.key, schedule.updates_per_cycle)
        learner, losses = trainer.learn(run, draw, run.algorithm.pick(learner, turn), keys)
        return learner, jax.tree.map(jnp.mean, losses)

    def all_seeds(learner: Any, state: TrainState, turn: jax.Array) -> Any:
        return for_seeds(run.config, one, (0, 0, None))(learner, state, turn)

    state = initial(run)
    # The state's own copy of the learner is read by nothing, and so is no argument.
    return all_seeds, (state.learner, state, jnp.int32(0))


def sizes(program: Any, seconds: float) -> dict[str, Any]:
    """Reads a program's bytes: arguments, those of them changed in place, results, temporaries, code."""
    memory = program.memory_analysis()
    code = memory.generated_code_size_in_bytes
    if not code:  # XLA does not count a GPU's: the program as it is kept
        code = len(program.runtime_executable().serialize())
    return {
        "compile_s": seconds,
        "argument_bytes": memory.argument_size_in_bytes,
        "aliased_bytes": memory.alias_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "temporary_bytes": memory.temp_size_in_bytes,
        "code_bytes": code,
    }


def describe(cost: hlo.Cost, target: Target) -> dict[str, float | None]:
    """Gives the counts, and the seconds that each implies at the least, were it all there is."""
    launches = None if target.launch_s is None else cost.launches * target.launch_s
    return {
        "launches": cost.launches,
        "custom_calls": cost.custom_calls,
        "product_flop": cost.product_flop,
        "bytes": cost.bytes,
        "launch_floor_s": launches,
        "product_floor_s": cost.product_flop / target.product_flop_per_s,
        "bytes_floor_s": cost.bytes / target.bytes_per_s,
    }


def table(result: dict[str, Any]) -> str:
    """Formats the figures for people."""
    lines = [
        f"{result['device']}, preset {result['preset']}, {', '.join(result['modules'])}; {result['num_envs']:,} envs "
        f"({result['physics']} physics), {result['updates_per_cycle']:,} updates of {result['batch_size']:,}, "
        f"jax {result['jax']}",
        "",
        "| program | compile s | arguments MiB | temporaries MiB | code MiB |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, program in result["programs"].items():
        mib = [program[f"{part}_bytes"] / 2**20 for part in ("argument", "temporary", "code")]
        lines.append(f"| {name} | {program['compile_s']:.1f} | " + " | ".join(f"{size:,.1f}" for size in mib) + " |")
    lines += [
        "",
        "| one | in | launches | custom calls | product GFLOP | MB moved | floor µs: launches | products | bytes |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, program in result["programs"].items():
        for loop in LOOPS:
            if loop in program:
                lines.append(f"| {loop.replace('_', ' ')} | {name} | {_cells(program[loop])} |")
    return "\n".join(lines)


def _cells(counts: dict[str, Any]) -> str:
    floors = [counts[f"{kind}_floor_s"] for kind in ("launch", "product", "bytes")]
    numbers = [f"{counts['launches']:,.0f}", f"{counts['custom_calls']:,.0f}", f"{counts['product_flop'] / 1e9:,.2f}"]
    numbers.append(f"{counts['bytes'] / 1e6:,.1f}")
    return " | ".join(numbers + ["" if s is None else f"{1e6 * s:,.1f}" for s in floors])
