"""Host functions under a name: values, leading axes, errors; and programs with C physics stay in JAX's cache."""

import os
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from envs.physics import host_call


def first_two_doubled(x, out):
    if (x < 0).any():
        raise ValueError("negative – refused")
    out[...] = 2 * x[..., :2]


@pytest.fixture
def doubled():
    """A function of one row, by the host."""
    host_call.register("test_first_two_doubled", first_two_doubled, 4, 2)
    return lambda row: host_call.call("test_first_two_doubled", row)


def test_values_and_leading_axes(doubled):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.testing.assert_array_equal(jax.jit(doubled)(x[0, 1]), [8, 10])
    np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(doubled)))(x), 2 * x[..., :2])


def test_what_the_host_function_raises_is_said(doubled):
    with pytest.raises(jax.errors.JaxRuntimeError, match="test_first_two_doubled: ValueError: negative – refused"):
        jax.block_until_ready(jax.jit(doubled)(-jnp.ones(4)))
    np.testing.assert_array_equal(jax.jit(doubled)(jnp.ones(4)), [2, 2])


def test_a_name_keeps_its_function(doubled):
    host_call.register("test_first_two_doubled", lambda x, out: out.fill(7.0), 4, 2)
    np.testing.assert_array_equal(jax.jit(doubled)(jnp.ones(4)), [2, 2])


@pytest.mark.parametrize("x", [jnp.zeros(3), jnp.zeros((2, 4)), jnp.zeros(4, jnp.int32)])
def test_another_type_or_shape_is_refused_when_the_program_is_traced(doubled, x):
    with pytest.raises(TypeError, match=r"test_first_two_doubled: takes float32 \[4\], got"):
        jax.jit(doubled)(x)


@pytest.mark.parametrize("given", [[3, 5], [2, 4], "int32", "float64", "two"])
def test_buffers_of_another_type_shape_or_number_are_refused_when_it_is_called(doubled, given):
    """As a program from a cache might bring them."""
    with jax.enable_x64(True):
        shape, dtype = (
            (given, "float32") if isinstance(given, list) else ((3, 4), "float32" if given == "two" else given)
        )
        arrays = [jnp.ones(shape, dtype)] * (2 if given == "two" else 1)
        call = jax.ffi.ffi_call("test_first_two_doubled", jax.ShapeDtypeStruct((3, 2), jnp.float32))
        with pytest.raises(jax.errors.JaxRuntimeError, match="test_first_two_doubled: .*(one float32 buffer|axes)"):
            jax.block_until_ready(jax.jit(call)(*arrays))


STEP = """
import jax, jax.numpy as jnp
from jax._src import monitoring
from curious_jax.cli import start
import envs

hits = []
monitoring.register_event_listener(lambda name, **_: hits.append(name) if name.endswith("cache_hits") else None)
start.keep_compiled(None)
env = envs.make(modules=("reach",), physics="c").with_worlds(2)
state, action = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2)), jnp.ones((2, 4))
lowered = jax.jit(jax.vmap(env.step)).lower(state, action)
hits.clear()
step = lowered.compile()
print(len(hits), step(state, action).obs[:, :3].tolist())
"""


def test_another_process_finds_the_compiled_c_physics(tmp_path):
    """JAX's cache refuses programs with callbacks; this one it takes, and it does the same."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_COMPILATION", "JAX_PERSISTENT"))}
    env |= {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    first, second = (
        subprocess.run([sys.executable, "-c", STEP], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert list((tmp_path / "curious_jax").glob("*-cache"))
    assert (first[0], second[0]) == ("0", "1")
    assert first[1:] == second[1:]


LEAVE = """
import sys, time
import jax, jax.numpy as jnp, numpy as np
from envs.physics import host_call

host_call.register("slow", lambda x, out: (time.sleep(0.005), np.copyto(out, x)), 8, 8)
work = jnp.ones((512, 512))  # XLA runs what is cheap at once


@jax.jit
def loop(x, y):
    body = lambda _, c: (host_call.call("slow", c[0]), c[1] @ work / 512)
    return jax.lax.fori_loop(0, 2000, body, (x, y))


began = time.monotonic()
under_way = loop(jnp.zeros(8, jnp.float32), work)
assert time.monotonic() - began < 5, "not under way"
time.sleep(0.2)
if sys.argv[1] != "held":
    del under_way
print("leaving", flush=True)
if sys.argv[1] == "raised":
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize(("way", "status"), [("held", 0), ("dropped", 0), ("raised", -signal.SIGINT)])
def test_python_may_end_while_a_program_still_calls(way, status):
    """It used to end in a crash, or not at all."""
    command, began = [sys.executable, "-c", LEAVE, way], time.monotonic()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (status, "leaving\n"), done.stderr
    assert "Segmentation" not in done.stderr and "Fatal" not in done.stderr
    assert time.monotonic() - began < 50
