"""Defines actor and critic, M-UVFA (CURIOUS, "Modular multi-goal architecture"; sizes as in the authors' program)."""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from curious_jax.config import NetworkConfig
from curious_jax.errors import ConfigError

NORM_EPSILON = 1e-6  # added to the variance in a layer normalisation


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
            x = nn.relu(nn.LayerNorm(epsilon=NORM_EPSILON)(x) if self.layer_norm else x)
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


def actor_layers(params: Any) -> list[dict[str, jax.Array]]:
    """Lists an actor's layers from its parameters, first to last, the linear output among them.

    Returns:
      weight [I, H] and bias [H]; with layer normalisation norm_scale and norm_shift [H] as well. The actors of MG-ME's
      experts have a leading axis M.
    Raises:
      ConfigError: for an actor of another kind, of a learner of the user's own.
    """
    try:
        parts = params["params"]["MLP_0"]
    except (KeyError, TypeError, IndexError):
        raise ConfigError("the policy's actor is not the MLP of curious_jax, whose layers alone can be told") from None
    layers = []
    for number in range(sum(name.startswith("Dense_") for name in parts)):
        dense, norm = parts[f"Dense_{number}"], parts.get(f"LayerNorm_{number}")
        layers.append({"weight": dense["kernel"], "bias": dense["bias"]})
        if norm is not None:
            layers[-1] |= {"norm_scale": norm["scale"], "norm_shift": norm["bias"]}
    return layers
