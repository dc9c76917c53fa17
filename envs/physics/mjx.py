"""The `jax` backend: MuJoCo MJX's own implementation in JAX, for TPUs and wherever Warp is missing."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable

import jax
import mujoco
import numpy as np
from mujoco import mjx

from envs.physics import mjx_contacts, mjx_solver, mjx_step, mjx_tree, protocol
from envs.physics.protocol import Array, PhysicsState


@dataclasses.dataclass(frozen=True, eq=False)
class MjxPhysics:
    """Each control step is a loop of 20 physics steps on a fresh `mjx.Data`, whose buffers hold every contact."""

    control_step: Callable[..., tuple[Array, ...]]

    @classmethod
    def create(cls, model: mujoco.MjModel) -> MjxPhysics:
        """Puts `model` on the default device.

        Raises:
          ValueError: for a scene the backend cannot drive.
        """
        protocol.check_model(model)
        mjx_contacts.check_model(model)
        mjx_solver.check_model(model)
        mjx_tree.check_model(model)
        model = copy.copy(model)
        # In single precision a warm start that is close looks converged: the solver then keeps the last step's
        # accelerations, and cubes at rest start rocking.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
        mjx_step.prepare(model)
        _margins_into_sizes(model)
        put, blank = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
        welded = mjx_step.WeldedBody(model)

        def control_step(qpos: Array, qvel: Array, ctrl: Array, pos: Array, quat: Array) -> tuple[Array, ...]:
            """A control step of one world -> qpos, qvel, sensordata."""
            inputs = {"qpos": qpos, "qvel": qvel, "ctrl": ctrl, "mocap_pos": pos[None], "mocap_quat": quat[None]}
            data = blank.replace(**{name: x.astype(blank.qpos.dtype) for name, x in inputs.items()})
            with _full_precision():
                data, *before = jax.lax.fori_loop(
                    0,
                    protocol.SUBSTEPS,
                    lambda _, now: (mjx_step.step(put, now[0], welded), now[0].qpos, now[0].qvel),
                    (data, data.qpos, data.qvel),
                )
            return data.qpos, data.qvel, mjx_step.sense(put, data, *before)

        return cls(jax.jit(control_step))  # jitted, so that a program that calls it twice traces it once

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        qpos, qvel, sensordata = self.control_step(state.qpos, state.qvel, ctrl, mocap_pos, mocap_quat)
        return protocol.next_state(state, qpos, qvel, sensordata, overflow=False)

    def with_worlds(self, num_worlds: int) -> MjxPhysics:
        del num_worlds  # nothing is shared between worlds
        return self


def bytes_per_world(model: mujoco.MjModel) -> int:
    """Memory of an `mjx.Data` three times: before and after a physics step, and in between."""
    return 3 * sum(x.nbytes for x in jax.tree.leaves(mjx.make_data(model, impl="jax")))


def _margins_into_sizes(model: mujoco.MjModel) -> None:
    """Grows every colliding box by its contact margin and sets the margin to zero, in place.

    mjx's box collisions report no contact before boxes touch, so a contact margin is lost on them: a grip that rests
    within its margin (C MuJoCo's rests 0.15 mm apart) opens and closes at every physics step and held cubes sink.
    """
    boxes = (model.geom_type == int(mujoco.mjtGeom.mjGEOM_BOX)) & (model.geom_margin > 0)
    model.geom_size[boxes] += model.geom_margin[boxes, None]
    model.geom_aabb[boxes, 3:] = model.geom_size[boxes]
    model.geom_rbound[boxes] = np.linalg.norm(model.geom_size[boxes], axis=1)
    model.geom_margin[boxes] = 0


def _full_precision() -> contextlib.AbstractContextManager[None]:
    """Full float32 products (TF32, the default on newer GPUs, is wrong for physics), unless the user chose."""
    if jax.config.jax_default_matmul_precision is None:
        return jax.default_matmul_precision("highest")
    return contextlib.nullcontext()
