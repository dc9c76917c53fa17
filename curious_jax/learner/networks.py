"""Defines actor and critic, M-UVFA (CURIOUS, "Modular multi-goal architecture"; sizes as in the authors' program)."""

from collections.abc import Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp

from curious_jax.config import NetworkConfig


class MLP(nn.Module):
    """ReLU layers and a linear output, Xavier-initialised."""

    hidden: Sequence[int]
    output: int
    layer_norm: bool = False  # before each ReLU

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., I] -> [..., output]."""
        for size in self.hidden:
            x = nn.Dense(size, kernel_init=nn.initializers.xavier_uniform())(x)
            x = nn.relu(nn.LayerNorm()(x) if self.layer_norm else x)
        return nn.Dense(self.output, kernel_init=nn.initializers.xavier_uniform())(x)


class Actor(nn.Module):
    """π: [s, g, m_d] -> action in [-1, 1]."""

    hidden: Sequence[int]
    action_size: int
    layer_norm: bool = False

    @nn.compact
    def __call__(self, inputs: jax.Array) -> jax.Array:
        """[..., I] -> [..., A]."""
        return jnp.tanh(MLP(self.hidden, self.action_size, self.layer_norm)(inputs))


class Critic(nn.Module):
    """Q: [s, g, m_d, a] -> expected return in [-1/(1-γ), 0] once trained."""

    hidden: Sequence[int]
    layer_norm: bool = False

    @nn.compact
    def __call__(self, inputs: jax.Array, action: jax.Array) -> jax.Array:
        """[..., I], [..., A] -> [...]."""
        return MLP(self.hidden, 1, self.layer_norm)(jnp.concatenate([inputs, action], axis=-1))[..., 0]


def make(config: NetworkConfig, action_size: int) -> tuple[Actor, Critic]:
    """Makes actor and critic of the configured size."""
    hidden = (config.hidden_size,) * config.hidden_layers
    return Actor(hidden, action_size, config.actor_layer_norm), Critic(hidden, config.critic_layer_norm)
