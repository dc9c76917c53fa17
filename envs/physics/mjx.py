"""The `jax` backend: MuJoCo MJX's own implementation in JAX, for TPUs and wherever Warp is missing."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib.metadata
from pathlib import Path

import jax
import mujoco
import numpy as np
from mujoco import mjx

from envs.physics import kept, mjx_step, protocol
from envs.physics.protocol import Array, PhysicsState


@dataclasses.dataclass(frozen=True, eq=False)
class MjxPhysics:
    """Each control step is a loop of 20 physics steps on a fresh `mjx.Data`, whose buffers hold every contact."""

    blank: mjx.Data
    steps: kept.Function
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
        put, blank = mjx.put_model(model, impl="jax"), mjx.make_data(model, impl="jax")
        welded = mjx_step.WeldedBody(model)

        def steps(qpos: Array, qvel: Array, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> tuple[Array, ...]:
            """A control step of one world -> qpos, qvel, sensordata."""
            data = blank.replace(
                qpos=qpos, qvel=qvel, ctrl=ctrl, mocap_pos=mocap_pos[None], mocap_quat=mocap_quat[None]
            )
            with _full_precision(), mjx_step.unfused_kinematics():
                data = jax.lax.fori_loop(0, protocol.SUBSTEPS, lambda _, d: mjx_step.step(put, d, welded), data)
            return data.qpos, data.qvel, data.sensordata

        return cls(blank, kept.over_worlds(steps, _content(model)))

    @property
    def bytes_per_world(self) -> int:
        """Of an `mjx.Data` three times: before and after a physics step, and on the way."""
        return 3 * sum(x.nbytes for x in jax.tree.leaves(self.blank))

    def init(self, qpos: Array, qvel: Array, sensordata: Array) -> PhysicsState:
        return protocol.initial_state(qpos, qvel, sensordata)

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        qpos, qvel, sensordata = self.steps(state.qpos, state.qvel, ctrl, mocap_pos, mocap_quat)
        return protocol.next_state(state, qpos, qvel, sensordata, overflow=False)

    def with_worlds(self, num_worlds: int) -> MjxPhysics:
        del num_worlds  # nothing is shared between worlds
        return self


def _content(model: mujoco.MjModel) -> bytes:
    """All that the traced step depends on: the model, mjx, and these files."""
    saved = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, saved)
    here = Path(__file__)
    sources = b"".join(
        here.with_name(name).read_bytes() for name in ("kept.py", "mjx.py", "mjx_step.py", "protocol.py")
    )
    versions = f"{mujoco.__version__} {importlib.metadata.version('mujoco-mjx')}"
    return saved.tobytes() + versions.encode() + sources


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
