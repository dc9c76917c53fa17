"""One physics step of MJX's jax implementation, made to agree with C MuJoCo and to run at a usable speed.

It is `mjx.step` for the Euler integrator, composed of mjx's own stages but for contacts and the solver
(mjx_contacts.py, mjx_solver.py), with two additions described below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx
from mujoco.mjx._src import math as mjx_math

from envs.physics import mjx_contacts, mjx_solver

Array = jax.Array


def step(model: mjx.Model, data: mjx.Data, welded: WeldedBody) -> mjx.Data:
    """Advances one world by one physics step; the sensors are left to `sense`."""
    data = mjx.kinematics(model, data)
    data = mjx.com_pos(model, data)
    data = mjx.crb(model, data)
    data = mjx.factor_m(model, data)
    data = mjx_contacts.collide(model, data)
    data = mjx_contacts.make_rows(model, data, welded.moves)
    data = mjx.transmission(model, data)
    data = mjx.fwd_velocity(model, data)
    data = _with_weld_bias(data, welded)
    data = mjx.fwd_actuation(model, data)
    data = mjx.fwd_acceleration(model, data)
    data = mjx_solver.solve(model, data)
    return mjx.euler(model, data)


def sense(model: mjx.Model, data: mjx.Data, qpos: Array, qvel: Array) -> Array:
    """Reads the sensors [nsensordata] of the last step's forward pass, as `mj_step` leaves them.

    Args:
      qpos, qvel: of the moment before that step.
    """
    data = data.replace(qpos=qpos, qvel=qvel)
    return mjx.sensor_vel(model, mjx.sensor_pos(model, data)).sensordata


class WeldedBody:
    """Finds the body that the only equality constraint welds to the mocap body, and what moves each body."""

    def __init__(self, model: mujoco.MjModel):
        if model.neq != 1 or model.eq_type[0] != int(mujoco.mjtEq.mjEQ_WELD):
            raise ValueError("the jax backend needs a weld as the scene's only equality constraint")
        self.body = int(model.eq_obj2id[0])
        self.root = int(model.body_rootid[self.body])
        self.moves = mjx_contacts.moving_dofs(model)


def _with_weld_bias(data: mjx.Data, welded: WeldedBody) -> mjx.Data:
    """Adds to the weld's reference acceleration what the body's acceleration is at zero qacc (J' qvel).

    C MuJoCo and MuJoCo Warp do so; mjx's jax implementation does not, and the hand then runs ahead by 2.6 mm in 5
    control steps. The weld's three translation rows come first. The rotation rows' term is a thousandth of theirs.
    """
    speeds = data.qvel * welded.moves[welded.body]
    spatial = (data.cdof_dot * speeds[:, None]).sum(axis=0)  # [6] at the tree's centre of mass
    arm = data.xpos[welded.body] - data.subtree_com[welded.root]
    rotation, translation = jnp.split(data.cvel[welded.body], 2)
    velocity = translation + jnp.cross(rotation, arm)
    acceleration = spatial[3:] + jnp.cross(spatial[:3], arm) + jnp.cross(rotation, velocity)
    return data.tree_replace({"_impl.efc_aref": data._impl.efc_aref.at[:3].add(acceleration)})


@contextlib.contextmanager
def unfused_kinematics() -> Iterator[None]:
    """While a step is traced, keeps XLA from fusing the kinematic chain into one expression.

    Fused, each link recomputes its parent's quaternion several times, so the cost doubles with every link: 2 s in place
    of 3 ms for this arm and 64 worlds on a CPU. mjx offers no setting, hence the scoped patch.
    """
    quat_mul = mjx_math.quat_mul
    mjx_math.quat_mul = lambda u, v: jax.lax.optimization_barrier(quat_mul(u, v))
    try:
        yield
    finally:
        mjx_math.quat_mul = quat_mul
