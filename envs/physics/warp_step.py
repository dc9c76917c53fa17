"""A physics step of the `warp` backend: MuJoCo Warp's stages, with fewer launches.

On a GPU a launch costs more than the arithmetic of a scene this small. MuJoCo Warp sums over the kinematic tree one
level after another: 12 launches for centres of mass, 12 for composite inertias, 12 for forces. Here every body sums
over its own subtree, in one launch for each of the three. Cameras, lights and sensors are left out.

This file needs warp-lang, and kernels of MuJoCo Warp that are not part of its interface.
"""

import dataclasses
from collections.abc import Callable

import mujoco
import numpy as np
import warp as wp
from mujoco.mjx.third_party import mujoco_warp as mjw
from mujoco.mjx.third_party.mujoco_warp._src import smooth
from mujoco.mjx.third_party.mujoco_warp._src.types import vec10


def check_model(model: mujoco.MjModel) -> None:
    """Refuses what a step leaves out.

    Raises:
      ValueError: if `model` has tendons, flexes or sleeping bodies, or another integrator than Euler's.
    """
    asleep = model.opt.enableflags & mujoco.mjtEnableBit.mjENBL_SLEEP
    if model.ntendon or model.nflex or asleep or model.opt.integrator != mujoco.mjtIntegrator.mjINT_EULER:
        raise ValueError("the warp backend needs Euler's integrator, and no tendons, flexes or sleeping bodies")


def last_descendants(model: mujoco.MjModel) -> np.ndarray:
    """Finds the last body of each body's subtree, [nbody] int32: MuJoCo numbers the bodies of a subtree in a row."""
    last = np.arange(model.nbody, dtype=np.int32)
    for body in range(model.nbody - 1, 0, -1):
        parent = model.body_parentid[body]
        last[parent] = max(last[parent], last[body])
    return last


@wp.kernel
def _centers_of_mass(
    last: wp.array[wp.int32],
    mass: wp.array2d[wp.float32],
    subtree_mass: wp.array2d[wp.float32],
    position: wp.array2d[wp.vec3],
    center: wp.array2d[wp.vec3],
):
    world, body = wp.tid()  # type: ignore[misc]
    total = wp.vec3()
    for part in range(body, last[body] + 1):
        total += position[world, part] * mass[world % mass.shape[0], part]
    whole = subtree_mass[world % subtree_mass.shape[0], body]
    if whole != 0.0:
        total = total / whole
    center[world, body] = total


@wp.kernel
def _composite_inertias(last: wp.array[wp.int32], inertia: wp.array2d[vec10], composite: wp.array2d[vec10]):
    world, body = wp.tid()  # type: ignore[misc]
    total = vec10()
    for part in range(body, last[body] + 1):
        total += inertia[world, part]
    composite[world, body] = total


@wp.kernel
def _bias_forces(
    last: wp.array[wp.int32],
    dof_body: wp.array[wp.int32],
    motion: wp.array2d[wp.spatial_vector],
    force: wp.array2d[wp.spatial_vector],
    bias: wp.array2d[wp.float32],
):
    world, dof = wp.tid()  # type: ignore[misc]
    body = dof_body[dof]
    total = wp.spatial_vector()
    for part in range(body, last[body] + 1):
        total += force[world, part]
    bias[world, dof] = wp.dot(motion[world, dof], total)


def make(model: mujoco.MjModel, m: mjw.Model, d: mjw.Data) -> Callable[[], None]:
    """Makes the function that advances all worlds of `d` by one step, as `mujoco_warp.step` does but for sensors.

    Args:
      m, d: `model` and its worlds, as MuJoCo Warp holds them, on the current device.
    Raises:
      ValueError: for a scene that the step does not describe.
    """
    check_model(model)
    last = wp.array(last_descendants(model), dtype=wp.int32)
    bodies, dofs = (d.nworld, model.nbody), (d.nworld, model.nv)
    treeless = dataclasses.replace(m, body_tree=())  # its stages leave the sums over subtrees out

    def positions() -> None:
        mjw.kinematics(m, d)
        wp.launch(_centers_of_mass, bodies, [last, m.body_mass, m.body_subtreemass, d.xipos], [d.subtree_com])
        wp.launch(
            smooth._cinert,
            bodies,
            [m.body_rootid, m.body_mass, m.body_inertia, d.xipos, d.ximat, d.subtree_com],
            [d.cinert],
        )
        wp.launch(
            smooth._cdof,
            (d.nworld, model.njnt),
            [m.body_rootid, m.jnt_type, m.jnt_dofadr, m.jnt_bodyid, d.xmat, d.xanchor, d.xaxis, d.subtree_com],
            [d.cdof],
        )

    def inertia_matrix() -> None:
        wp.launch(_composite_inertias, bodies, [last, d.cinert], [d.crb])
        d.M.zero_()
        wp.launch(
            smooth._M,
            dofs,
            [m.dof_bodyid, m.dof_parentid, m.dof_armature, m.M_rownnz, m.M_rowadr, d.cdof, d.crb],
            [d.M],
        )

    def velocities() -> None:
        mjw.fwd_velocity(treeless, d)
        wp.launch(_bias_forces, dofs, [last, m.dof_bodyid, d.cdof, d.cfrc_int], [d.qfrc_bias])

    def step() -> None:
        positions()
        inertia_matrix()
        mjw.collision(m, d)
        mjw.make_constraint(m, d)
        mjw.transmission(m, d)
        velocities()
        mjw.fwd_actuation(m, d)
        mjw.fwd_acceleration(m, d, factorize=True)
        mjw.solve(m, d)
        mjw.euler(m, d)

    return step
