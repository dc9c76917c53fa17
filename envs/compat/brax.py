"""Makes brax 0.14.2's trainers run on jax 0.10. For envs/brax_env.py alone.

The reason: they call `jax.device_put_replicated`, which jax 0.10 no longer has. The replacement below is what jax's
migration notes for pmap describe.

Remove this file, and the call of `apply` in brax_env.py, when a brax is out whose trainers do not call it, and
pyproject.toml asks for that version: tests/envs/test_brax_env.py fails when it is time.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def apply() -> None:
    """Gives jax the function back, if it has none."""
    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = device_put_replicated


def device_put_replicated(x: Any, devices: Sequence[jax.Device]) -> Any:
    """A copy of each array of a pytree on every device, on a new leading axis of devices."""
    # The axis has the name that brax gives its own: programs that meet both want one mesh.
    mesh = jax.sharding.Mesh(np.array(devices), ("i",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))

    def replicate(leaf: Any) -> jax.Array:
        leaf = jnp.asarray(leaf)
        return jax.device_put(jnp.broadcast_to(leaf, (len(devices), *leaf.shape)), spread)

    return jax.tree.map(replicate, x)
