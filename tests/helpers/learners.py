"""Networks and their gradients in numpy, and the sizes of small ones."""

import numpy as np

from curious_jax.config import NetworkConfig

INPUTS, ACTIONS, BATCH = 3, 2, 7
NETWORK = NetworkConfig(hidden_size=5, hidden_layers=1)


def layers(params):
    """[(kernel, bias), ...] from input to output."""
    dense = params["params"]["MLP_0"]
    return [(np.asarray(dense[k]["kernel"], float), np.asarray(dense[k]["bias"], float)) for k in sorted(dense)]


def forward(params, x):
    """ReLU between layers, none after the last."""
    x = np.asarray(x, float)
    for i, (kernel, bias) in enumerate(layers(params)):
        x = x @ kernel + bias
        x = np.maximum(x, 0) if i < len(layers(params)) - 1 else x
    return x


def finite_differences(loss, flat, step=1e-6):
    """The gradient by central differences."""
    result = np.zeros_like(flat)
    for i in range(flat.size):
        for sign in (1, -1):
            moved = flat.copy()
            moved[i] += sign * step
            result[i] += sign * loss(moved) / (2 * step)
    return result


def adam(gradients, lr):
    """The sum of Adam's steps for these gradients (Kingma and Ba 2015)."""
    m = v = total = 0.0
    for t, g in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        total = total - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return total
