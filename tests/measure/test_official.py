"""A policy before an official environment: which of its modules is asked, and with which goal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, tiny_config

from curious_jax import errors
from curious_jax.learner.state import init_one, make_policy, policy_params
from curious_jax.measure import official as judge


def fetch_run(*modules, **settings):
    return make_run(tiny_config(world="fetch", physics="c", modules=modules, distractors=0, **settings))


def test_the_policy_is_asked_for_its_module_s_goal():
    run = fetch_run("reach", "push", "pnp")
    policy = policy_params(jax.eval_shape(lambda: init_one(run, 0)))
    policy = jax.tree.map(lambda x: jnp.full(x.shape, 0.03, x.dtype), policy)
    policy = policy.replace(
        actor=jax.tree.map(lambda x: 0.1 * jax.random.normal(jax.random.key(x.size), x.shape), policy.actor)
    )
    rng = np.random.default_rng(0)
    obs, target = (
        rng.normal(size=(2, 40)).astype(np.float32),
        np.array([[1.3, 0.7, 0.425], [1.4, 0.8, 0.6]], np.float32),
    )
    acting = make_policy(run, policy)
    slots = {"FetchReach-v4": (0, 3), "FetchPush-v4": (3, 2), "FetchPickAndPlace-v4": (5, 3)}
    for index, (name, (first, size)) in enumerate(slots.items()):
        assert judge.find_module(name, run) == index
        goal = np.zeros((2, 8), np.float32)
        goal[:, first : first + size] = target[:, :size]
        expected = acting(obs, goal, jnp.full(2, index))
        found = judge.make_act(run, policy, index, None)(obs, target)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        shifted = judge.make_act(run, policy, index, jnp.full(40, 0.3))(obs, target)
        np.testing.assert_allclose(shifted, acting(obs + 0.3, goal, jnp.full(2, index)), atol=1e-6)


def test_runs_that_cannot_be_asked_are_refused():
    with pytest.raises(
        errors.ConfigError, match="asks for pnp, which this run did not learn; its modules: reach, push"
    ):
        judge.find_module("FetchPickAndPlace-v4", fetch_run("reach", "push"))
    with pytest.raises(errors.ConfigError, match="--algorithm her has one goal for all"):
        judge.find_module("FetchReach-v4", fetch_run("reach", "push", algorithm="her"))
    assert judge.find_module("FetchReach-v4", fetch_run("reach", algorithm="her")) == 0


def test_the_table_shows_both_worlds():
    there = judge.describe(3, 4) | {"any_step_success": 1.0}
    result = {"env": "FetchPush-v4", "module": "push", "episodes": 4, "official": there, "ours": judge.describe(4, 4)}
    text = judge.table(result | {"difference": -0.25})
    rows = [line.split() for line in text.splitlines()]
    assert rows[1][:2] == ["FetchPush-v4", "0.750"] and rows[1][-2:] == ["4", "1.000"]
    assert rows[2][:3] == ["our", "push", "1.000"] and rows[3] == ["difference", "-0.250"]


def test_each_world_has_its_own_number_of_episodes():
    here = judge.describe(400, 512)
    assert (here["successes"], here["episodes"], here["success"]) == (400, 512, 400 / 512)
    there = judge.describe(150, 300) | {"any_step_success": 1.0}
    result = {"env": "FetchPush-v4", "module": "push", "episodes": 300, "official": there, "ours": here}
    rows = [line.split() for line in judge.table(result | {"difference": -0.28}).splitlines()]
    assert "300" in rows[1] and rows[2][-1] == "512"
