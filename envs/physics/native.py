"""C MuJoCo as a host function: all worlds of a vmapped call go to one thread pool as one batch."""

from __future__ import annotations

import copy
import hashlib
import os
import threading

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from mujoco import rollout

from envs.physics import host_call, protocol, sleep
from envs.physics.protocol import Array, PhysicsState

_CONTROL = mujoco.mjtState.mjSTATE_CTRL | mujoco.mjtState.mjSTATE_MOCAP_POS | mujoco.mjtState.mjSTATE_MOCAP_QUAT


class NativePhysics:
    """The `c` backend. Uses every core this process may run on.

    Args:
      sleep: leave resting cubes out of the steps that nothing can move them in (sleep.py).
    """

    def __init__(self, model: mujoco.MjModel, num_threads: int | None = None, sleep: bool = False):
        protocol.check_model(model)
        self.model = copy.copy(model)
        # By default MuJoCo resets a diverged world, and nobody notices. (The other backends refuse this flag.)
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_AUTORESET
        self._stepper = _BatchStepper(self.model, num_threads or _cores(), sleep)
        self._target = _register(self._stepper)

    def step(self, state: PhysicsState, ctrl: Array, mocap_pos: Array, mocap_quat: Array) -> PhysicsState:
        # One array in, one array out: each costs the callback a copy and a conversion.
        hand = [state.sensordata[i] for i in self._stepper.hand]
        parts = [state.qpos, state.qvel, ctrl, mocap_pos, mocap_quat, *hand]
        world = jnp.concatenate(parts).astype(jnp.float32)  # with x64 some may be float64
        if self._target and jax.default_backend() == "cpu":
            out = host_call.call(self._target, world)
        else:  # copies to the host and back, and keeps the program out of JAX's compilation cache
            result = jax.ShapeDtypeStruct((self._stepper.outputs,), jnp.float32)
            out = jax.pure_callback(self._stepper, result, world, vmap_method="expand_dims")
        qpos, qvel, sensordata = jnp.split(out, [self.model.nq, self.model.nq + self.model.nv])
        return protocol.next_state(state, qpos, qvel, sensordata, overflow=False)

    def with_worlds(self, num_worlds: int) -> NativePhysics:
        del num_worlds  # C MuJoCo sizes its buffers itself
        return self


def bytes_per_world(model: mujoco.MjModel) -> int:
    """Memory of the stepper's buffers, on the host."""
    buffers = _Buffers(model, 1)
    return sum(x.nbytes for x in (buffers.start, buffers.control, buffers.states, buffers.sensordata))


def _register(stepper: _BatchStepper) -> str | None:
    """Returns the name under which compiled programs find this model's stepper; None where they cannot.

    The name is the model's, so that a program from the compilation cache finds it in another process.
    """
    name = f"curious_jax_mujoco_{stepper.digest}"
    try:
        host_call.register(name, stepper.into, stepper.inputs, stepper.outputs)
    except RuntimeError:  # a jaxlib with another interface
        return None
    return name


def _cores() -> int:
    """Number of cores this process may run on; macOS tells only how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _BatchStepper:
    """float32 [..., nq + nv + ncontrol (+ 7)] → float32 [..., nq + nv + nsensordata]. numpy only inside.

    Attributes:
      inputs, outputs: the sizes of those last axes.
      hand: where the sensors have the hand's position and quaternion, which are read if cubes may sleep.
    """

    def __init__(self, model: mujoco.MjModel, num_threads: int, may_sleep: bool = False):
        self._model = model
        self._threads = num_threads
        self._data = [mujoco.MjData(model) for _ in range(num_threads)]
        self._rollout = rollout.Rollout(nthread=num_threads if num_threads > 1 else 0)
        self._lock = threading.Lock()  # the buffers serve one batch at a time
        self._buffers: _Buffers | None = None
        self._sleepers = sleep.Sleepers(model) if may_sleep else None
        self.hand = [_values(model, name) for name in sleep.HAND] if may_sleep else []
        size = model.nq + model.nv
        self._controlled = size + mujoco.mj_stateSize(model, int(_CONTROL))
        self._target = slice(size + model.nu, size + model.nu + 3)  # the mocap body's position
        self.inputs, self.outputs = self._controlled + 7 * may_sleep, size + model.nsensordata
        pose = [1.0, 0.0, 0.0, 0.0]  # of the mocap body; then the hand's
        still = np.concatenate([model.qpos0, np.zeros(model.nv + model.nu + 3), pose, [0.0, 0.0, 0.0], pose])
        self._safe_world = still[: self.inputs]

    @property
    def digest(self) -> str:
        """Hash of the model, the number of substeps, the number of threads, and whether cubes may sleep."""
        model = np.empty(mujoco.mj_sizeModel(self._model), np.uint8)
        mujoco.mj_saveModel(self._model, None, model)
        kind = "_sleep" if self._sleepers else ""
        return f"{hashlib.sha256(model.tobytes()).hexdigest()[:16]}_{protocol.SUBSTEPS}_{self._threads}{kind}"

    def __call__(self, worlds: np.ndarray) -> np.ndarray:
        """As jax.pure_callback calls it."""
        worlds = np.asarray(worlds)
        out = np.empty((*worlds.shape[:-1], self.outputs), np.float32)
        self.into(worlds, out)
        return out

    def into(self, worlds: np.ndarray, out: np.ndarray) -> None:
        """As host_call calls it: fills `out`, which is contiguous.

        Raises:
          TypeError: for arrays of another type or size.
        """
        for array, size in ((worlds, self.inputs), (out, self.outputs)):
            if array.dtype != np.float32 or array.shape != (*worlds.shape[:-1], size):
                raise TypeError(f"C physics takes float32 [..., {size}], got {array.dtype} {array.shape}")
        with self._lock:
            self._step(worlds.reshape(-1, worlds.shape[-1]), out.reshape(-1, out.shape[-1]))

    def _step(self, worlds: np.ndarray, out: np.ndarray) -> None:
        n, size = len(worlds), self._model.nq + self._model.nv
        if self._buffers is None or len(self._buffers.start) != n:
            self._buffers = _Buffers(self._model, n)
        b = self._buffers
        bad = ~np.isfinite(worlds).all(axis=1)
        if bad.any():  # MuJoCo would warn, and write a log file; step something harmless in their place
            worlds = np.where(bad[:, None], self._safe_world, worlds)
        b.start[:, 1:] = worlds[:, :size]
        b.control[:] = worlds[:, None, size : self._controlled]
        models = [self._model] * n
        if self._sleepers:
            target, hand = worlds[:, self._target], worlds[:, self._controlled :]
            models = self._sleepers.models(b.start[:, 1:], target, hand)
        self._rollout.rollout(
            models,
            self._data,
            b.start,
            b.control,
            control_spec=int(_CONTROL),
            skip_checks=True,
            nstep=protocol.SUBSTEPS,
            state=b.states,
            sensordata=b.sensordata,
            chunk_size=max(1, n // (10 * self._threads)),
        )
        out[:, :size] = b.states[:, -1, 1:]
        out[:, size:] = b.sensordata[:, -1]
        out[bad] = np.nan


def _values(model: mujoco.MjModel, sensor: str) -> slice:
    """Finds a sensor's values in sensordata."""
    found = model.sensor(sensor)
    return slice(int(found.adr[0]), int(found.adr[0] + found.dim[0]))


class _Buffers:
    """Arrays for a batch of n worlds, reused from call to call. A state is time, qpos, qvel."""

    def __init__(self, model: mujoco.MjModel, n: int):
        size = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        assert size == 1 + model.nq + model.nv, "the scene has states beyond qpos and qvel"
        self.start = np.zeros((n, size))
        self.control = np.zeros((n, protocol.SUBSTEPS, mujoco.mj_stateSize(model, int(_CONTROL))))
        self.states = np.zeros((n, protocol.SUBSTEPS, size))
        self.sensordata = np.zeros((n, protocol.SUBSTEPS, model.nsensordata))
