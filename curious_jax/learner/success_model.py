"""Learns to predict success from module and goal: a small network, trained on recent results as they come in."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct

from curious_jax.types import ModuleTable

HIDDEN = 32  # units of each of two layers
STEPS = 8  # gradient steps per cycle
BATCH = 64
STEP_SIZE = 3e-3  # of Adam


@struct.dataclass
class ModelState:
    """The network, and the results that it learns from, as a ring."""

    params: Any
    moments: Any  # Adam's
    module: jax.Array  # [R] int32
    goal: jax.Array  # [R, G]
    success: jax.Array  # [R]
    cycle: jax.Array  # [R], when the result came
    next: jax.Array  # [] int32
    size: jax.Array  # [] int32


class SuccessModel(NamedTuple):
    """Predicts the success of (module, goal, time).

    Time is a result's age in units of the ring's span, so that the network can tell older results from newer ones; it
    is asked about now, age 0.
    """

    modules: ModuleTable
    size: int  # R, results kept

    def init(self, key: jax.Array) -> ModelState:
        """Makes an untrained network without results."""
        inputs = jnp.zeros(self.modules.num_modules + self.modules.goal_size + 1)
        params = _NETWORK.init(key, inputs)
        return ModelState(
            params=params,
            moments=_ADAM.init(params),
            module=jnp.zeros(self.size, jnp.int32),
            goal=jnp.zeros((self.size, self.modules.goal_size)),
            success=jnp.zeros(self.size),
            cycle=jnp.zeros(self.size),
            next=jnp.zeros((), jnp.int32),
            size=jnp.zeros((), jnp.int32),
        )

    def learn(
        self,
        state: ModelState,
        key: jax.Array,
        module: jax.Array,
        goal: jax.Array,
        success: jax.Array,
        counted: jax.Array,
        cycle: jax.Array,
    ) -> ModelState:
        """Adds those results [E] of a cycle that are counted, and takes STEPS gradient steps on results from the ring.

        Args:
          module, goal, success, counted: [E] int32, [E, G], [E] bool, [E] bool; of more than R the last stay.
        """
        rank, new = jnp.cumsum(counted) - 1, counted.sum()
        stays = counted & (rank >= new - self.size)
        place = jnp.where(stays, (state.next + rank) % self.size, self.size)
        state = state.replace(
            module=state.module.at[place].set(module, mode="drop"),
            goal=state.goal.at[place].set(goal, mode="drop"),
            success=state.success.at[place].set(success.astype(jnp.float32), mode="drop"),
            cycle=state.cycle.at[place].set(cycle.astype(jnp.float32), mode="drop"),
            next=((state.next + new) % self.size).astype(jnp.int32),
            size=jnp.minimum(state.size + new, self.size).astype(jnp.int32),
        )

        inputs = self._inputs(
            state, state.module, state.goal, (cycle - state.cycle) / self._span(state, cycle)
        )  # [R, I]

        def step(carry, key):
            params, moments = carry
            drawn = (jax.random.uniform(key, (BATCH,)) * state.size).astype(jnp.int32)

            def loss(params):
                return optax.sigmoid_binary_cross_entropy(_logit(params, inputs[drawn]), state.success[drawn]).mean()

            change, moments = _ADAM.update(jax.grad(loss)(params), moments, params)
            return (optax.apply_updates(params, change), moments), None

        trained, _ = jax.lax.scan(step, (state.params, state.moments), jax.random.split(key, STEPS))
        params, moments = jax.tree.map(
            lambda one, other: jnp.where(state.size > 0, one, other), trained, (state.params, state.moments)
        )
        return state.replace(params=params, moments=moments)

    def predict(self, state: ModelState, params: Any, module: jax.Array, goal: jax.Array) -> jax.Array:
        """Gives the probability of success now: [...] int32, [..., G] -> [...].

        Args:
          params: the state's, or an older copy of them.
        """
        return jax.nn.sigmoid(_logit(params, self._inputs(state, module, goal, jnp.zeros(module.shape))))

    def newest(self, state: ModelState, number: int, most: int) -> tuple[jax.Array, jax.Array]:
        """Gives goals of each module's newest results, again and again where there are fewer.

        Args:
          number: M, modules.
          most: N, goals of each.
        Returns:
          ([M, N, G], how many results each module has [M]); the goals of a module without results are of others.
        """
        age = (state.next - 1 - jnp.arange(self.size)) % self.size  # 0 is the newest
        own = (state.module == jnp.arange(number)[:, None]) & (age < state.size)  # [M, R]
        order = jnp.argsort(jnp.where(own, age, self.size), axis=1)
        count = own.sum(axis=1)
        turn = jnp.arange(most) % jnp.maximum(count, 1)[:, None] % self.size  # [M, N]
        return state.goal[jnp.take_along_axis(order, turn, axis=1)], count

    def _span(self, state: ModelState, cycle: jax.Array) -> jax.Array:
        """Gives the age of the oldest result in cycles, at least 1."""
        held = jnp.arange(self.size) < state.size
        return jnp.maximum(jnp.max(jnp.where(held, cycle - state.cycle, 0.0)), 1.0)

    def _inputs(self, state: ModelState, module: jax.Array, goal: jax.Array, age: jax.Array) -> jax.Array:
        """Joins descriptor, goal (in deviations of each slot's own goals) and age."""
        held = (jnp.arange(self.size) < state.size)[:, None] & self.modules.mask(state.module)  # [R, G]
        count = jnp.maximum(held.sum(axis=0), 1)
        mean = jnp.where(held, state.goal, 0.0).sum(axis=0) / count
        variance = jnp.where(held, jnp.square(state.goal - mean), 0.0).sum(axis=0) / count
        scaled = jnp.clip((goal - mean) / jnp.maximum(jnp.sqrt(variance), 1e-3), -5.0, 5.0)
        scaled = jnp.where(self.modules.mask(module), scaled, 0.0)
        return jnp.concatenate([self.modules.descriptor(module), scaled, age[..., None]], axis=-1)


class _Network(nn.Module):
    """[..., M + G + 1] -> [...], the logit of success."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for _ in range(2):
            x = nn.relu(nn.Dense(HIDDEN)(x))
        return nn.Dense(1)(x)[..., 0]


_NETWORK = _Network()
_ADAM = optax.adam(STEP_SIZE)


def _logit(params: Any, inputs: jax.Array) -> Any:
    return _NETWORK.apply(params, inputs)
