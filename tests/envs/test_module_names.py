"""The worlds' own names, and which names are left for a user's modules."""

import pytest

from curious_jax import config
from envs import module_names


@pytest.mark.parametrize(
    "name", ["reach", "push", "push12", "pnp", "pnp3", "drag", "drag2", "stack", "stack2on3", "distractor1"]
)
def test_the_worlds_own_names_are_taken(name):
    assert module_names.is_built_in(name)


@pytest.mark.parametrize("name", ["reach2", "push0", "push123", "stack2", "stackon", "distractor", "lift"])
def test_other_names_are_free(name):
    assert not module_names.is_built_in(name)


@pytest.mark.parametrize(
    ("name", "own"),
    [("push1", "push"), ("pnp1", "pnp"), ("drag1", "drag"), ("stack1on2", "stack")]
    + [(name, name) for name in ("push", "push11", "stack2on1", "distractor1", "lift1")],
)
def test_a_module_s_second_name_stands_for_its_first(name, own):
    assert module_names.canonical(name) == own


def test_learner_and_worlds_know_the_same_second_names():
    assert config.SECOND_NAMES == module_names._SECOND_NAMES
