"""MG-ME's experts: who acts, whose turn it is, and who learns."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers.parts import assert_same, make_run, run_cycles, tiny_config

from curious_jax.learner import experts, trainer
from curious_jax.settings import ScheduleConfig
from curious_jax.types import Learner


def scaling_learner():
    """A learner whose state is one factor and whose action is the first input times that."""
    return Learner(
        lambda key: jax.random.uniform(key), lambda factor, x: factor * x[..., :1], lambda s, b: s, lambda s: s
    )


def test_each_input_is_acted_on_by_the_expert_that_its_descriptor_names():
    learner = experts.make(scaling_learner(), 3)
    inputs = jnp.array([[2.0, 0, 0, 1], [2.0, 1, 0, 0], [3.0, 0, 1, 0]])  # a number and the descriptor
    action = learner.act(jnp.array([1.0, 10.0, 100.0]), inputs)
    np.testing.assert_array_equal(action, [[200.0], [2.0], [30.0]])
    np.testing.assert_array_equal(learner.act(jnp.array([1.0, 10.0, jnp.nan]), inputs[1:]), [[2.0], [30.0]])


def test_experts_start_apart():
    assert len(np.unique(experts.make(scaling_learner(), 3).init(jax.random.key(0)))) == 3


def test_turns_last_one_epoch():
    schedule = ScheduleConfig(num_envs=8, evaluation_interval=16)  # two cycles between evaluations
    turns = [int(experts.turn(schedule, jnp.int32(cycle), 3)) for cycle in range(8)]
    assert turns == [0, 0, 1, 1, 2, 2, 0, 0]


def test_one_expert_is_picked_and_put_back():
    all_of_them = {"w": jnp.arange(6.0).reshape(3, 2), "n": jnp.array([7, 8, 9])}
    one = experts.pick(all_of_them, jnp.int32(1))
    assert_same(one, {"w": jnp.array([2.0, 3.0]), "n": jnp.array(8)})
    back = experts.put(all_of_them, jnp.int32(1), {"w": -one["w"], "n": one["n"] + 1})
    assert_same(back, {"w": jnp.array([[0.0, 1], [-2, -3], [4, 5]]), "n": jnp.array([7, 9, 9])})


def test_an_epoch_practises_one_module_and_trains_its_expert_alone():
    """Reach, push, distractor1; 8 episodes a cycle, 2 cycles an epoch; the sensor is off from episode 24 on."""
    run = make_run(
        tiny_config(algorithm="mgme", learner="td3", perturb_at=24, perturb_cube=1, perturb_shift=0.7, seed=1)
    )
    state = trainer.init(run.config, run.env)
    traces = []
    for turn in (0, 0, 1, 1, 2):
        before = state
        state, _ = run_cycles(run, state, 1)
        traces.append(run.env.traces.step)
        for expert in range(3):
            of = lambda s: experts.pick(s.learner.critics, expert)  # noqa: E731, B023
            moved = [np.any(np.asarray(a) != b) for a, b in zip(*map(jax.tree.leaves, (of(before), of(state))))]
            assert all(moved) if expert == turn else not any(moved)
    assert len(set(traces)) == 1  # turns and the shift are traced: one program
    np.testing.assert_array_equal(state.replay.module[:40], np.repeat([0, 0, 1, 1, 2], 8))
    start_x = np.asarray(state.replay.obs[:40, 0, run.env.layout.cube_position(1).start])
    assert (np.abs(start_x[:24]) <= 0.3).all()  # where objects start
    assert (np.abs(start_x[24:] - 0.7) <= 0.3).all()
