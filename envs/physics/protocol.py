"""Defines a physics backend: MuJoCo for one world, one control step at a time, vmapped by its callers."""

from __future__ import annotations

from typing import Protocol

import flax.struct
import jax
import jax.numpy as jnp
import mujoco

Array = jax.Array

SUBSTEPS = 20  # physics steps in a control step
_LIMIT = 1e3  # m, rad, m/s, rad/s; a world beyond this has diverged


@flax.struct.dataclass
class PhysicsState:
    """All that physics keeps of one world between control steps; the same on every backend.

    The solver's warm start is not carried: starting it afresh every control step moves nothing by more than 1e-11 m.
    """

    qpos: Array  # [nq] float32
    qvel: Array  # [nv] float32
    sensordata: Array  # [nsensordata] float32, as the last substep's forward pass saw the world
    overflow: Array  # [] bool, contact or constraint buffers were too small at some step: results are wrong


class Physics(Protocol):
    """A backend with its buffers. `step` is pure, speaks of ONE world, and may be vmapped over any number of axes."""

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        """Makes one control step (20 substeps) with ctrl [nu] and the mocap body held at pos [3], quat [4].

        A world that diverges, or is given a non-finite input, comes back as NaN; other worlds are untouched.
        """
        ...

    def with_worlds(self, num_worlds: int) -> Physics:
        """The same physics with buffers for `num_worlds` worlds, all vmapped axes together."""
        ...


def initial_state(qpos: Array, qvel: Array, sensordata: Array) -> PhysicsState:
    """A world at qpos [nq], qvel [nv]; `sensordata` [nsensordata] is what the sensors say there."""
    qpos, qvel, sensordata = (jnp.asarray(x, jnp.float32) for x in (qpos, qvel, sensordata))
    return PhysicsState(qpos=qpos, qvel=qvel, sensordata=sensordata, overflow=jnp.zeros((), bool))


def next_state(
    state: PhysicsState, qpos: Array, qvel: Array, sensordata: Array, overflow: Array | bool
) -> PhysicsState:
    """The state after a control step, as every backend returns it: a world that diverged is NaN throughout."""
    sound = (jnp.abs(qpos) < _LIMIT).all() & (jnp.abs(qvel) < _LIMIT).all()  # false for NaN
    qpos, qvel, sensordata = (jnp.where(sound, x, jnp.nan) for x in (qpos, qvel, sensordata))
    return PhysicsState(qpos=qpos, qvel=qvel, sensordata=sensordata, overflow=state.overflow | overflow)


def check_model(model: mujoco.MjModel) -> None:
    """The backends drive scenes with one mocap body and no activation states.

    Raises:
      ValueError: if `model` is another kind of scene.
    """
    if model.nmocap != 1 or model.na != 0:
        raise ValueError(f"physics needs one mocap body and no activations, got {model.nmocap} and {model.na}")
