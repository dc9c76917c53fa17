"""Contacts and constraint rows for MJX's jax implementation, all pairs of one kind of geometry at once.

`mjx.collision` runs the same test once for every number of friction dimensions, and `mjx.make_constraint` finds again
at every step which degrees of freedom move a body. The numbers here are theirs, in their order.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.mjx._src import collision_driver
from mujoco.mjx._src import constraint as mjx_constraint
from mujoco.mjx._src import math as mjx_math

Array = jax.Array


def check_model(model: mujoco.MjModel) -> None:
    """Refuses constraints that `make_rows` makes no rows for.

    Raises:
      ValueError: if `model` has contacts without friction or limited ball joints.
    """
    balls = model.jnt_type == int(mujoco.mjtJoint.mjJNT_BALL)
    if (model.geom_condim == 1).any() or (balls & (model.jnt_limited > 0)).any():
        raise ValueError("the jax backend needs contacts with friction (condim 3 or more) and no limited ball joints")


def collide(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    """Finds all contacts, as `mjx.collision` does for scenes that do not limit their number."""
    groups = _by_condim(collision_driver._contact_groups(model, data))
    found: list[Any] = [None] * len(groups)
    for kind in dict.fromkeys(_kind(key) for key, _ in groups):
        own = [i for i, (key, _) in enumerate(groups) if _kind(key) == kind]
        key, pairs = groups[own[0]][0], jnp.concatenate([groups[i][1].geom for i in own])
        detect = collision_driver._COLLISION_FUNC[key.types]
        touching = detect(model, data, key, pairs)
        ends = np.cumsum([detect.ncon * len(groups[i][1].geom) for i in own])
        for i, part in zip(own, zip(*(jnp.split(x, ends[:-1]) for x in touching), strict=True), strict=True):
            contact = jax.tree.map(functools.partial(jnp.repeat, repeats=detect.ncon, axis=0), groups[i][1])
            found[i] = contact.replace(**dict(zip(("dist", "pos", "frame"), part, strict=True)))
    return data.tree_replace({"_impl.contact": jax.tree.map(lambda *x: jnp.concatenate(x), *found)})


def make_rows(model: mjx.Model, data: mjx.Data, moves: np.ndarray) -> mjx.Data:
    """Makes the rows of the weld, of the joints' limits and of pyramidal contacts, as `mjx.make_constraint` does.

    Args:
      moves: of `mjx_tree.Tree`.
    """
    groups = _by_condim(collision_driver._geom_groups(model))
    geoms = [np.repeat(pairs, collision_driver._COLLISION_FUNC[key.types].ncon, axis=0) for key, pairs in groups]
    bodies = model.geom_bodyid[np.concatenate(geoms)[:, :2]]  # [C, 2]
    parts = [_weld_rows(model, data, moves), _limit_rows(model, data)]
    dims = data._impl.contact.dim  # in rising order
    for dim in np.unique(dims):
        parts.append(_contact_rows(model, data, moves, bodies, slice(*np.flatnonzero(dims == dim)[[0, -1]] + [0, 1])))
    rows = jax.tree.map(lambda *x: jnp.concatenate(x), *(part for part in parts if part is not None))
    k, b, impedance = jax.vmap(functools.partial(mjx_constraint._kbi, model))(rows.solref, rows.solimp, rows.pos_imp)
    resistance = jnp.maximum(rows.invweight * (1 - impedance) / impedance, mujoco.mjMINVAL)
    reference = -b * (rows.J @ data.qvel) - k * impedance * rows.pos_aref
    changed = {"J": rows.J, "D": 1 / resistance, "aref": reference, "pos": rows.pos_aref + rows.margin}
    return data.tree_replace({f"_impl.efc_{name}": value for name, value in changed.items()})


def _kind(key: Any) -> Any:
    """Gives the part of a group's key that chooses its collision test: types of geometry, and their meshes."""
    return dataclasses.replace(key, condim=0)


def _by_condim(groups: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """Sorts groups of pairs of geometries by their friction dimensions, as contacts are."""
    return sorted(groups.items(), key=lambda group: group[0].condim)


def _velocities(model: mjx.Model, data: mjx.Data, points: Array) -> Array:
    """[..., 3] points fixed to a body -> [..., 3, V]: their velocity per unit of each dof's speed, if it moves them."""
    turning, moving = jnp.split(data.cdof.T, 2)
    roots = model.body_rootid[model.dof_bodyid]
    return moving + _cross(turning, points[..., None] - data.subtree_com.T[:, roots])


def _cross(a: Array, b: Array) -> Array:
    """Cross products of vectors [..., 3, V]."""
    after, before = np.array([1, 2, 0]), np.array([2, 0, 1])
    return a[..., after, :] * b[..., before, :] - a[..., before, :] * b[..., after, :]


def _weld_rows(model: mjx.Model, data: mjx.Data, moves: np.ndarray) -> Any:
    """Makes three rows of translation and three of rotation, of a body welded to the mocap body."""
    mocap, body = int(model.eq_obj1id[0]), int(model.eq_obj2id[0])
    anchors, pose, scale = model.eq_data[0, :6].reshape(2, 3), model.eq_data[0, 6:10], model.eq_data[0, 10]
    there = data.xpos[mocap] + data.xmat[mocap] @ anchors[1]
    here = data.xpos[body] + data.xmat[body] @ anchors[0]
    left, right = mjx_math.quat_inv(data.xquat[body]), mjx_math.quat_mul(data.xquat[mocap], pose)

    def turn(axis: Array) -> Array:
        return 0.5 * mjx_math.quat_mul(mjx_math.quat_mul_axis(left, axis), right)[1:]

    turns = jnp.einsum("ai,va->iv", scale * jax.vmap(turn)(jnp.eye(3)), data.cdof[:, :3])  # turn is linear
    error = jnp.concatenate([there - here, scale * mjx_math.quat_mul(left, right)[1:]])
    weights = model.body_invweight0[mocap] + model.body_invweight0[body]  # of translation and of rotation
    none = jnp.zeros_like(error)
    return mjx_constraint._Efc(
        J=-jnp.concatenate([_velocities(model, data, here), turns]) * moves[body],
        pos_aref=error,
        pos_imp=jnp.broadcast_to(jnp.linalg.norm(error), 6),
        invweight=jnp.repeat(weights, 3),
        solref=jnp.tile(model.eq_solref[0], (6, 1)),
        solimp=jnp.tile(model.eq_solimp[0], (6, 1)),
        margin=none,
        frictionloss=none,
    )


def _limit_rows(model: mjx.Model, data: mjx.Data) -> Any:
    """Makes a row for each limited slide and hinge, None without any."""
    joints = np.flatnonzero(model.jnt_limited)
    if not len(joints):
        return None
    dofs, zero = model.jnt_dofadr[joints], jnp.zeros(len(joints))
    position, (low, high), margin = data.qpos[model.jnt_qposadr[joints]], model.jnt_range[joints].T, model.jnt_margin
    distance = jnp.minimum(position - low, high - position) - margin[joints]
    active = distance < 0
    sign = jnp.where(position - low < high - position, 1.0, -1.0) * active
    return mjx_constraint._Efc(
        J=sign[:, None] * np.eye(model.nv, dtype=np.float32)[dofs],
        pos_aref=distance * active,
        pos_imp=distance,
        invweight=model.dof_invweight0[dofs],
        solref=model.jnt_solref[joints],
        solimp=model.jnt_solimp[joints],
        margin=margin[joints],
        frictionloss=zero,
    )


def _contact_rows(model: mjx.Model, data: mjx.Data, moves: np.ndarray, bodies: np.ndarray, which: slice) -> Any:
    """Makes 2 (dim - 1) rows per contact: normal ± friction × each direction of sliding, then of turning.

    Args:
      bodies: [all contacts, 2].
      which: contacts with the same number of friction dimensions.
    """
    dim = int(data._impl.contact.dim[which.start])
    contact, bodies = jax.tree.map(lambda x: x[which], data._impl.contact), bodies[which]
    sign = moves[bodies[:, 1]] - moves[bodies[:, 0]]  # [C, V]
    along = [_project(contact.frame, _velocities(model, data, contact.pos))]
    if dim > 3:
        along.append(_project(contact.frame, data.cdof[:, :3].T[None]))
    directions = jnp.concatenate(along, axis=1)[:, :dim] * sign[:, None]  # [C, dim, V]
    friction = jnp.repeat(contact.friction[:, : dim - 1], 2, axis=1) * np.tile([1.0, -1.0], dim - 1)
    rows = directions[:, :1] + friction[..., None] * jnp.repeat(directions[:, 1:], 2, axis=1)

    distance = contact.dist - contact.includemargin
    active = distance < 0
    slip = contact.friction[:, 0] ** 2
    weight = model.body_invweight0[bodies, 0].sum(axis=1) * (1 + slip) * 2 * slip / model.opt.impratio

    def each(x: Array) -> Array:
        """Repeats what a contact has for each of its rows."""
        return jnp.repeat(x, 2 * (dim - 1), axis=0)

    return mjx_constraint._Efc(
        J=(rows * active[:, None, None]).reshape(-1, rows.shape[-1]),
        pos_aref=each(distance * active),
        pos_imp=each(distance),
        invweight=each(weight),
        solref=each(contact.solref),
        solimp=each(contact.solimp),
        margin=each(contact.includemargin),
        frictionloss=each(jnp.zeros_like(distance)),
    )


def _project(frames: Array, vectors: Array) -> Array:
    """[C, 3, 3] axes, [C or 1, 3, V] -> [C, 3, V], without a matrix product: so it joins what is around it."""
    return (frames[..., None] * vectors[:, None]).sum(axis=2)
