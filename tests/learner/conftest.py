"""A batch for small networks."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers.learners import ACTIONS, BATCH, INPUTS

from curious_jax.types import LearnerBatch


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    draw = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)  # noqa: E731
    return LearnerBatch(
        draw(BATCH, INPUTS), jnp.tanh(draw(BATCH, ACTIONS)), -jnp.ones(BATCH).at[2].set(0.0), draw(BATCH, INPUTS)
    )
