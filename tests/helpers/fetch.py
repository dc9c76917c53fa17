"""Shared by the tests of the Fetch arm: the backends, compiled once each, and rollouts of whole batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import envs
from envs.fetch import scripted
from envs.fetch.env import FetchEnv, FetchState

DIRECTIONS = {"+x": (1, 0, 0), "-x": (-1, 0, 0), "+y": (0, 1, 0), "-y": (0, -1, 0), "+z": (0, 0, 1), "-z": (0, 0, -1)}


@functools.cache
def env(physics: str, num_cubes: int = 2, num_worlds: int = 1) -> FetchEnv:
    """The environment with two cubes or more on a backend (or "c, sleep"), built for `num_worlds` worlds."""
    name, _, sleep = physics.partition(", ")
    return envs.make(modules=("reach", f"push{num_cubes}"), physics=name, sleep=bool(sleep)).with_worlds(num_worlds)


@functools.cache
def batched_step(physics: str, num_worlds: int, num_cubes: int = 2):
    """step(states, actions [E, 4]), compiled; one program per backend and batch, whatever a test then does with it."""
    return jax.jit(jax.vmap(env(physics, num_cubes, num_worlds).step))


def reset(physics: str, num_worlds: int, seed: int = 0, num_cubes: int = 2) -> FetchState:
    """`num_worlds` environments at the start of an episode."""
    keys = jax.random.split(jax.random.key(seed), num_worlds)
    return jax.jit(jax.vmap(env(physics, num_cubes, num_worlds).reset))(keys)


def at(states: FetchState, cubes) -> FetchState:
    """`states` with cubes at rest at `cubes` [E, n, 2] (x, y), the arm as it was at the start of an episode."""
    from envs.fetch import start

    settled = start.settled_start()
    qpos, qvel, sensordata = jax.vmap(lambda xy: start.with_cubes(settled, xy))(jnp.asarray(cubes, jnp.float32))
    return states.replace(physics=states.physics.replace(qpos=qpos, qvel=qvel, sensordata=sensordata))


def run(physics: str, states: FetchState, actions) -> tuple[FetchState, np.ndarray]:
    """Plays actions [T, E, 4]: the last states and the observations [T, E, O]."""
    step = batched_step(physics, states.obs.shape[0])
    observations = []
    for action in jnp.asarray(actions, jnp.float32):
        states = step(states, action)
        observations.append(np.asarray(states.obs))
    return states, np.stack(observations)


def script(physics: str, states: FetchState, goals, steps: int, stack: bool = False) -> tuple[FetchState, np.ndarray]:
    """Plays the scripted policy for cube 1 to goals [E, 3]: the last states and the observations [T, E, O]."""
    layout = env(physics).layout
    act = jax.jit(jax.vmap(lambda s, o, g: scripted.act(s, o, g, layout, stack=stack)))
    scripts = jax.vmap(lambda _: scripted.init())(jnp.arange(states.obs.shape[0]))
    step = batched_step(physics, states.obs.shape[0])
    observations = []
    for _ in range(steps):
        scripts, action = act(scripts, states.obs, goals)
        states = step(states, action)
        observations.append(np.asarray(states.obs))
    return states, np.stack(observations)


def random_goals(seed: int, count: int) -> jax.Array:
    """Pick-and-place goals [count, 3] m in the modules' goal box."""
    low, high = jnp.array([-0.15, -0.15, 0.0]), jnp.array([0.15, 0.15, 0.45])
    centre = jnp.array([1.3419, 0.7491, 0.425])
    return centre + jax.random.uniform(jax.random.key(seed), (count, 3), minval=low, maxval=high)
