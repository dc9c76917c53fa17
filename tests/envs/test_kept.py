"""Functions that are traced once and kept (envs/physics/kept.py)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from envs.physics import kept


@pytest.fixture(autouse=True)
def cache(tmp_path):
    """JAX's cache in a folder of the test's own."""
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)


class Counted:
    """x [3], y [] -> x times y, and y; knows how often it was traced."""

    def __init__(self, factor=1.0):
        self.traced, self.factor = 0, factor

    def __call__(self, x, y):
        self.traced += 1
        return self.factor * x * y, y


X, Y = jnp.arange(24.0).reshape(2, 4, 3), jnp.arange(8.0).reshape(2, 4)


def test_vmapped_over_any_axes_it_is_the_function_itself():
    function = kept.over_worlds(Counted(), b"")
    for axes, pick in ((0, (0, 0)), (1, (0,)), (2, ())):
        mapped = function
        for _ in range(axes):
            mapped = jax.vmap(mapped)
        x, y = X[pick], Y[pick]
        product, same = jax.jit(mapped)(x, y)
        np.testing.assert_array_equal(product, x * y[..., None])
        np.testing.assert_array_equal(same, y)
    product, _ = jax.vmap(function, (0, None))(X[0], 2.0 * jnp.ones(()))
    np.testing.assert_array_equal(product, 2 * X[0])


def test_the_next_start_does_not_trace(cache):
    first, second = Counted(), Counted()
    jax.vmap(kept.over_worlds(first, b"same"))(X[0], Y[0])
    assert first.traced == 1  # for one world and for four
    product, _ = jax.vmap(kept.over_worlds(second, b"same"))(X[0], Y[0])
    assert second.traced == 0
    np.testing.assert_array_equal(product, X[0] * Y[0][:, None])


def test_other_content_is_traced_anew(cache):
    jax.vmap(kept.over_worlds(Counted(), b"one"))(X[0], Y[0])
    product, _ = jax.vmap(kept.over_worlds(Counted(3.0), b"three"))(X[0], Y[0])
    np.testing.assert_array_equal(product, 3 * X[0] * Y[0][:, None])


@pytest.mark.parametrize("damage", [b"", b"not a program", None])
def test_a_damaged_file_is_traced_and_written_anew(cache, damage):
    jax.vmap(kept.over_worlds(Counted(), b""))(X[0], Y[0])
    kept_files = {path: path.read_bytes() for path in cache.glob("traced-*")}
    for path, whole in kept_files.items():
        path.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    again = Counted()
    product, _ = jax.vmap(kept.over_worlds(again, b""))(X[0], Y[0])
    assert again.traced == 1
    np.testing.assert_array_equal(product, X[0] * Y[0][:, None])
    for path, whole in kept_files.items():
        assert path.read_bytes() == whole


def test_without_a_cache_nothing_is_kept(cache):
    jax.config.update("jax_compilation_cache_dir", None)
    product, _ = jax.vmap(kept.over_worlds(Counted(), b""))(X[0], Y[0])
    np.testing.assert_array_equal(product, X[0] * Y[0][:, None])
    assert not list(cache.iterdir())


def test_a_folder_that_cannot_be_written_does_no_harm(cache):
    (cache / "file").write_text("")
    jax.config.update("jax_compilation_cache_dir", str(cache / "file" / "below"))
    product, _ = jax.vmap(kept.over_worlds(Counted(), b""))(X[0], Y[0])
    np.testing.assert_array_equal(product, X[0] * Y[0][:, None])


def test_it_runs_on_several_devices():
    mesh = Mesh(jax.devices(), ("devices",))
    function = jax.vmap(kept.over_worlds(Counted(), b""))
    count = 4 * mesh.size
    x, y = jnp.ones((count, 3)), jnp.arange(float(count))
    sharded = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("devices"), out_specs=P("devices")))
    product, _ = sharded(x, y)
    np.testing.assert_array_equal(product, x * y[:, None])


def test_what_jax_does_not_keep_runs_all_the_same(cache):
    def callback(x):
        return (
            jax.pure_callback(lambda v: 2 * v, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims"),
        )

    (double,) = jax.vmap(kept.over_worlds(callback, b""))(X[0])
    np.testing.assert_array_equal(double, 2 * X[0])
    assert not list(cache.glob("traced-*"))
