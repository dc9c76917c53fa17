"""Host functions that compiled programs call by name, through XLA's C interface for foreign functions (FFI).

`jax.pure_callback` would do, but JAX refuses to keep programs with callbacks in its compilation cache, and hands each
batch over as JAX arrays. A target of the FFI is a name, so that such programs are cached, and reads and writes XLA's
own buffers. The structures below are the part of `xla/ffi/api/c_api.h` (in jaxlib's include folder) that is needed;
XLA keeps them binary compatible within one major version.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

HostFunction = Callable[[np.ndarray, np.ndarray], None]
"""(input [..., n], output [..., m]), float32: fills output. Views of XLA's memory, gone when the call returns."""

_VERSION = 0, 1  # of the interface; structures only grow at their ends within one major version
_METADATA = 1  # XLA asks for the version, in place of a call
_INTERNAL = 13  # error code
_FLOAT32 = 11  # of XLA_FFI_DataType


class _Extension(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p))


_HEADER = (("struct_size", ctypes.c_size_t), ("extension", ctypes.POINTER(_Extension)))  # of every structure


class _ApiVersion(ctypes.Structure):
    _fields_ = (*_HEADER, ("major", ctypes.c_int), ("minor", ctypes.c_int))


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("version", _ApiVersion))


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


class _Buffer(ctypes.Structure):
    _fields_ = (
        *_HEADER,
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class _Buffers(ctypes.Structure):
    _fields_ = (
        *_HEADER,
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _ErrorArguments(ctypes.Structure):
    _fields_ = (*_HEADER, ("message", ctypes.c_char_p), ("code", ctypes.c_int))


_CreateError = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorArguments))


class _Api(ctypes.Structure):
    _fields_ = (*_HEADER, ("version", _ApiVersion), ("internal", ctypes.c_void_p), ("create_error", _CreateError))


class _CallFrame(ctypes.Structure):
    _fields_ = (
        *_HEADER,
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_CallFrame))
_targets: dict[str, tuple[Any, int, int]] = {}  # handler, n, m; XLA keeps their addresses as long as the process lives
_leaving, _refused = threading.Event(), threading.Event()  # Python ends, so calls are refused; one has been
_last_call = -math.inf  # s, of time.monotonic


def register(name: str, function: HostFunction, inputs: int, outputs: int) -> None:
    """Makes `function` callable as `name` on the CPU; a name that is taken keeps the function it has.

    Args:
      inputs, outputs: n and m, the last axes of what it reads and fills. Every call is held to them.
    Raises:
      RuntimeError: when this jaxlib's interface is another one.
    """
    if name in _targets:
        return

    def handle(frame: Any) -> int | None:
        if frame.contents.extension and frame.contents.extension.contents.type == _METADATA:
            extension = ctypes.cast(frame.contents.extension, ctypes.POINTER(_MetadataExtension)).contents
            extension.metadata.contents.version.major, extension.metadata.contents.version.minor = _VERSION
            return None
        global _last_call
        if _leaving.is_set():
            _refused.set()
            return _error(frame.contents.api, f"{name}: Python is ending")
        _last_call = time.monotonic()
        try:
            x, out = _view(frame.contents.arguments, inputs), _view(frame.contents.results, outputs)
            if x.shape[:-1] != out.shape[:-1]:
                raise ValueError(f"leading axes {x.shape[:-1]} in, {out.shape[:-1]} out: they must be the same")
            function(x, out)
        except BaseException as error:  # must not leave through C
            return _error(frame.contents.api, f"{name}: {type(error).__name__}: {error}")
        return None

    handler = _Handler(handle)
    try:
        capsule = jax.ffi.pycapsule(ctypes.cast(handler, ctypes.c_void_p).value)
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    except Exception as error:
        raise RuntimeError(f"{name}: XLA does not take it as a foreign function ({error})") from error
    _targets[name] = handler, inputs, outputs


def call(name: str, x: jax.Array) -> jax.Array:
    """`x` float32 [n] → float32 [m], by the host function; leading axes added by vmap arrive as they are.

    Raises:
      TypeError: when `x` has another type or shape.
    """
    _, inputs, outputs = _targets[name]
    if x.dtype != np.float32 or x.shape != (inputs,):
        raise TypeError(f"{name}: takes float32 [{inputs}], got {x.dtype} {list(x.shape)}")
    return jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((outputs,), np.float32), vmap_method="expand_dims")(x)


@atexit.register
def _leave() -> None:
    """Ends the programs under way before Python ends: a call into Python after that would crash or hang the process.

    JAX dispatches programs without waiting for them, so that a script may come to its end while one still steps
    physics. Such a program is stopped at its next call. One whose results nobody holds any more cannot be asked for:
    it is given a moment to call, a longer one where an exception, such as Ctrl-C's, ended the script.
    """
    _leaving.set()
    if _last_call == -math.inf:
        return
    for array in jax.live_arrays():
        with contextlib.suppress(Exception):  # stopped
            array.block_until_ready()
    moment = 3.0 if hasattr(sys, "last_type") else 0.3
    if _refused.wait(max(0.0, _last_call + moment - time.monotonic())):
        time.sleep(0.1)  # for the program to unwind


def _view(buffers: _Buffers, size: int) -> np.ndarray:
    """The only buffer as an array [..., size], without a copy.

    Raises:
      TypeError: when there are several, or it has another type or shape.
    """
    buffer = buffers.buffers[0].contents
    shape = tuple(buffer.dims[: buffer.rank])
    if (buffers.size, buffer.dtype, shape[-1:]) != (1, _FLOAT32, (size,)):
        given = f"{buffers.size} buffers, of which the first has type {buffer.dtype} and shape {shape}"
        raise TypeError(f"takes one float32 buffer [..., {size}] (type {_FLOAT32}), got {given}")
    memory: Any = (ctypes.c_float * math.prod(shape)).from_address(buffer.data)
    return np.frombuffer(memory, np.float32).reshape(shape)


def _error(api: Any, message: str) -> int:
    arguments = _ErrorArguments(struct_size=ctypes.sizeof(_ErrorArguments), message=message.encode(), code=_INTERNAL)
    return api.contents.create_error(ctypes.byref(arguments))
