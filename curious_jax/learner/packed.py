"""Updates DDPG with few kernels, for accelerators, where launching them is what an update costs.

The formulas are those of ddpg.py, differentiated by hand: the weights of actor and critic lie in one matrix and the
biases in rows of one width, so that Adam and the target averages are two kernels; both losses share the critic's
passes; all sums over the batch beside the weights' gradients are one reduction. Sums are taken in another order than
in ddpg.py, so results agree within float32's precision and not to the bit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import struct

from curious_jax.config import DDPGConfig, NetworkConfig
from curious_jax.types import LearnerBatch

DECAY, SQUARE_DECAY, EPSILON = 0.9, 0.999, 1e-8  # Adam's, as optax has them
CHUNKS = 16  # of a batch: each gives a part of the weights' gradients, so that their products fill a GPU
LOSSES = ("critic_loss", "actor_loss", "q_mean")


class Packed(NamedTuple):
    """The parameters of actor and critic, or one number for each of them."""

    # Layer below layer, I rows for I inputs, the actor's first; of its output layer a row is one output's weights.
    weights: jax.Array  # [R, H]
    # The actor's biases, the critic's, and the critic's output weights; an output's bias is filled up with zeros.
    rows: tuple[jax.Array, ...]  # [H] each


@struct.dataclass
class PackedState:
    """The content of a DDPGState in another arrangement."""

    online: Packed
    target: Packed
    mean: Packed  # Adam's first moment
    square: Packed  # its second
    losses: jax.Array  # [H], the sums of LOSSES over the updates, filled up with zeros


class Layers(NamedTuple):
    """Weights and biases of both networks, as they stand in a Packed."""

    actor: list[jax.Array]  # [I, H], [H, H], ..., output [A, H]
    critic: list[jax.Array]  # [I+A, H], [H, H], ..., output [H]
    actor_bias: tuple[jax.Array, ...]  # [H] each
    critic_bias: tuple[jax.Array, ...]


class Sizes(NamedTuple):
    """Inputs I, actions A, hidden size H, hidden layers."""

    inputs: int
    actions: int
    width: int
    depth: int

    @property
    def heights(self) -> list[int]:
        """Lists the rows of each layer in the matrix."""
        hidden = [self.width] * (self.depth - 1)
        return [self.inputs, *hidden, self.actions, self.inputs + self.actions, *hidden]


class Arrangement(NamedTuple):
    """A learner's update on a state that is arranged otherwise for the length of a cycle."""

    pack: Callable[[Any], Any]  # learner state -> arranged
    update: Callable[[Any, LearnerBatch, jax.Array], Any]  # one gradient step, with its row of corrections
    corrections: Callable[[Any, int], jax.Array]  # learner state, N -> Adam's for the next N updates [N, 2]
    unpack: Callable[
        [Any, Any, int], tuple[Any, dict[str, jax.Array]]
    ]  # arranged, the state before, N -> state, losses


def is_possible(network: NetworkConfig, action_size: int) -> bool:
    """Tells whether networks of this kind can be packed: without layer normalisation, actions no wider than layers."""
    return not (network.critic_layer_norm or network.actor_layer_norm) and network.hidden_size >= max(
        action_size, len(LOSSES)
    )


def make(network: NetworkConfig, config: DDPGConfig, input_size: int, action_size: int) -> Arrangement:
    """Makes the packed update for inputs [I] and actions [A]."""
    sizes = Sizes(input_size, action_size, network.hidden_size, network.hidden_layers)

    def pack_state(state: Any) -> PackedState:
        actor, critic = state.actor_opt[0], state.critic_opt[0]
        return PackedState(
            online=pack(state.actor, state.critic, sizes),
            target=pack(state.target_actor, state.target_critic, sizes),
            mean=pack(actor.mu, critic.mu, sizes),
            square=pack(actor.nu, critic.nu, sizes),
            losses=jnp.zeros(sizes.width),
        )

    def unpack_state(packed: PackedState, state: Any, number: int) -> tuple[Any, dict[str, jax.Array]]:
        parts = (unpack(part, sizes) for part in (packed.online, packed.target, packed.mean, packed.square))
        (actor, critic), (target_actor, target_critic), means, squares = parts
        opts = [
            (opt[0]._replace(count=opt[0].count + number, mu=mean, nu=square), *opt[1:])
            for opt, mean, square in zip((state.actor_opt, state.critic_opt), means, squares)
        ]
        state = state.replace(
            actor=actor,
            critic=critic,
            target_actor=target_actor,
            target_critic=target_critic,
            actor_opt=opts[0],
            critic_opt=opts[1],
        )
        return state, {name: packed.losses[n] / number for n, name in enumerate(LOSSES)}

    def corrections(state: Any, number: int) -> jax.Array:
        counts = state.critic_opt[0].count + 1 + jnp.arange(number)
        return 1.0 - jnp.array([DECAY, SQUARE_DECAY]) ** counts[:, None]

    def update(packed: PackedState, batch: LearnerBatch, corrections: jax.Array) -> PackedState:
        gradient, losses = differentiate(packed, batch, config, sizes)
        return step(packed, gradient, corrections, config, sizes).replace(losses=packed.losses + losses)

    return Arrangement(pack_state, update, corrections, unpack_state)


def pack(actor: Any, critic: Any, sizes: Sizes) -> Packed:
    """Arranges flax parameters of actor and critic."""
    of_actor, of_critic = (
        [params["params"]["MLP_0"][f"Dense_{n}"] for n in range(sizes.depth + 1)] for params in (actor, critic)
    )
    kernels = [layer["kernel"] for layer in (*of_actor[:-1], *of_critic[:-1])]
    kernels.insert(sizes.depth, of_actor[-1]["kernel"].T)
    rows = [_fill(layer["bias"], sizes.width) for layer in (*of_actor, *of_critic)]
    return Packed(jnp.concatenate(kernels), (*rows, of_critic[-1]["kernel"][:, 0]))


def unpack(packed: Packed, sizes: Sizes) -> tuple[Any, Any]:
    """Gives the flax parameters of actor and critic; the inverse of pack."""
    layers = split(packed, sizes)

    def dense(kernels: list[jax.Array], biases: tuple[jax.Array, ...], outputs: int) -> Any:
        biases = (*biases[:-1], biases[-1][:outputs])
        named = {f"Dense_{n}": {"kernel": k, "bias": b} for n, (k, b) in enumerate(zip(kernels, biases))}
        return {"params": {"MLP_0": named}}

    actor, critic = [*layers.actor[:-1], layers.actor[-1].T], [*layers.critic[:-1], layers.critic[-1][:, None]]
    return dense(actor, layers.actor_bias, sizes.actions), dense(critic, layers.critic_bias, 1)


def split(packed: Packed, sizes: Sizes) -> Layers:
    """Finds the layers in the matrix; products read them where they lie."""
    kernels, first = [], 0
    for height in sizes.heights:
        kernels.append(packed.weights[first : first + height])
        first += height
    number = sizes.depth + 1
    return Layers(
        kernels[:number], [*kernels[number:], packed.rows[-1]], packed.rows[:number], packed.rows[number : 2 * number]
    )


def _fill(row: jax.Array, width: int) -> jax.Array:
    return jnp.pad(row, (0, width - row.shape[0]))


def pass_actor(layers: Layers, inputs: jax.Array, actions: int) -> tuple[list[jax.Array], jax.Array]:
    """Runs the actor: (each layer's input, action [B, A])."""
    held = _pass(layers.actor, layers.actor_bias, inputs)
    return held, jnp.tanh(held[-1] @ layers.actor[-1].T + layers.actor_bias[-1][:actions])


def pass_critic(layers: Layers, inputs: jax.Array, action: jax.Array) -> tuple[list[jax.Array], jax.Array]:
    """Runs the critic: (each layer's input, Q [B])."""
    held = _pass(layers.critic, layers.critic_bias, jnp.concatenate([inputs, action], axis=-1))
    return held, (held[-1] * layers.critic[-1]).sum(axis=-1) + layers.critic_bias[-1][0]


def _pass(kernels: list[jax.Array], biases: tuple[jax.Array, ...], x: jax.Array) -> list[jax.Array]:
    held = [x]
    for kernel, bias in zip(kernels[:-1], biases):
        held.append(jax.nn.relu(held[-1] @ kernel + bias))
    return held


def differentiate(
    packed: PackedState, batch: LearnerBatch, config: DDPGConfig, sizes: Sizes
) -> tuple[Packed, jax.Array]:
    """Computes both losses and their gradients, the critic's and the actor's, each by its own network.

    Returns:
      The gradients, and LOSSES [H], filled up with zeros.
    """
    size = batch.reward.shape[0]
    target, online = split(packed.target, sizes), split(packed.online, sizes)
    # The same parameters once more, which XLA takes for others: a slice with two uses would be a kernel of its own.
    again = split(packed.online._replace(weights=jax.lax.optimization_barrier(packed.online.weights)), sizes)

    _, next_action = pass_actor(target, batch.next_inputs, sizes.actions)
    _, next_q = pass_critic(target, batch.next_inputs, next_action)
    y = jnp.clip(batch.reward + config.discount * next_q, -1.0 / (1.0 - config.discount), 0.0)
    actor_held, action = pass_actor(online, batch.inputs, sizes.actions)
    # The batch's own actions for the critic's loss, then the actor's for its own.
    inputs, actions = jnp.concatenate([batch.inputs] * 2), jnp.concatenate([batch.action, action])
    critic_held, q = pass_critic(online, inputs, actions)

    by_q = jnp.concatenate([2.0 / size * (q[:size] - y), jnp.full(size, -1.0 / size)])
    critic_parts, critic_backs = _back(again.critic, critic_held, by_q[:, None] * again.critic[-1], size)
    by_action = critic_backs[0][size:] @ again.critic[0][sizes.inputs :].T
    by_raw = (by_action + 2.0 * config.action_l2 / action.size * action) * (1.0 - jnp.square(action))
    actor_parts, actor_backs = _back(again.actor, actor_held, by_raw @ again.actor[-1], size)

    outputs = [actor_held[-1] * by_raw[:, n : n + 1] for n in range(sizes.actions)]
    outputs.append((critic_held[-1] * by_q[:, None])[:size])
    squares = jnp.square(q[:size] - y), q[size:], q[:size], jnp.square(action).sum(axis=-1)
    numbers = jnp.concatenate([by_raw, jnp.stack([by_q[:size], *squares], axis=1)], axis=1)
    backs = [*actor_backs, *(back[:size] for back in critic_backs)]
    sums = jnp.concatenate([*backs, *outputs, numbers], axis=1).sum(axis=0)
    gradient, rest = _gradient(sums, actor_parts, critic_parts, sizes)
    critic_loss, own_q, q_mean, action_square = rest / size
    losses = jnp.stack([critic_loss, config.action_l2 / sizes.actions * action_square - own_q, q_mean])
    return gradient, _fill(losses, sizes.width)


def _back(
    kernels: list[jax.Array], held: list[jax.Array], by_last: jax.Array, size: int
) -> tuple[list[jax.Array], list[jax.Array]]:
    """Goes back through the hidden layers: (parts of their weights' gradients, gradients by their sums), first to last.

    The parts [K, I, H] are those of the first `size` of the batch; the rest is for the other loss.

    Args:
      by_last: gradient by the last hidden layer's output.
    """
    chunks = next(number for number in range(min(CHUNKS, size), 0, -1) if size % number == 0)
    parts, backs = [], []
    for layer in reversed(range(len(held) - 1)):
        # ReLU's mask is 0 or 1 where its output is 0 or more.
        backs.append(by_last * (held[layer + 1] > 0))
        left, right = (x.reshape(-1, size // chunks, x.shape[-1]) for x in (held[layer], backs[-1]))
        parts.append(jnp.einsum("kbi,kbj->kij", left, right)[:chunks])
        if layer:
            by_last = backs[-1] @ kernels[layer].T
    return parts[::-1], backs[::-1]


def _gradient(
    sums: jax.Array, actor_parts: list[jax.Array], critic_parts: list[jax.Array], sizes: Sizes
) -> tuple[Packed, jax.Array]:
    """Puts the gradient together from the weights' parts and the sums over the batch; gives the sums left over, too."""
    width, depth, actions = sizes.width, sizes.depth, sizes.actions
    rows = sums[: (2 * depth + actions + 1) * width].reshape(-1, width)
    numbers = sums[(2 * depth + actions + 1) * width :]
    output = rows[2 * depth : 2 * depth + actions]
    chunks = actor_parts[0].shape[0]
    parts = [*actor_parts, jnp.pad(output[None], ((0, chunks - 1), (0, 0), (0, 0))), *critic_parts]
    biases = [_fill(numbers[:actions], width), _fill(numbers[actions : actions + 1], width)]
    actor_rows, critic_rows = ([rows[n] for n in range(i * depth, (i + 1) * depth)] for i in (0, 1))
    by_row = (*actor_rows, biases[0], *critic_rows, biases[1], rows[2 * depth + actions])
    return Packed(jnp.concatenate(parts, axis=1).sum(axis=0), by_row), numbers[actions + 1 :]


def step(
    packed: PackedState, gradient: Packed, corrections: jax.Array, config: DDPGConfig, sizes: Sizes
) -> PackedState:
    """Makes a step of Adam (Kingma and Ba 2015), and of the target averages where they follow every update.

    Args:
      corrections: [2], 1 - β^t of the first and the second moment.
    """

    def one(lr, gradient, online, target, mean, square):
        mean = DECAY * mean + (1.0 - DECAY) * gradient
        square = SQUARE_DECAY * square + (1.0 - SQUARE_DECAY) * jnp.square(gradient)
        online = online - lr * (mean / corrections[0]) / (jnp.sqrt(square / corrections[1]) + EPSILON)
        if config.target_period == "update":
            target = config.target_rate * online + (1.0 - config.target_rate) * target
        return online, target, mean, square

    before = (gradient, packed.online, packed.target, packed.mean, packed.square)
    stepped = [one(*leaf) for leaf in zip(_rates(config, sizes), *map(jax.tree.leaves, before))]
    online, target, mean, square = (jax.tree.unflatten(jax.tree.structure(gradient), part) for part in zip(*stepped))
    return packed.replace(online=online, target=target, mean=mean, square=square)


def _rates(config: DDPGConfig, sizes: Sizes) -> list[Any]:
    """Lists Adam's step size for each leaf of a Packed: of the matrix [R, 1], or one for both networks."""
    actor, critic = config.actor_lr, config.critic_lr
    heights = sizes.heights
    first = sum(heights[: sizes.depth + 1])
    matrix = actor if actor == critic else jnp.where(jnp.arange(sum(heights)) < first, actor, critic)[:, None]
    return [matrix] + [actor] * (sizes.depth + 1) + [critic] * (sizes.depth + 2)
