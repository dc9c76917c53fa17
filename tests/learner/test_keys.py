"""Keys split ahead: the same numbers come of them."""

import jax
import numpy as np
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax.learner import batches, keys, trainer


def test_a_key_split_ahead_gives_the_same_keys():
    key = jax.random.key(3)
    first, second = keys.split(keys.ahead(key, 2, 3))
    plain = jax.random.split(key)
    for one, other, number in ((first, plain[0], 2), (second, plain[1], 3)):
        assert keys.whole(one) == other == keys.whole(other)
        assert keys.split(one, number) == tuple(jax.random.split(other, number))


@pytest.mark.parametrize("settings", [{"mirror": True}, {"replay": "own"}, {"substitution": "drawn"}])
def test_batches_are_the_same(settings):
    run = make_run(tiny_config(**settings))
    state = trainer.init(run.config, run.env)
    wanted = np.arange(run.config.schedule.batch_size) % run.env.modules.num_modules
    draw = batches.make(run, state.replay, state.normalizer, wanted)
    key = jax.random.key(1)
    jax.tree.map(np.testing.assert_array_equal, draw(key), draw(batches.split(key)))
