"""One physics step of MJX's jax implementation, made to agree with C MuJoCo and to run at a usable speed.

It is `mjx.step` for the Euler integrator, with stages of our own: the kinematic tree and the motors (mjx_tree.py),
contacts and their rows (mjx_contacts.py), the solver (mjx_solver.py); and with one addition, described below.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

from envs.physics import mjx_contacts, mjx_solver, mjx_tree

Array = jax.Array


def step(model: mjx.Model, data: mjx.Data, welded: WeldedBody) -> mjx.Data:
    """Advances one world by one physics step; the sensors are left to `sense`."""
    data = mjx_tree.place(data, welded.tree)
    data = mjx_tree.center(model, data, welded.tree)
    data = mjx_tree.weigh(model, data, welded.tree)
    data = mjx_contacts.collide(model, data)
    data = mjx_contacts.make_rows(model, data, welded.tree.moves)
    data = mjx_tree.add_velocities(model, data, welded.tree)
    data = _with_weld_bias(data, welded)
    data = mjx_tree.actuate(data, welded.tree)
    free, damped = _factors(model, data)
    force = data.qfrc_passive - data.qfrc_bias + data.qfrc_actuator
    data = data.replace(qacc_smooth=jax.scipy.linalg.cho_solve((free, False), force))
    data = mjx_solver.solve(model, data)
    data = data.replace(qacc=jax.scipy.linalg.cho_solve((damped, False), force + data.qfrc_constraint))
    return mjx.euler(model, data)


def _factors(model: mjx.Model, data: mjx.Data) -> Array:
    """[2, V, V]: Cholesky factors of the inertia matrix, and of that with damping taken at the end of the step."""
    inertia = data._impl.M
    damped = inertia + jnp.diag(model.opt.timestep * model.dof_damping)
    return jax.scipy.linalg.cho_factor(jnp.stack([inertia, damped]))[0]


def prepare(model: mujoco.MjModel) -> None:
    """Changes options of `model` as `step` needs them."""
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP  # accelerations are damped here, not in mjx.euler
    model.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE  # by itself mjx takes sparse matrices on TPUs


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
        self.tree = mjx_tree.Tree.create(model)


def _with_weld_bias(data: mjx.Data, welded: WeldedBody) -> mjx.Data:
    """Adds to the weld's reference acceleration what the body's acceleration is at zero qacc (J' qvel).

    C MuJoCo and MuJoCo Warp do so; mjx's jax implementation does not, and the hand then runs ahead by 2.6 mm in 5
    control steps. The weld's three translation rows come first. The rotation rows' term is a thousandth of theirs.
    """
    speeds = data.qvel * welded.tree.moves[welded.body]
    spatial = (data.cdof_dot * speeds[:, None]).sum(axis=0)  # [6] at the tree's centre of mass
    arm = data.xpos[welded.body] - data.subtree_com[welded.root]
    rotation, translation = jnp.split(data.cvel[welded.body], 2)
    velocity = translation + jnp.cross(rotation, arm)
    acceleration = spatial[3:] + jnp.cross(spatial[:3], arm) + jnp.cross(rotation, velocity)
    return data.tree_replace({"_impl.efc_aref": data._impl.efc_aref.at[:3].add(acceleration)})
