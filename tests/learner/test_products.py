"""Which library computes matrix products on CPUs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax.learner import products, trainer
from curious_jax.learner.state import no_metrics

on_cpu = pytest.mark.skipif(jax.default_backend() != "cpu", reason="about products on CPUs")


@on_cpu
def test_eigen_is_asked_for_on_cpus_alone(monkeypatch):
    assert products.compiler_options(tiny_config(eigen=False)) is None
    assert products.compiler_options(tiny_config(eigen=True)) == products.EIGEN
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert products.compiler_options(tiny_config(eigen=True)) is None


@on_cpu
def test_an_xla_that_does_not_know_the_option_is_left_alone(monkeypatch):
    monkeypatch.setattr(products, "EIGEN", {"xla_cpu_no_such_option": ""})
    products._can_be_told.cache_clear()
    try:
        assert products.compiler_options(tiny_config(eigen=True)) is None
    finally:
        products._can_be_told.cache_clear()


@on_cpu
@pytest.mark.slow
def test_a_cycle_with_eigen_asks_ynnpack_for_nothing_and_learns_the_same():
    ended, asked = {}, {}
    for eigen in (False, True):
        run = make_run(tiny_config(eigen=eigen, hidden_size=64, batch_size=64))
        program = trainer.compile_epoch(run, trainer.init(run.config, run.env))
        asked[eigen] = "ynn_fusion" in program.as_text()
        state, _ = program(trainer.init(run.config, run.env), no_metrics(run.config), jnp.int32(1))
        ended[eigen] = jax.device_get(state.learner.actor)
    assert asked == {False: True, True: False}
    for one, other in zip(jax.tree.leaves(ended[False]), jax.tree.leaves(ended[True]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-3)
