"""The kinematic tree and the motors for MJX's jax implementation, in few and large operations.

MJX walks the tree level by level: for poses, centres of mass, composite inertias, velocities, accelerations and forces.
A sum over a body's subtree, or over the degrees of freedom that move it, is one product with a matrix of zeros and ones
that the model fixes. Poses are composed over paths of 1, 2, 4, ... bodies: four rounds for the arm's twelve levels.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx
from mujoco.mjx._src import support

Array = jax.Array
_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])  # of three axes, in turn
_FREE, _SLIDE, _HINGE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{name}")) for name in ("FREE", "SLIDE", "HINGE"))


@dataclasses.dataclass(frozen=True, eq=False)
class Tree:
    """The tree of a model: B bodies, V degrees of freedom. Matrices hold 1 where the sentence beside them is true."""

    model: mujoco.MjModel
    ancestors: list[np.ndarray]  # [B] each: the first, second, fourth, ... body above; the world above itself
    inside: np.ndarray  # [B, B]: the second body is in the subtree of the first
    moves: np.ndarray  # [B, V]: the degree of freedom moves the body
    before: np.ndarray  # [V, V]: the second degree of freedom moves the frame that the first turns or slides in
    mass: np.ndarray  # [B] kg, of the subtree
    column: np.ndarray  # [V]: for a free joint's turns, which axis of the body they are about; else -1
    shift: np.ndarray  # [V, 3]: the world's axis that a free joint's translation goes along; else 0
    slides: np.ndarray  # [V]: 1 for a slide joint

    @classmethod
    def create(cls, model: mujoco.MjModel) -> Tree:
        """Reads the tree of `model`."""
        moves = moving_dofs(model)
        inside = np.eye(model.nbody, dtype=np.float32)
        for body in range(model.nbody - 1, 0, -1):  # children come after their parents
            inside[model.body_parentid[body]] += inside[body]
        before = moves[model.body_parentid[model.dof_bodyid]]
        column, shift = np.full(model.nv, -1), np.zeros((model.nv, 3), np.float32)
        for first in model.jnt_dofadr[model.jnt_type == _FREE]:
            column[first + 3 : first + 6] = range(3)
            shift[first : first + 3] = np.eye(3)
            before[first + 3 : first + 6, first : first + 3] = 1
        slides = (model.jnt_type[model.dof_jntid] == _SLIDE).astype(np.float32)
        ancestors = [np.array(model.body_parentid)]
        while ancestors[-1].any():
            ancestors.append(ancestors[-1][ancestors[-1]])
        return cls(model, ancestors[:-1], inside, moves, before, inside @ model.body_mass, column, shift, slides)


def check_model(model: mujoco.MjModel) -> None:
    """Refuses trees, motors and options that the functions below do not describe.

    Raises:
      ValueError: if a body of `model` has several joints or a ball joint, an actuator is not a plain one, or a part of
        the physics is switched off.
    """
    kinds = {_FREE, _SLIDE, _HINGE}
    if (model.body_jntnum > 1).any() or not kinds.issuperset(model.jnt_type):
        raise ValueError("the jax backend needs bodies with one joint at most, free, slide or hinge")
    gain, bias, none = mujoco.mjtGain.mjGAIN_FIXED, mujoco.mjtBias.mjBIAS_AFFINE, mujoco.mjtDyn.mjDYN_NONE
    plain = [model.actuator_trntype == int(mujoco.mjtTrn.mjTRN_JOINT), model.actuator_gaintype == int(gain)]
    plain += [np.isin(model.actuator_biastype, (0, int(bias))), model.actuator_dyntype == int(none)]
    clamped = model.actuator_forcelimited.any() or model.jnt_actfrclimited.any() or model.jnt_actgravcomp.any()
    if not np.all(plain) or clamped or (model.jnt_type[model.actuator_trnid[:, 0]] == _FREE).any():
        raise ValueError(
            "the jax backend needs actuators of slides and hinges, with fixed gains and no limits of force"
        )
    off = ("ACTUATION", "CLAMPCTRL", "CONTACT", "EQUALITY", "EULERDAMP", "GRAVITY", "LIMIT")
    if model.opt.disableflags & sum(int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}")) for name in off):
        raise ValueError(f"the jax backend needs all of the physics: none of {', '.join(off)} may be disabled")


def moving_dofs(model: mujoco.MjModel) -> np.ndarray:
    """[bodies, nv]: 1 where a degree of freedom moves a body."""
    moves = np.zeros((model.nbody, model.nv), np.float32)
    for body in range(1, model.nbody):  # parents come first
        first = model.body_dofadr[body]
        moves[body] = moves[model.body_parentid[body]]
        moves[body, first : first + model.body_dofnum[body]] = 1.0
    return moves


def place(data: mjx.Data, tree: Tree) -> mjx.Data:
    """Finds the poses of bodies, joints, geometries and sites, as `mjx.kinematics` does."""
    model, poses = tree.model, _own_poses(tree.model, data)
    for above in tree.ancestors:
        # Without the barrier XLA computes a pose again for each of its uses, twice as often with each round.
        poses = jax.lax.optimization_barrier(_chain(poses[above], poses))
    pos, quat = poses[:, :3], poses[:, 3:]
    frames, anchors, axes = _joint_frames(model)
    parent, body = model.body_parentid[model.jnt_bodyid], model.jnt_bodyid
    free = (model.jnt_type == _FREE)[:, None]
    return data.replace(
        xpos=pos,
        xquat=quat,
        xanchor=jnp.where(free, pos[body], pos[parent] + _rotate(quat[parent], anchors)),
        xaxis=_rotate(quat[parent], axes),
        **_attached(model, pos, quat),
    )


def center(model: mjx.Model, data: mjx.Data, tree: Tree) -> mjx.Data:
    """Finds subtrees' centres of mass, and inertias and motions about them, as `mjx.com_pos` does."""
    weighted = tree.inside @ (data.xipos * model.body_mass[:, None])
    empty = (tree.mass < mujoco.mjMINVAL)[:, None]
    com = jnp.where(empty, data.xipos, weighted / np.maximum(tree.mass, mujoco.mjMINVAL)[:, None])
    root_com = com[model.body_rootid]
    inertia = _inertia(model.body_inertia, data.ximat, data.xipos - root_com, model.body_mass)

    own = data.xmat[model.dof_bodyid, :, tree.column]  # [V, 3], an axis of the dof's body
    axis = jnp.where((tree.column < 0)[:, None], data.xaxis[model.dof_jntid], own)
    sliding = tree.slides[:, None]
    turning = axis * (1 - sliding) * (1 - tree.shift.sum(axis=1, keepdims=True))
    arm = root_com[model.dof_bodyid] - data.xanchor[model.dof_jntid]
    motion = jnp.concatenate([turning, _cross(turning, arm) + axis * sliding + tree.shift], axis=1)
    return data.tree_replace({"subtree_com": com, "_impl.cinert": inertia, "cdof": motion})


def weigh(model: mjx.Model, data: mjx.Data, tree: Tree) -> mjx.Data:
    """Makes the inertia matrix, as `mjx.crb` does."""
    composite = tree.inside[model.dof_bodyid] @ data._impl.cinert  # [V, 10]
    forces = _momentum(composite, data.cdof)
    return data.tree_replace({"_impl.M": support.make_m(model, forces, data.cdof, model.dof_armature)})


def add_velocities(model: mjx.Model, data: mjx.Data, tree: Tree) -> mjx.Data:
    """Finds bodies' velocities, passive and bias forces, as `mjx.fwd_velocity` does without tendons."""
    along = data.cdof * data.qvel[:, None]
    speeds = np.concatenate([tree.moves, tree.before]) @ along
    velocity, frame = jnp.split(speeds, [model.nbody])  # [B, 6], [V, 6]
    fixed = tree.shift.any(axis=1, keepdims=True)  # the world's axes do not turn
    change = jnp.where(fixed, 0.0, _cross_motions(frame, data.cdof))
    data = data.tree_replace(
        {
            "cvel": velocity,
            "cdof_dot": change,
        }
    )
    return _add_bias(model, mjx.passive(model, data), tree)


def actuate(data: mjx.Data, tree: Tree) -> mjx.Data:
    """Finds the actuators' forces, as `mjx.transmission` and `mjx.fwd_actuation` do."""
    model = tree.model
    joint, gear = model.actuator_trnid[:, 0], _single(model.actuator_gear[:, 0])
    dof, bias = model.jnt_dofadr[joint], _single(model.actuator_biasprm)
    low, high = np.where(model.actuator_ctrllimited[:, None], model.actuator_ctrlrange, [-np.inf, np.inf]).T
    control = jnp.clip(data.ctrl, _single(low), _single(high))
    length, speed = gear * data.qpos[model.jnt_qposadr[joint]], gear * data.qvel[dof]
    spring = bias[:, 0] + bias[:, 1] * length + bias[:, 2] * speed
    force = _single(model.actuator_gainprm[:, 0]) * control + (model.actuator_biastype > 0) * spring
    moment = np.zeros((model.nu, model.nv), np.float32)
    moment[np.arange(model.nu), dof] = gear
    return data.replace(qfrc_actuator=(force[:, None] * moment).sum(axis=0), actuator_force=force)


def _add_bias(model: mjx.Model, data: mjx.Data, tree: Tree) -> mjx.Data:
    """Finds gravity's, centrifugal and Coriolis forces, as `mjx.rne` does."""
    gravity = jnp.concatenate([jnp.zeros(3), -model.opt.gravity])
    acceleration = gravity + tree.moves @ (data.cdof_dot * data.qvel[:, None])

    momentum = _momentum(data._impl.cinert, data.cvel)
    forces = _momentum(data._impl.cinert, acceleration) + _cross_forces(data.cvel, momentum)
    bias = (data.cdof * (tree.inside[model.dof_bodyid] @ forces)).sum(axis=1)
    return data.replace(qfrc_bias=bias)


def _joint_frames(model: mujoco.MjModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds each joint's frame [J, 4], anchor [J, 3] and axis [J, 3] in the frame of its body's parent."""
    frame, offset = _single(model.body_quat[model.jnt_bodyid]), _single(model.body_pos[model.jnt_bodyid])
    axes = np.where((model.jnt_type == _FREE)[:, None], [0, 0, 1], _rotate(frame, _single(model.jnt_axis)))
    return frame, offset + _rotate(frame, _single(model.jnt_pos)), _single(axes)


def _own_poses(model: mujoco.MjModel, data: mjx.Data) -> Array:
    """Finds each body's pose in its parent's frame, [B, 7]: position, then quaternion."""
    frame, anchors, axes = _joint_frames(model)
    free, kind = np.flatnonzero(model.jnt_type == _FREE), model.jnt_type[:, None]
    first = model.jnt_qposadr
    way = (data.qpos[first] - _single(model.qpos0[first]))[:, None]  # of slides, and angles of hinges
    half = jnp.where(kind == _HINGE, 0.5 * way, 0.0)
    turned = _compose(frame, jnp.concatenate([jnp.cos(half), jnp.sin(half) * _single(model.jnt_axis)], axis=1))
    slid = jnp.where(kind == _SLIDE, way * axes, 0.0)
    moved = anchors - _rotate(turned, _single(model.jnt_pos)) + slid
    floating = data.qpos[first[free][:, None] + np.arange(7)]
    fixed = np.concatenate([model.body_pos, model.body_quat], axis=1).astype(np.float32)
    found: list[Any] = [
        fixed,
        jnp.concatenate([moved, turned], axis=1),
        jnp.concatenate([floating[:, :3], _unit(floating[:, 3:])], axis=1),
        jnp.concatenate([data.mocap_pos, _unit(data.mocap_quat)], axis=1),
    ]
    start, source = np.cumsum([len(x) for x in found]), np.arange(model.nbody)
    source[model.jnt_bodyid] = start[0] + np.arange(model.njnt)
    source[model.jnt_bodyid[free]] = start[1] + np.arange(len(free))
    mocap = model.body_mocapid >= 0
    source[mocap] = start[2] + model.body_mocapid[mocap]
    return jnp.concatenate(found)[source]


def _attached(model: mujoco.MjModel, pos: Array, quat: Array) -> dict[str, Array]:
    """Finds the world's poses of what is fixed to bodies: their own frames, centres of mass, geometries, sites."""
    bodies = np.arange(model.nbody)
    none = np.zeros((model.nbody, 3)), np.tile([1.0, 0, 0, 0], (model.nbody, 1))
    parts = {
        ("", "xmat"): (bodies, *none),
        ("xipos", "ximat"): (bodies, model.body_ipos, model.body_iquat),
        ("geom_xpos", "geom_xmat"): (model.geom_bodyid, model.geom_pos, model.geom_quat),
        ("site_xpos", "site_xmat"): (model.site_bodyid, model.site_pos, model.site_quat),
    }
    on, offset, turn = (np.concatenate(x) for x in zip(*parts.values(), strict=True))
    there = pos[on] + _rotate(quat[on], _single(offset))
    turned = _matrix(_compose(quat[on], _single(turn)))
    ends = np.cumsum([len(part[0]) for part in parts.values()])[:-1]
    found: dict[str, Array] = {}
    for (position, matrix), p, m in zip(parts, jnp.split(there, ends), jnp.split(turned, ends), strict=True):
        found |= {position: p, matrix: m}
    return {name: x for name, x in found.items() if name}


def _single(numbers: Any) -> np.ndarray:
    """Constants in single precision, known when the program is traced."""
    return np.asarray(numbers, np.float32)


def _chain(first: Array, second: Array) -> Array:
    """Poses [..., 7] in the frames of poses [..., 7]."""
    turn = first[..., 3:]
    position = first[..., :3] + _rotate(turn, second[..., :3])
    return jnp.concatenate([position, _compose(turn, second[..., 3:])], axis=-1)


def _compose(a: Any, b: Any) -> Any:
    """Products of quaternions [..., 4], w first."""
    scalar = a[..., :1] * b[..., :1] - (a[..., 1:] * b[..., 1:]).sum(axis=-1, keepdims=True)
    vector = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + _cross(a[..., 1:], b[..., 1:])
    return _join(scalar, vector)


def _rotate(quat: Any, vector: Any) -> Any:
    """Vectors [..., 3] turned by unit quaternions [..., 4]."""
    twice = 2.0 * _cross(quat[..., 1:], vector)
    return vector + quat[..., :1] * twice + _cross(quat[..., 1:], twice)


def _matrix(quat: Array) -> Array:
    """Unit quaternions [..., 4] -> rotation matrices [..., 3, 3]."""
    axes = np.eye(3, dtype=np.float32)
    return jnp.swapaxes(_rotate(quat[..., None, :], axes), -1, -2)


def _unit(quat: Array) -> Array:
    """Quaternions [..., 4] of length 1."""
    return quat / jnp.linalg.norm(quat, axis=-1, keepdims=True)


def _join(a: Any, b: Any) -> Any:
    constant = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)  # known when the program is traced
    return np.concatenate([a, b], axis=-1) if constant else jnp.concatenate([a, b], axis=-1)


def _momentum(inertia: Array, motion: Array) -> Array:
    """[B, 10] inertias as `center` makes them, [B, 6] velocities or accelerations -> [B, 6] momenta or forces."""
    matrix, offset, mass = inertia[:, np.array([[0, 3, 4], [3, 1, 5], [4, 5, 2]])], inertia[:, 6:9], inertia[:, 9:]
    turning, moving = motion[:, :3], motion[:, 3:]
    turn = (matrix * turning[:, None]).sum(axis=2) + _cross(offset, moving)
    return jnp.concatenate([turn, mass * moving - _cross(offset, turning)], axis=1)


def _cross(a: Array, b: Array) -> Array:
    """Cross products [..., 3]; by indices, which XLA fuses, where `jnp.cross` has kernels for slices."""
    return a[..., _NEXT] * b[..., _LAST] - a[..., _LAST] * b[..., _NEXT]


def _cross_motions(a: Array, b: Array) -> Array:
    """Cross products of motions [..., 6] with motions, their turning parts first."""
    turning = a[..., :3]
    return jnp.concatenate(
        [_cross(turning, b[..., :3]), _cross(a[..., 3:], b[..., :3]) + _cross(turning, b[..., 3:])], -1
    )


def _cross_forces(a: Array, b: Array) -> Array:
    """Cross products of motions [..., 6] with forces."""
    turning = a[..., :3]
    return jnp.concatenate(
        [_cross(turning, b[..., :3]) + _cross(a[..., 3:], b[..., 3:]), _cross(turning, b[..., 3:])], -1
    )


def _inertia(diagonal: Array, frame: Array, offset: Array, mass: Array) -> Any:
    """[B, 10]: inertia about a point at -offset, as 6 numbers of its upper triangle, mass × offset, and mass."""
    turned = (frame[:, :, None] * (diagonal[:, None] * frame)[:, None]).sum(axis=3)
    square = (offset**2).sum(axis=1)[:, None, None] * jnp.eye(3) - offset[:, :, None] * offset[:, None, :]
    whole = turned + square * mass[:, None, None]
    rows, columns = np.array([0, 1, 2, 0, 0, 1]), np.array([0, 1, 2, 1, 2, 2])
    return jnp.concatenate([whole[:, rows, columns], offset * mass[:, None], mass[:, None]], axis=1)
