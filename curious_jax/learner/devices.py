"""Splits environments and batches over several local devices; everything else is the same on each.

Every device holds the whole state (parameters, store, windows, keys). Worlds are reset and stepped where they are, each
device its share of E; a cycle's episodes are then gathered once, so that memory, statistics and windows are computed
alike everywhere; a batch is split again, and gradients are averages over all of it. Draws are made for all of
E or B before they are split (JAX's threefry gives the same bits however they are split), so they do not depend on
the number of devices; sums do, in their last bits.

Inside `using(number)` the functions below split; outside of it, and with one device, they change nothing.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, Sharding

from curious_jax.config import ALL, TrainConfig
from curious_jax.errors import ConfigError

AXIS = "devices"
SPLIT, WHOLE = PartitionSpec(AXIS), PartitionSpec()


def count(devices: int | str) -> int:
    """Counts the devices: N, or for `all` those of JAX's default platform in this process."""
    return jax.local_device_count() if devices == ALL else int(devices)


def check(config: TrainConfig) -> None:
    """Refuses more devices than there are, and shares of environments or batches that are not whole.

    Raises:
      ConfigError: naming the option.
    """
    there, number = jax.local_device_count(), count(config.devices)
    if number > there:
        platform = jax.default_backend()
        raise ConfigError(f"--devices {number}: must be at most {there}, the {platform} devices that JAX finds here")
    for name in ("num_envs", "batch_size"):
        value = getattr(config.schedule, name)
        if value % number:
            option = "--" + name.replace("_", "-")
            raise ConfigError(f"{option} {value}: must be a multiple of --devices ({number})")


def using(devices: int | str) -> contextlib.AbstractContextManager[Any]:
    """Returns the context in which a program for that many devices is traced and called."""
    return contextlib.nullcontext() if count(devices) == 1 else jax.set_mesh(_mesh(count(devices)))


def everywhere(devices: int | str) -> Sharding | None:
    """Says where a run's state lives: whole on each of the devices; None for one device, JAX's default."""
    return None if count(devices) == 1 else NamedSharding(_mesh(count(devices)), WHOLE)


def _mesh(number: int) -> Mesh:
    return jax.make_mesh((number,), (AXIS,), axis_types=(AxisType.Auto,), devices=jax.local_devices()[:number])


def _alone() -> bool:
    return jax.sharding.get_abstract_mesh().empty


def each(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes each device run a vmapped function, arrays [E, ...] to arrays [E, ...], on its share of E."""
    if _alone():
        return function
    return jax.shard_map(function, in_specs=SPLIT, out_specs=SPLIT, check_vma=False)


def split(tree: Any) -> Any:
    """Gives each device its share of arrays [B, ...]."""
    return tree if _alone() else jax.lax.with_sharding_constraint(tree, SPLIT)


def whole(tree: Any) -> Any:
    """Gathers arrays onto every device."""
    return tree if _alone() else jax.lax.with_sharding_constraint(tree, WHOLE)
