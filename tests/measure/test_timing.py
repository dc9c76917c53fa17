"""What is measured about a cycle's program, and that it changes the store in place."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax.learner import replay, trainer
from curious_jax.learner.state import init_one
from curious_jax.measure import timing


def test_repeat_leaves_the_first_call_out():
    calls = []
    mean = timing.repeat(lambda: calls.append(1) or jnp.zeros(()), 1e-9)
    assert len(calls) == 2 and mean > 0


def test_a_filled_store_serves_every_module():
    store = timing.fill(replay.init(6, 3, 2, 1, 1, 2))
    slot, t = replay.sample(store, jax.random.key(0), jnp.tile(jnp.arange(2), 100))
    assert set(np.asarray(slot)) == set(range(6)) and set(np.asarray(t)) == set(range(3))


@pytest.mark.slow
def test_a_cycle_makes_no_copy_of_the_store():
    run = make_run(tiny_config(capacity=4000))
    shapes = jax.eval_shape(lambda: init_one(run, jnp.int32(0)))
    store = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(shapes.replay))
    memory = trainer.compile_epoch(run, shapes).memory_analysis()
    assert memory.alias_size_in_bytes > store
    assert memory.temp_size_in_bytes < store / 4


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="about products on CPUs")
@pytest.mark.parametrize("eigen", [False, True])
def test_what_is_timed_is_compiled_as_training_is(eigen):
    config = tiny_config(eigen=eigen)
    program, _ = timing.compile_for(config, lambda x: x @ x, jnp.ones((256, 256)))
    assert ("ynn_fusion" in program.as_text()) is not eigen
