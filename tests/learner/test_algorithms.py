"""What differs between the algorithms: HER's flat goal; of MG-ME's experts who acts, whose turn it is, who learns."""

import jax
import jax.numpy as jnp
import numpy as np
from helpers.parts import assert_same, make_run, run_cycles, tiny_config

from curious_jax.config import ScheduleConfig, make_config
from curious_jax.learner import trainer
from curious_jax.learner.algorithms import ALGORITHMS, CURIOUS, HER, MGME, ExpertsState
from curious_jax.types import FLAT, Learner


def scaling_learner():
    """A learner whose state is one factor and whose action is the first input times that."""
    return Learner(
        lambda key: jax.random.uniform(key), lambda factor, x: factor * x[..., :1], lambda s, b: s, lambda s: s
    )


def test_each_algorithm_asks_for_modules_in_its_own_way():
    module, turn = jnp.array([0, 2, 1], jnp.int32), jnp.int32(1)
    asked = {name: (a.practise(module, turn), a.replay(module, turn), a.test(module)) for name, a in ALGORITHMS.items()}
    same, flat, expert = module, jnp.full(3, FLAT, jnp.int32), jnp.full(3, 1, jnp.int32)
    assert_same(asked, {
        "curious": (same, same, same), "muvfa": (same, same, same),
        "her": (flat, same, flat), "mgme": (expert, expert, same),
    })  # fmt: skip


def test_only_experts_are_picked_and_put_back():
    for algorithm in (CURIOUS, HER):
        assert algorithm.pick("whole", 1) == "whole" and algorithm.put("whole", 1, "updated") == "updated"


def test_each_input_is_acted_on_by_the_expert_that_its_descriptor_names():
    learner = MGME.extend(scaling_learner(), 3)
    inputs = jnp.array([[2.0, 0, 0, 1], [2.0, 1, 0, 0], [3.0, 0, 1, 0]])  # a number and the descriptor
    action = learner.act(jnp.array([1.0, 10.0, 100.0]), inputs)
    np.testing.assert_array_equal(action, [[200.0], [2.0], [30.0]])
    np.testing.assert_array_equal(learner.act(jnp.array([1.0, 10.0, jnp.nan]), inputs[1:]), [[2.0], [30.0]])


def test_experts_start_apart():
    assert len(np.unique(MGME.extend(scaling_learner(), 3).init(jax.random.key(0)).experts)) == 3


def turns(schedule, order, cycles, modules=3):
    return [int(MGME.turn(ExpertsState(None, order), schedule, jnp.int32(cycle), modules)) for cycle in range(cycles)]


def test_a_turn_lasts_the_experts_epoch_whatever_the_evaluation_interval():
    order = jax.random.key(0)
    schedule = ScheduleConfig(num_envs=8, expert_epoch=16)  # two cycles a turn
    found = turns(schedule, order, 12)
    assert found[::2] == found[1::2] and sorted(found[:6]) == sorted(found[6:]) == [0, 0, 1, 1, 2, 2]
    for interval in (8, 80, 10_240):
        assert turns(ScheduleConfig(num_envs=8, expert_epoch=16, evaluation_interval=interval), order, 12) == found
    assert turns(ScheduleConfig(num_envs=2048, expert_epoch=1000), order, 3)[0] == found[0]  # one cycle at least
    paper = make_config(preset="paper", algorithm="mgme").schedule
    assert (paper.expert_epoch, paper.cycles_per_expert) == (950, 25)


def test_each_round_gives_every_expert_one_turn_in_a_random_order_of_its_own():
    schedule = ScheduleConfig(num_envs=8, expert_epoch=8)
    rounds = np.array(turns(schedule, jax.random.key(5), 60)).reshape(20, 3)
    assert (np.sort(rounds, axis=1) == [0, 1, 2]).all()
    assert len(np.unique(rounds, axis=0)) == 6  # all orders occur in 20 rounds
    assert set(rounds[:, 0]) == {0, 1, 2}  # no module is always first
    other = np.array(turns(schedule, jax.random.key(6), 60)).reshape(20, 3)
    assert (rounds != other).any()  # seeds have orders of their own


def test_one_expert_is_picked_and_put_back():
    key = jax.random.key(0)
    all_of_them = ExpertsState({"w": jnp.arange(6.0).reshape(3, 2), "n": jnp.array([7, 8, 9])}, key)
    one = MGME.pick(all_of_them, jnp.int32(1))
    assert_same(one, {"w": jnp.array([2.0, 3.0]), "n": jnp.array(8)})
    back = MGME.put(all_of_them, jnp.int32(1), {"w": -one["w"], "n": one["n"] + 1})
    assert back.order is key
    assert_same(back.experts, {"w": jnp.array([[0.0, 1], [-2, -3], [4, 5]]), "n": jnp.array([7, 9, 9])})


def test_an_epoch_practises_one_module_and_trains_its_expert_alone():
    """Reach, push, distractor1; 8 episodes a cycle, 2 cycles a turn; the sensor is off from episode 24 on."""
    run = make_run(
        tiny_config(
            algorithm="mgme", learner="td3", perturb_at=24, perturb_cube=1, perturb_shift=0.7, seed=1, expert_epoch=16
        )
    )
    state = trainer.init(run.config, run.env)
    expected = turns(run.config.schedule, state.learner.order, 5)
    traces = []
    for turn in expected:
        before = state
        state, _ = run_cycles(run, state, 1)
        traces.append(run.env.traces.step)
        for expert in range(3):
            of = lambda s: MGME.pick(s.learner, expert).critics  # noqa: E731, B023
            moved = [np.any(np.asarray(a) != b) for a, b in zip(*map(jax.tree.leaves, (of(before), of(state))))]
            assert all(moved) if expert == turn else not any(moved)
    assert len(set(traces)) == 1  # turns and the shift are traced: one program
    np.testing.assert_array_equal(state.replay.module[:40], np.repeat(expected, 8))
    start_x = np.asarray(state.replay.obs[:40, 0, run.env.layout.cube_position(1).start])
    assert (np.abs(start_x[:24]) <= 0.3).all()  # where objects start
    assert (np.abs(start_x[24:] - 0.7) <= 0.3).all()
