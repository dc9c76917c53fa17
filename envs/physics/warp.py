"""The `warp` backend: MuJoCo Warp, as MJX ships it, with one call per control step.

`mjx.step` hands XLA every array of `mjx.Data` at each of the 20 substeps. Here the arrays stay with Warp, only
state and targets cross over, and on CUDA the 20 substeps are one captured graph. Launches, not arithmetic, are
what a scene this small costs, so all substeps but the last, which reads the sensors, are those of `warp_step`.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from envs.physics import protocol
from envs.physics.protocol import Array, PhysicsState

# Contacts beyond those of the average, all worlds together, as a few worlds may all have many. In 381 episodes of
# random grasping with one cube C MuJoCo had up to 22 contacts, 4.8 in the mean; in 213 with two up to 27, and 8.7.
SPARE_CONTACTS = 40


def buffer_sizes(model: mujoco.MjModel) -> tuple[int, int]:
    """Contacts to allow for per world on average, and constraint rows per world: 24 and 280 with two cubes.

    Of rows those episodes (SPARE_CONTACTS) had up to 131 with one cube and 153 with two.
    """
    cubes = int((model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE)).sum())
    return 8 + 8 * cubes, 80 + 100 * cubes


@dataclasses.dataclass(frozen=True, eq=False)
class WarpPhysics:
    """Runs on NVIDIA GPUs; on a CPU too, slowly, which is how it is tested.

    A call must bring exactly `num_worlds` worlds, all vmapped axes together.
    """

    model: mujoco.MjModel
    num_worlds: int
    graph_mode: str | None  # a name of warp's JaxCallableGraphMode; None: WARP on CUDA, NONE elsewhere
    control_step: Callable[..., tuple[Array, ...]]

    @classmethod
    def create(cls, model: mujoco.MjModel, num_worlds: int, graph_mode: str | None = None) -> WarpPhysics:
        """Puts `model` on the default device.

        Raises:
          ValueError: for a scene the backends cannot drive.
        """
        protocol.check_model(model)
        return cls(model, num_worlds, graph_mode, _control_step(model, num_worlds, graph_mode))

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        qpos, qvel, sensordata, overflow = self.control_step(state.qpos, state.qvel, ctrl, mocap_pos, mocap_quat)
        return protocol.next_state(state, qpos, qvel, sensordata, overflow)

    def with_worlds(self, num_worlds: int) -> WarpPhysics:
        return self if num_worlds == self.num_worlds else self.create(self.model, num_worlds, self.graph_mode)


def bytes_per_world(model: mujoco.MjModel) -> int:
    """Memory of mujoco_warp's Data."""
    _quiet()
    from mujoco.mjx.third_party import mujoco_warp as mjw

    contacts, rows = buffer_sizes(model)
    return _bytes(mjw.make_data(model, nworld=1, naconmax=contacts, njmax=rows))


def _bytes(data: Any) -> int:
    """Counts the bytes of the Warp arrays in a dataclass, and in those inside it."""
    values = [getattr(data, f.name) for f in dataclasses.fields(data)]
    return sum(_bytes(v) if dataclasses.is_dataclass(v) else getattr(v, "capacity", 0) for v in values)


def _quiet() -> Any:
    """Imports Warp and keeps its greeting, which it prints once it begins, away from standard output."""
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    return wp


def _device(wp: Any) -> Any:
    """Returns Warp's name for the device that JAX computes on: its default device, or the first of this process."""
    chosen = jax.config.jax_default_device
    there = chosen if hasattr(chosen, "platform") else jax.local_devices(backend=chosen)[0]
    on_cuda = there.platform in ("gpu", "cuda")
    return wp.get_device(f"cuda:{there.local_hardware_id}" if on_cuda else "cpu")


_made: dict[tuple[Any, ...], Callable[..., tuple[Array, ...]]] = {}  # Warp and JAX keep what was made anyway


def _control_step(model: mujoco.MjModel, num_worlds: int, graph_mode: str | None) -> Callable[..., tuple[Array, ...]]:
    """Makes the call of a control step, once for each scene, number of worlds and device."""
    held = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, held)
    key = (held.tobytes(), num_worlds, graph_mode, str(_device(_quiet())), buffer_sizes(model))
    if key not in _made:
        _made[key] = _make_control_step(model, num_worlds, graph_mode)
    return _made[key]


def _make_control_step(
    model: mujoco.MjModel, num_worlds: int, graph_mode: str | None
) -> Callable[..., tuple[Array, ...]]:
    """(qpos [nq], qvel [nv], ctrl [nu], mocap_pos [3], mocap_quat [4]) → (qpos, qvel, sensordata, overflow []).

    Vmapping adds leading axes, which together make Warp's world axis.
    """
    call = _warp_callable(model, num_worlds, graph_mode)
    inputs = (model.nq, model.nv, model.nu, 3, 4)
    outputs = {"out_qpos": model.nq, "out_qvel": model.nv, "out_sensordata": model.nsensordata, "out_overflow": 1}
    dims = {name: (num_worlds, size) for name, size in outputs.items()}
    types = (jnp.float32, jnp.float32, jnp.float32, jnp.int32)

    def flat(*arrays: Array) -> list[Array]:
        lead = arrays[0].shape[:-1]
        rows = [a.reshape(-1, size) for a, size in zip(arrays, inputs, strict=True)]
        if rows[0].shape[0] != num_worlds:
            raise ValueError(f"warp has buffers for {num_worlds} worlds, got {rows[0].shape[0]}: see with_worlds")
        return [a.reshape(*lead, a.shape[-1]) for a in call(*rows, output_dims=dims)]

    # A primitive rather than custom_vmap, which would trace the call for a single world first.
    primitive = Primitive("warp_control_step")
    primitive.multiple_results = True
    primitive.def_impl(jax.jit(flat))
    primitive.def_abstract_eval(
        lambda first, *_: [
            ShapedArray((*first.shape[:-1], size), dtype) for size, dtype in zip(outputs.values(), types, strict=True)
        ]
    )
    mlir.register_lowering(primitive, mlir.lower_fun(flat, multiple_results=True))

    def batch(arrays: Sequence[Array], axes: Sequence[int | None]) -> tuple[list[Array], list[int]]:
        size = next(a.shape[x] for a, x in zip(arrays, axes, strict=True) if x is not None)
        front = [
            jnp.broadcast_to(a, (size, *a.shape)) if x is None else jnp.moveaxis(a, x, 0)
            for a, x in zip(arrays, axes, strict=True)
        ]
        return primitive.bind(*front), [0] * len(outputs)

    batching.primitive_batchers[primitive] = batch

    def step(*arrays: Array) -> tuple[Array, ...]:
        qpos, qvel, sensordata, overflow = primitive.bind(*(jnp.asarray(a, jnp.float32) for a in arrays))
        return qpos, qvel, sensordata, overflow[..., 0] != 0

    return step


def _warp_callable(model: mujoco.MjModel, num_worlds: int, graph_mode: str | None) -> Any:
    import warp as wp
    from mujoco.mjx.third_party import mujoco_warp as mjw

    from envs.physics import warp_step

    device = _device(_quiet())

    model = copy.copy(model)
    # Boxes against boxes as C MuJoCo has them, in place of the general convex test.
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    with wp.ScopedDevice(device):
        m = mjw.put_model(model)
        m.opt.warn_overflow = 0  # overflow is read, not printed
        contacts, rows = buffer_sizes(model)
        d = mjw.make_data(model, nworld=num_worlds, naconmax=contacts * num_worlds + SPARE_CONTACTS, njmax=rows)
        silent_step = warp_step.make(model, m, d)
    lost = int(mjw.OverflowType.ALL & ~(mjw.OverflowType.ITERATIONS | mjw.OverflowType.LS_ITERATIONS))

    def control_step(
        qpos: wp.array2d[wp.float32],
        qvel: wp.array2d[wp.float32],
        ctrl: wp.array2d[wp.float32],
        mocap_pos: wp.array2d[wp.float32],
        mocap_quat: wp.array2d[wp.float32],
        out_qpos: wp.array2d[wp.float32],
        out_qvel: wp.array2d[wp.float32],
        out_sensordata: wp.array2d[wp.float32],
        out_overflow: wp.array2d[wp.int32],
    ):
        wp.copy(d.qpos, qpos)
        wp.copy(d.qvel, qvel)
        wp.copy(d.ctrl, ctrl)
        wp.launch(_set_mocap, dim=num_worlds, inputs=[mocap_pos, mocap_quat], outputs=[d.mocap_pos, d.mocap_quat])
        d.qacc_warmstart.zero_()
        d.time.zero_()
        d.overflow.zero_()
        # Not all of these is written at every step, so a world that was NaN once would be NaN for good.
        d.cvel.zero_()
        d.cdof_dot.zero_()
        for _ in range(protocol.SUBSTEPS - 1):
            silent_step()
        mjw.step(m, d)
        wp.copy(out_qpos, d.qpos)
        wp.copy(out_qvel, d.qvel)
        wp.copy(out_sensordata, d.sensordata)
        wp.launch(_read_overflow, dim=num_worlds, inputs=[d.overflow, lost], outputs=[out_overflow])

    @wp.kernel
    def _set_mocap(
        pos: wp.array2d[wp.float32],
        quat: wp.array2d[wp.float32],
        mocap_pos: wp.array2d[wp.vec3],
        mocap_quat: wp.array2d[wp.quat],
    ):
        w = wp.tid()
        mocap_pos[w, 0] = wp.vec3(pos[w, 0], pos[w, 1], pos[w, 2])
        mocap_quat[w, 0] = wp.quat(quat[w, 0], quat[w, 1], quat[w, 2], quat[w, 3])

    @wp.kernel
    def _read_overflow(overflow: wp.array[wp.int32], mask: wp.int32, out: wp.array2d[wp.int32]):
        w = wp.tid()
        out[w, 0] = overflow[w] & mask

    mode = wp.JaxCallableGraphMode[graph_mode or ("WARP" if device.is_cuda else "NONE")]
    return wp.jax_callable(control_step, num_outputs=4, graph_mode=mode)
