"""Measures rollouts, updates and whole cycles on this machine; compilation is left out and reported beside."""

import dataclasses
import itertools
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.learner import batches, products, replay, rollout, trainer
from curious_jax.learner.state import PolicyParams, Setup, init_one, make_policy, no_metrics, policy_params, setup
from curious_jax.types import Env, LearnerBatch


def repeat(run: Callable[[], Any], seconds: float) -> float:
    """Returns the mean seconds of a call, over calls of at least `seconds` together, after one that is not counted."""
    jax.block_until_ready(run())
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds or calls == 0:
        jax.block_until_ready(run())
        calls += 1
    return elapsed / calls


def compile_for(config: TrainConfig, function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Compiles a function for these arguments, as training is compiled: (the program, seconds that took)."""
    start = time.perf_counter()
    program = jax.jit(function, compiler_options=products.compiler_options(config)).lower(*arguments).compile()
    return program, time.perf_counter() - start


def drop_store(run: Setup) -> Setup:
    """Gives the run the smallest store, for what does not touch it."""
    schedule = dataclasses.replace(run.config.schedule, capacity=run.config.schedule.num_envs)
    return run._replace(config=dataclasses.replace(run.config, schedule=schedule))


def fill(store: replay.ReplayState) -> replay.ReplayState:
    """Makes a store as full as it gets, every episode relevant to every module; what it holds is zeros."""
    capacity, num_modules = store.relevant.shape
    return store.replace(
        relevant=jnp.ones_like(store.relevant),
        size=jnp.int32(capacity),
        queue=jnp.tile(jnp.arange(capacity, dtype=jnp.int32), (num_modules, 1)),
        count=jnp.full(num_modules, capacity, jnp.int32),
    )


def rollout_time(config: TrainConfig, env: Env, num_envs: int, seconds: float) -> tuple[float, float]:
    """Times a batch of num_envs episodes with a fresh policy and exploration noise: (seconds, seconds to compile)."""
    run = drop_store(setup(config, env.with_worlds(num_envs)))
    policy = policy_params(init_one(run, jnp.int32(config.seed)))
    module = jnp.arange(num_envs, dtype=jnp.int32) % env.modules.num_modules
    exploring = jnp.ones(num_envs, bool)

    def batch(policy: PolicyParams, key: jax.Array) -> Any:
        return rollout.collect(make_policy(run, policy), run.env, config.exploration, key, module, exploring)

    key = jax.random.key(config.seed)
    program, compile_s = compile_for(config, batch, policy, key)
    number = itertools.count()
    return repeat(lambda: program(policy, jax.random.fold_in(key, next(number))), seconds), compile_s


def cycle_time(config: TrainConfig, env: Env, seconds: float) -> tuple[float, float]:
    """Times a training cycle of all seeds: (seconds, seconds to compile)."""
    run = setup(config, env.with_worlds(config.num_seeds * config.schedule.num_envs))
    state = trainer.init(config, env)
    start = time.perf_counter()
    epoch = trainer.compile_epoch(run, state)
    compile_s = time.perf_counter() - start

    def cycle() -> Any:
        nonlocal state
        state, total = epoch(state, no_metrics(config), jnp.int32(1))
        return total

    return repeat(cycle, seconds), compile_s


def update_time(config: TrainConfig, env: Env, seconds: float) -> tuple[float, float]:
    """Times a gradient step of one seed, sampling and substitution included: (seconds, seconds to compile)."""
    run = setup(config, env)
    state = jax.jit(lambda: init_one(run, jnp.int32(config.seed)))()
    store, steps = fill(state.replay), config.schedule.updates_per_cycle
    wanted = jnp.arange(config.schedule.batch_size, dtype=jnp.int32) % env.modules.num_modules

    def updates(learner: Any, store: replay.ReplayState, key: jax.Array) -> Any:
        draw = batches.make(run, store, state.normalizer, wanted)
        return trainer.learn(run, draw, learner, jax.random.split(key, steps))

    learner, key = run.algorithm.pick(state.learner, jnp.int32(0)), jax.random.key(config.seed)
    program, compile_s = compile_for(config, updates, learner, store, key)

    def call() -> Any:
        nonlocal learner, key
        key = jax.random.fold_in(key, 1)
        learner, losses = program(learner, store, key)
        return losses

    return repeat(call, seconds) / steps, compile_s


def count_flop(config: TrainConfig, env: Env) -> float:
    """Counts the floating-point operations of one gradient step, as XLA does before it optimises the program."""
    run = setup(config, env)
    state = jax.eval_shape(lambda: init_one(run, jnp.int32(config.seed)))
    part = jax.eval_shape(lambda state: run.algorithm.pick(state.learner, jnp.int32(0)), state)
    inputs = jnp.zeros((config.schedule.batch_size, env.obs_size + env.modules.goal_size + env.modules.num_modules))
    action, reward = jnp.zeros((len(inputs), env.action_size)), jnp.zeros(len(inputs))
    batch = LearnerBatch(inputs=inputs, action=action, reward=reward, next_inputs=inputs)
    cost: Any = jax.jit(run.learner.update).lower(part, batch).cost_analysis()
    return float(cost["flops"])


def measure_rollouts(config: TrainConfig, env: Env, num_envs: int, seconds: float) -> dict[str, Any]:
    """Measures the speed of rollouts in num_envs environments."""
    batch_s, compile_s = rollout_time(config, env, num_envs, seconds)
    env_steps_per_s = num_envs * env.episode_length / batch_s
    return {
        "physics": env.physics_name,
        "env_steps_per_s": env_steps_per_s,
        "physics_steps_per_s": env_steps_per_s * env.physics_steps_per_step,
        "control_step_ms": 1e3 * batch_s / env.episode_length,
        "compile_s": compile_s,
    }


def measure_cycles(config: TrainConfig, env: Env, seconds: float) -> dict[str, Any]:
    """Measures the speed of whole training cycles, all seeds together."""
    cycle_s, compile_s = cycle_time(config, env, seconds)
    return {
        "cycle_s": cycle_s,
        "train_env_steps_per_s": config.num_seeds * config.schedule.num_envs * env.episode_length / cycle_s,
        "updates_per_s": config.num_seeds * config.schedule.updates_per_cycle / cycle_s,
        "compile_s": compile_s,
    }


def figures(config: TrainConfig, env: Env, num_envs: int, seconds: float) -> dict[str, Any]:
    """Measures the figures that the benchmark program prints.

    Args:
      num_envs: environments in the rollouts.
      seconds: how long to run each part.
    """
    rollouts, cycles = measure_rollouts(config, env, num_envs, seconds), measure_cycles(config, env, seconds)
    schedule = config.schedule
    return {
        "physics": rollouts["physics"],
        "num_envs": num_envs,
        "physics_steps_per_s": rollouts["physics_steps_per_s"],
        "env_steps_per_s": rollouts["env_steps_per_s"],
        "train_env_steps_per_s": cycles["train_env_steps_per_s"],
        "updates_per_s": cycles["updates_per_s"],
        "batch_size": schedule.batch_size,
        "compile_s": rollouts["compile_s"] + cycles["compile_s"],
        "device": jax.devices()[0].device_kind,
        "memory_bytes": peak_memory(),
        "train_num_envs": schedule.num_envs,
        "updates_per_cycle": schedule.updates_per_cycle,
        "num_seeds": config.num_seeds,
        "modules": list(env.modules.names),
        "preset": config.preset,
        "platform": jax.default_backend(),
    }


def peak_memory() -> int:
    """Returns the peak bytes in use: on the accelerator if JAX has one, else of this process."""
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats and "peak_bytes_in_use" in stats:
        return stats["peak_bytes_in_use"]
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
