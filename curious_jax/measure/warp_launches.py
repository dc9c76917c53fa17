"""Counts what a physics step of MuJoCo Warp launches: on a CPU, which is given the kernels that a GPU is given."""

import contextlib
import copy
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np

from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError, check_installed
from curious_jax.measure.targets import Target
from envs.physics import protocol


def check(target: Target, config: TrainConfig) -> None:
    """Refuses a device or a world without MuJoCo Warp.

    Raises:
      ConfigError: naming the option.
    """
    if target.launch_s is None:
        raise ConfigError(f"--compile-for {target.name}: Warp runs on NVIDIA GPUs only; choose h100, h200 or a100")
    if config.world != "fetch":
        raise ConfigError(f"--world {config.world}: has no MuJoCo physics; with --programs warp choose fetch")
    if config.physics not in ("auto", "warp"):
        raise ConfigError(f"--physics {config.physics}: --programs warp counts Warp's launches; leave it out")


def count(target: Target, model: mujoco.MjModel) -> dict[str, Any]:
    """Makes one control step of one world on the CPU, with one iteration of the solver in each physics step.

    Returns:
      Plain data: kernels, copies and fills of a physics step (means over those of a control step), their sum
      `launches`, and the seconds that these launches imply at the least.
    Raises:
      ConfigError: without warp-lang.
    """
    check_installed("--programs warp", "warp", "warp")
    from envs.physics import warp

    model = copy.copy(model)
    model.opt.iterations = 1
    physics = warp.WarpPhysics.create(model, num_worlds=1)
    mocap = model.body_mocapid >= 0
    arrays = model.qpos0[None], np.zeros((1, model.nv)), np.zeros((1, model.nu)), model.body_pos[mocap]
    with _counted() as counted:
        jax.block_until_ready(physics.control_step(*(jnp.asarray(x) for x in (*arrays, model.body_quat[mocap]))))
    steps = protocol.SUBSTEPS
    launches = sum(counted.values()) / steps
    return {
        "target": target.name,
        "device": target.device,
        "launches": launches,
        **{name: counted[name] / steps for name in ("kernels", "copies", "fills")},
        "launch_floor_s": launches * (target.launch_s or 0.0),
    }


def text(result: dict[str, Any]) -> str:
    """Says the counts in one line."""
    parts = ", ".join(f"{result[name]:.1f} {name}" for name in ("kernels", "copies", "fills"))
    return (
        f"{result['device']}: a physics step of MuJoCo Warp with one iteration of the solver is "
        f"{result['launches']:.1f} launches ({parts}), at least {1e6 * result['launch_floor_s']:.0f} µs"
    )


@contextlib.contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Counts Warp's launches meanwhile; one of size 0 launches nothing."""
    import warp as wp

    counted: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any], size: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            counted[name] += size(*args, **kwargs) > 0
            return function(*args, **kwargs)

        return called

    def threads(kernel: Any, dim: Any, *args: Any, **kwargs: Any) -> int:
        return int(np.prod(dim))

    def numbers(first: Any, source: Any = None, *args: Any, **kwargs: Any) -> int:
        return int((first if source is None or isinstance(source, int | float) else source).size)

    patched: list[tuple[Any, str, str, Callable[..., int]]] = [
        (wp, "launch", "kernels", threads),
        (wp, "launch_tiled", "kernels", threads),
        (wp, "copy", "copies", numbers),
        (wp.array, "zero_", "fills", numbers),
        (wp.array, "fill_", "fills", numbers),
    ]
    with contextlib.ExitStack() as undo:
        for owner, attribute, name, size in patched:
            own = getattr(owner, attribute)
            undo.callback(setattr, owner, attribute, own)
            setattr(owner, attribute, counting(name, own, size))
        yield counted
