"""The `jax` backend: MuJoCo MJX's own implementation in JAX, for TPUs and wherever Warp is missing."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools

import jax
import mujoco
import numpy as np
from mujoco import mjx

from envs.physics import mjx_step, protocol
from envs.physics.protocol import Array, PhysicsState


@dataclasses.dataclass(frozen=True, eq=False)
class MjxPhysics:
    """Each control step is a loop of 20 physics steps on a fresh `mjx.Data`, whose buffers hold every contact."""

    model: mjx.Model
    blank: mjx.Data
    welded: mjx_step.WeldedBody
    name = "jax"

    @classmethod
    def create(cls, model: mujoco.MjModel) -> MjxPhysics:
        """Puts `model` on the default device.

        Raises:
          ValueError: for a scene the backend cannot drive.
        """
        protocol.check_model(model)
        model = copy.copy(model)
        # In single precision a warm start that is close looks converged: the solver then keeps the last step's
        # accelerations, and cubes at rest start rocking.
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_WARMSTART
        _margins_into_sizes(model)
        return cls(mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax"), mjx_step.WeldedBody(model))

    @property
    def bytes_per_world(self) -> int:
        """Of an `mjx.Data` three times: before and after a physics step, and on the way."""
        return 3 * sum(x.nbytes for x in jax.tree.leaves(self.blank))

    def init(self, qpos: Array, qvel: Array, sensordata: Array) -> PhysicsState:
        return protocol.initial_state(qpos, qvel, sensordata)

    @functools.partial(jax.jit, static_argnums=0)  # traced once for all callers: it takes seconds
    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        data = self.blank.replace(
            qpos=state.qpos, qvel=state.qvel, ctrl=ctrl, mocap_pos=mocap_pos[None], mocap_quat=mocap_quat[None]
        )
        with _full_precision(), mjx_step.unfused_kinematics():
            data = jax.lax.fori_loop(0, protocol.SUBSTEPS, lambda _, d: mjx_step.step(self.model, d, self.welded), data)
        return protocol.next_state(state, data.qpos, data.qvel, data.sensordata, overflow=False)

    def with_worlds(self, num_worlds: int) -> MjxPhysics:
        del num_worlds  # nothing is shared between worlds
        return self


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
