"""Where the time of a training cycle goes: its stages as programs of their own, and a trace of the whole.

Stages that cannot be had alone are differences: what a program with the stage takes longer than one without it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from curious_jax.config import TrainConfig
from curious_jax.learner import curriculum, hindsight, normalizer, replay, rollout, trainer
from curious_jax.learner.state import Setup, TrainState, init_one, make_policy, no_metrics, policy_params, setup
from curious_jax.measure import timing
from curious_jax.run import folder as runfolder
from curious_jax.types import Env

TRACE, TABLE = "trace", "profile"  # in the profile's folder: a folder, and .json and .md


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    what: str
    seconds: float  # per cycle


def profile(config: TrainConfig, env: Env, seconds: float, folder: Path) -> dict[str, Any]:
    """Measures every stage of a cycle of one seed and writes trace, JSON and Markdown into the folder.

    Args:
      seconds: how long to run each of the ten programs.
    """
    stages, cycle_s = measure(config, env, seconds)
    schedule = config.schedule
    result = {
        "cycle_s": cycle_s,
        "stages": [
            {"name": s.name, "what": s.what, "seconds": s.seconds, "share": s.seconds / cycle_s} for s in stages
        ],
        "num_envs": schedule.num_envs,
        "updates_per_cycle": schedule.updates_per_cycle,
        "batch_size": schedule.batch_size,
        "capacity": schedule.capacity,
        "update_gflop": update_flop(config, env) / 1e9,
        "modules": list(env.modules.names),
        "physics": env.physics_name,
        "device": jax.devices()[0].device_kind,
        "platform": jax.default_backend(),
        "jax": jax.__version__,
    }
    result = runfolder.plain(result)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{TABLE}.json").write_text(json.dumps(result, indent=2, allow_nan=False) + "\n")
    (folder / f"{TABLE}.md").write_text(table(result) + "\n")
    trace(config, env, folder / TRACE)
    return result


def measure(config: TrainConfig, env: Env, seconds: float) -> tuple[list[Stage], float]:
    """(stages in the order of the cycle, seconds of a whole cycle); one seed."""
    run = setup(config, env.with_worlds(config.schedule.num_envs))
    state = jax.jit(lambda: init_one(run, jnp.int32(config.seed)))()
    episode_s, episode = _rollout(run, state, seconds)
    kept = _bookkeeping(run, state, episode, seconds)
    learned = _updates(run, state, seconds)
    cycle_s, _ = timing.cycle_time(config, env, seconds)
    stages = [*episode_s, *kept, *learned]
    stages.append(
        Stage("rest", "what the parts take longer or shorter together", cycle_s - sum(s.seconds for s in stages))
    )
    return stages, cycle_s


def _rollout(run: Setup, state: TrainState, seconds: float) -> tuple[list[Stage], Any]:
    """(the episodes' stages, one batch of episodes)."""
    env, num_envs, steps = run.env, run.config.schedule.num_envs, run.env.episode_length
    module = jnp.arange(num_envs, dtype=jnp.int32) % env.modules.num_modules
    key, policy = jax.random.key(run.config.seed), policy_params(state)

    def start(key: jax.Array) -> Any:
        keys = jax.random.split(key, num_envs)
        return jax.vmap(env.reset)(keys), jax.vmap(env.modules.sample_goal)(keys, module)

    def physics(world: Any, action: jax.Array) -> Any:
        world, obs = jax.lax.scan(lambda w, a: ((w := jax.vmap(env.step)(w, a)), w.obs), world, action)
        return obs

    def collect(act: rollout.Policy, key: jax.Array) -> Any:
        return rollout.collect(act, env, run.config.exploration, key, module, jnp.ones(num_envs, bool))

    still = jnp.zeros((steps, num_envs, env.action_size))
    world, _ = jax.jit(start)(key)
    start_s = _time(start, seconds, key)
    # The actions of the noise alone move the arm as training's do: physics with contacts costs more.
    drift = jax.jit(lambda key: collect(lambda *_: still[0], key))(key)[0].action.swapaxes(0, 1)
    physics_s = _time(physics, seconds, world, drift)
    noise_s = _time(lambda key: collect(lambda *_: still[0], key), seconds, key)
    whole = lambda policy, key: collect(make_policy(run, policy), key)  # noqa: E731
    whole_s = _time(whole, seconds, policy, key)
    return [
        Stage("start", f"{num_envs} worlds placed, goals drawn", start_s),
        Stage("physics", f"{steps} control steps and observations", physics_s),
        Stage("noise", "exploration, episodes put together", noise_s - physics_s - start_s),
        Stage("policy", f"{steps} passes of the actor, its input normalised", whole_s - noise_s),
    ], jax.jit(whole)(policy, key)[0]


def _bookkeeping(run: Setup, state: TrainState, episode: Any, seconds: float) -> list[Stage]:
    config, modules = run.config, run.env.modules
    relevant = jax.jit(jax.vmap(modules.relevant))(episode.obs[:, 0], episode.obs[:, -1])
    add, _ = timing.compiled(replay.add, state.replay, episode, relevant, donate=(0,))
    store = jax.tree.map(jnp.copy, state.replay)

    def put() -> Any:
        nonlocal store
        store = add(store, episode, relevant)
        return store

    # Everything is an argument: what a program is built with, the compiler works out beforehand.
    def curricula(windows: curriculum.CurriculumState, episode: Any, key: jax.Array) -> Any:
        module, flag = curriculum.choose(windows, config.curriculum, key, config.schedule.num_envs)
        return curriculum.update(windows, module, episode.success, flag)

    def statistics(held: normalizer.NormalizerState, episode: Any, relevant: jax.Array) -> Any:
        return normalizer.update(held, modules, episode, relevant, config.hindsight.probability)

    curricula_s = _time(curricula, seconds, state.curriculum, episode, jax.random.key(0))
    statistics_s = _time(statistics, seconds, state.normalizer, episode, relevant)
    return [
        Stage("curriculum", "modules chosen, results → LP", curricula_s),
        Stage("normaliser", "statistics of the new episodes", statistics_s),
        Stage("store", "episodes and relevance stored", timing.repeat(put, seconds)),
    ]


def _updates(run: Setup, state: TrainState, seconds: float) -> list[Stage]:
    """Programs that do one part of an update more each, the last one all of it."""
    config, modules, schedule = run.config, run.env.modules, run.config.schedule
    store = timing.filled(state.replay)
    wanted = jnp.arange(schedule.batch_size, dtype=jnp.int32) % modules.num_modules

    def drawn(store: replay.ReplayState, key: jax.Array) -> Any:
        return replay.sample(store, jax.random.split(key)[0], wanted)

    def rewritten(store: replay.ReplayState, key: jax.Array) -> Any:
        key_substitute = jax.random.split(key)[1]
        return hindsight.substitute(store, modules, config.hindsight, key_substitute, wanted, *drawn(store, key))

    def seen(store: replay.ReplayState, key: jax.Array) -> Any:
        return trainer.encode(run, state.normalizer, rewritten(store, key))

    def times(part: Callable[[replay.ReplayState, jax.Array], Any]) -> float:
        """Seconds for a cycle's number of it; summed up, so that nothing of it is left out by the compiler."""

        def loop(store: replay.ReplayState, key: jax.Array) -> jax.Array:
            keys = jax.random.split(key, schedule.updates_per_cycle)
            return jax.lax.fori_loop(0, len(keys), lambda i, total: total + _sum(part(store, keys[i])), jnp.float32(0))

        return _time(loop, seconds, store, jax.random.key(0))

    drawn_s, rewritten_s, seen_s = times(drawn), times(rewritten), times(seen)
    update_s = schedule.updates_per_cycle * timing.update_time(config, run.env, seconds)[0]
    count = f"{schedule.updates_per_cycle} batches of {schedule.batch_size}"
    return [
        Stage("sampling", f"{count} drawn from their modules' queues", drawn_s),
        Stage("substitution", "transitions gathered, modules and goals substituted, rewards", rewritten_s - drawn_s),
        Stage("input", "normalised, masked, joined to the networks' input", seen_s - rewritten_s),
        Stage("gradients", "losses, gradients, Adam, target averages", update_s - seen_s),
    ]


def _sum(tree: Any) -> jax.Array:
    return sum((leaf.sum().astype(jnp.float32) for leaf in jax.tree.leaves(tree)), jnp.float32(0))


def _time(function: Callable[..., Any], seconds: float, *arguments: Any) -> float:
    program, _ = timing.compiled(function, *arguments)
    return timing.repeat(lambda: program(*arguments), seconds)


def trace(config: TrainConfig, env: Env, folder: Path) -> None:
    """JAX's trace of one cycle, for TensorBoard's profile plugin or Perfetto."""
    run = setup(config, env.with_worlds(config.num_seeds * config.schedule.num_envs))
    state, total = trainer.init(config, env), no_metrics(config)
    epoch = trainer.compile_epoch(run, state)
    state, total = jax.block_until_ready(epoch(state, total, jnp.int32(1)))
    with jax.profiler.trace(str(folder)):
        jax.block_until_ready(epoch(state, total, jnp.int32(1)))


def update_flop(config: TrainConfig, env: Env) -> float:
    """Multiplications and additions in the matrix products of one DDPG update.

    Critic: the passes of both targets, the critic's, and twice that for its gradient, the input's own left out.
    Actor: its pass, the critic's, once that for the gradient by the action alone, twice its own for its gradient.
    """
    network, modules = config.network, env.modules
    inputs, hidden, action = (
        env.obs_size + modules.goal_size + modules.num_modules,
        network.hidden_size,
        env.action_size,
    )
    inner = (network.hidden_layers - 1) * hidden**2
    actor, critic = inputs * hidden + inner + hidden * action, (inputs + action) * hidden + inner + hidden
    products = 4 * actor + 6 * critic - (inputs + action) * hidden - 2 * inputs * hidden
    return 2.0 * config.schedule.batch_size * products


def table(result: dict[str, Any]) -> str:
    """The stages as Markdown."""
    head = (
        f"{result['device']} ({result['platform']}), physics {result['physics']}, {', '.join(result['modules'])}; "
        f"{result['num_envs']} envs, {result['updates_per_cycle']} updates of {result['batch_size']} "
        f"({result['update_gflop']:.2f} GFLOP each), store of {result['capacity']:,} episodes"
    )
    lines = [head, "", "| stage | what | ms a cycle | share |", "| --- | --- | ---: | ---: |"]
    for s in result["stages"]:
        lines.append(f"| {s['name']} | {s['what']} | {1e3 * s['seconds']:,.1f} | {100 * s['share']:.1f} % |")
    return "\n".join([*lines, f"| **cycle** | the compiled whole | {1e3 * result['cycle_s']:,.1f} | 100 % |"])
