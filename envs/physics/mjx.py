"""MuJoCo MJX: the `jax` implementation (any platform) and the `warp` one (NVIDIA; also runs, slowly, on a CPU)."""

from __future__ import annotations

import contextlib
import dataclasses

import jax
import mujoco
from mujoco import mjx

from envs.physics import mjx_step, protocol
from envs.physics.protocol import Array, PhysicsState

# Warp's buffers: contacts of all worlds together, constraint rows of each world (96 overflowed with two cubes).
CONTACTS_PER_WORLD = 24
CONSTRAINT_ROWS = 220


@dataclasses.dataclass(frozen=True, eq=False)
class MjxPhysics:
    """The `jax` and `warp` backends. Each control step is a loop of 20 `mjx.step` on a fresh `mjx.Data`."""

    model: mujoco.MjModel
    impl: str  # "jax" or "warp"
    graph_mode: str | None  # CUDA graph capture of warp: a name of warp's JaxCallableGraphMode; None is mjx's default
    device_model: mjx.Model
    blank: mjx.Data  # one world at rest, with warp's buffers for `num_worlds`

    @property
    def name(self) -> str:
        """jax or warp."""
        return self.impl

    @classmethod
    def create(
        cls, model: mujoco.MjModel, impl: str, num_worlds: int = 1, graph_mode: str | None = None
    ) -> MjxPhysics:
        """Puts `model` on the default device.

        Raises:
          ValueError: for a scene the backends cannot drive.
          RuntimeError: if impl is warp and warp-lang is not installed.
        """
        protocol.check_model(model)
        return cls(model, impl, graph_mode, _put_model(model, impl, graph_mode), _make_data(model, impl, num_worlds))

    def init(self, qpos: Array, qvel: Array, sensordata: Array) -> PhysicsState:
        return protocol.initial_state(qpos, qvel, sensordata)

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        data = self.blank.replace(
            qpos=state.qpos, qvel=state.qvel, ctrl=ctrl, mocap_pos=mocap_pos[None], mocap_quat=mocap_quat[None]
        )
        data = self._substeps(data)
        return protocol.next_state(state, data.qpos, data.qvel, data.sensordata, self._overflow(data))

    def with_worlds(self, num_worlds: int) -> MjxPhysics:
        return dataclasses.replace(self, blank=_make_data(self.model, self.impl, num_worlds))

    def _substeps(self, data: mjx.Data) -> mjx.Data:
        if self.impl == "warp":
            return jax.lax.fori_loop(0, protocol.SUBSTEPS, lambda _, d: mjx.step(self.device_model, d), data)
        welded = mjx_step.WeldedBody(self.model)
        with _full_precision(), mjx_step.unfused_kinematics():
            return jax.lax.fori_loop(
                0, protocol.SUBSTEPS, lambda _, d: mjx_step.step(self.device_model, d, welded), data
            )

    def _overflow(self, data: mjx.Data) -> Array | bool:
        if self.impl == "jax":
            return False  # its buffers hold every candidate contact
        return (data._impl.overflow & _buffer_overflows()) != 0


def _full_precision() -> contextlib.AbstractContextManager:
    """Full float32 products (TF32, the default on newer GPUs, is wrong for physics), unless the user chose."""
    if jax.config.jax_default_matmul_precision is None:
        return jax.default_matmul_precision("highest")
    return contextlib.nullcontext()


def _put_model(model: mujoco.MjModel, impl: str, graph_mode: str | None) -> mjx.Model:
    if impl == "jax":
        return mjx.put_model(model, impl="jax")
    from mujoco.mjx import warp as mjx_warp

    mode = None if graph_mode is None else mjx_warp.types.GraphMode[graph_mode]
    return mjx.put_model(model, impl="warp", graph_mode=mode)


def _make_data(model: mujoco.MjModel, impl: str, num_worlds: int) -> mjx.Data:
    if impl == "jax":
        return mjx.make_data(model, impl="jax")
    return mjx.make_data(model, impl="warp", naconmax=CONTACTS_PER_WORLD * num_worlds, njmax=CONSTRAINT_ROWS)


def _buffer_overflows() -> int:
    """Bits of warp's overflow word that mean lost contacts or constraints, not a solver that stopped at its limit."""
    from mujoco.mjx.third_party.mujoco_warp import OverflowType

    return int(OverflowType.ALL & ~(OverflowType.ITERATIONS | OverflowType.LS_ITERATIONS))
