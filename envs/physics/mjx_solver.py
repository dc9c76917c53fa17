"""Newton's method for the constraint forces of MJX's jax implementation, in few and large operations.

It minimises what `mjx.solve` minimises for pyramidal friction cones (MuJoCo documentation, "Computation: Primal
problem"), and differs in how it finds how far to go along a direction. `mjx.solve` always takes ten rounds of three
points each, 130 kernels on a GPU; here Newton's method in one dimension looks at four points.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import mjx

Array = jax.Array

POINTS = 4  # looked at along a direction
_LEAST = 1e-15  # what is divided by is at least this


class Problem(NamedTuple):
    """Least value of ½ (q - smooth)' M (q - smooth) + Σ ½ D (J q - aref)², summed over the rows that push.

    V dofs and R constraint rows. A row pushes where J q < aref, or always.
    """

    inertia: Array  # [V, V] M
    smooth: Array  # [V] accelerations without constraints
    rows: Array  # [R, V] J
    stiffness: Array  # [R] D
    reference: Array  # [R] aref
    always: Array  # [R] bool


class _Point(NamedTuple):
    """The search between two steps."""

    qacc: Array  # [V]
    residual: Array  # [R] J qacc - aref
    gain: Array  # [] what the last step was to lower the value by; 0 when there is no more to gain
    steps: Array  # []


def check_model(model: mujoco.MjModel) -> None:
    """Refuses constraints that a `Problem` does not describe.

    Raises:
      ValueError: if `model` has friction loss, tendons or elliptic cones.
    """
    if model.opt.cone != mujoco.mjtCone.mjCONE_PYRAMIDAL or (model.dof_frictionloss > 0).any() or model.ntendon:
        raise ValueError("the jax backend's solver needs pyramidal cones, no friction loss and no tendons")


def solve(model: mjx.Model, data: mjx.Data) -> mjx.Data:
    """Finds the accelerations and the forces of the constraints, as `mjx.solve` does without a warm start."""
    inner = data._impl
    always = jnp.asarray(np.arange(inner.nefc) < inner.ne)
    problem = Problem(inner.M, data.qacc_smooth, inner.efc_J, inner.efc_D, inner.efc_aref, always)
    qacc, residual = minimise(problem, model.opt.iterations, model.opt.tolerance)
    force = -_weights(problem, residual) * residual
    return data.tree_replace({"qacc": qacc, "qfrc_constraint": force @ problem.rows, "_impl.efc_force": force})


def minimise(problem: Problem, steps: int, tolerance: float | Array) -> tuple[Array, Array]:
    """Takes at most `steps` of Newton's steps -> qacc [V], residual [R].

    Args:
      tolerance: ends when a step lowers the value by less than this times the trace of M.
    """
    least = tolerance * jnp.trace(problem.inertia)
    qacc = problem.smooth
    more = jnp.full_like(least, jnp.inf)
    start = _Point(qacc, problem.rows @ qacc - problem.reference, more, jnp.int32(0))
    end = jax.lax.while_loop(lambda p: (p.steps < steps) & (p.gain > least), lambda p: _step(problem, p), start)
    return end.qacc, end.residual


def _step(problem: Problem, point: _Point) -> _Point:
    """Goes to the least value along Newton's direction."""
    weights = _weights(problem, point.residual)
    momentum = problem.inertia @ (point.qacc - problem.smooth)
    gradient = momentum + (weights * point.residual) @ problem.rows
    hessian = problem.inertia + (problem.rows.T * weights) @ problem.rows
    direction = -jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(hessian), gradient)
    along = problem.rows @ direction
    length = _length(problem, point.residual, along, direction @ momentum, direction @ problem.inertia @ direction)
    residual = point.residual + length * along
    # Where the same rows push as before, the value was quadratic on the way and this is its least.
    done = (_weights(problem, residual) == weights).all()
    gain = jnp.where(done, 0.0, -0.5 * direction @ gradient)
    return _Point(point.qacc + length * direction, residual, gain, point.steps + 1)


def _length(problem: Problem, residual: Array, along: Array, slope: Array, curvature: Array) -> Array:
    """Finds how far to go: to where the slope is 0, between a point where the value falls and one where it rises.

    Args:
      residual, along: [R] the rows' values here, and their change along the direction.
      slope, curvature: [] of the part without constraints.
    """
    length, low, high = jnp.ones_like(slope), jnp.zeros_like(slope), jnp.full_like(slope, jnp.inf)
    for _ in range(POINTS):
        there = residual + length * along
        pull = _weights(problem, there) * along
        first = slope + length * curvature + pull @ there
        second = curvature + pull @ along
        low, high = jnp.where(first < 0, length, low), jnp.where(first < 0, high, length)
        newton = length - first / jnp.maximum(second, _LEAST)
        halfway = jnp.where(jnp.isinf(high), 2.0 * length, 0.5 * (low + high))
        length = jnp.where((newton >= low) & (newton <= high), newton, halfway)
    return length


def _weights(problem: Problem, residual: Array) -> Array:
    """Gives D [R] of the rows that push, 0 for the others."""
    return jnp.where(problem.always | (residual < 0), problem.stiffness, 0.0)
