"""The module grammar, the table's slots, and every Fetch module's outcome, goal, reward and relevance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import empty_module, fetch_obs, fetch_table, line_module, line_table

from curious_jax.types import FLAT
from envs import modules as envs_modules
from envs.fetch import modules as fetch_modules
from envs.modules import Module, ModuleTable

GRIPPER = np.array([1.3419, 0.7491, 0.5347])


@pytest.fixture
def registry(monkeypatch):
    """A registry of one's own, gone after the test."""
    monkeypatch.setattr(envs_modules, "_REGISTRY", {})


# Grammar


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("reach", ("reach", 0, 0)),
        ("push", ("push", 1, 0)),
        ("push1", ("push", 1, 0)),
        ("pnp3", ("pnp", 3, 0)),
        ("push12", ("push", 12, 0)),
        ("stack", ("stack", 1, 2)),
        ("stack1on2", ("stack", 1, 2)),
        ("stack3on1", ("stack", 3, 1)),
    ],
)
def test_names(name, parsed):
    assert fetch_modules.parse(name) == parsed


@pytest.mark.parametrize(
    "name", ["", "Reach", "reach2", "push0", "push01", "push-1", "pnp1.5", "stack2", "stackon", "push\n"]
)
def test_unknown_names_are_refused_with_the_right_forms(name):
    with pytest.raises(ValueError, match=r"modules: unknown module .*; use reach, push, pnp, stack"):
        fetch_modules.parse(name)


def test_a_cube_on_itself_is_refused():
    with pytest.raises(ValueError, match="stack2on2 puts a cube on itself"):
        fetch_modules.parse("stack2on2")


@pytest.mark.parametrize("names", [("push", "push"), ("push", "push1"), ("pnp1", "pnp"), ("stack1on2", "stack")])
def test_one_module_under_two_names_is_refused(names):
    with pytest.raises(ValueError, match="named twice"):
        fetch_table(*names)


def test_as_many_cubes_as_the_modules_name_two_at_least():
    assert fetch_modules.cubes_needed(["reach"]) == 2
    assert fetch_modules.cubes_needed(["push", "pnp3"]) == 3
    assert fetch_modules.cubes_needed(["stack2on5"]) == 5
    assert fetch_modules.cubes_needed(["stack4on1"]) == 4


# The table


def test_goal_spaces_lie_side_by_side():
    table, _ = fetch_table("reach", "push1", "stack", distractors=1)
    assert table.names == ("reach", "push", "stack", "distractor1")
    assert table.achievable == (True, True, True, False)
    assert table.goal_size == 3 + 2 + 3 + 2
    np.testing.assert_array_equal(table.slot_module, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3])
    np.testing.assert_array_equal(table.mask(jnp.int32(1)), [0, 0, 0, 1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(table.mask(jnp.array([FLAT, 3])), [[1] * 10, [0] * 8 + [1, 1]])
    np.testing.assert_array_equal(table.descriptor(jnp.array([2, FLAT])), [[0, 0, 1, 0], [0, 0, 0, 0]])


def test_outcomes_in_their_slots():
    table, layout = fetch_table("reach", "push", "pnp2", "stack", distractors=1)
    obs = fetch_obs(layout, (1, 2, 3), cube1=(4, 5, 6), cube2=(7, 8, 9), distractor1=(10, 11, 12))
    np.testing.assert_array_equal(table.outcomes(obs), [1, 2, 3, 4, 5, 7, 8, 9, 4, 5, 6, 10, 11])


def test_goals_are_uniform_in_their_space_and_zero_elsewhere():
    table, _ = fetch_table("reach", "push", "pnp", "stack", distractors=1)
    sample = jax.jit(jax.vmap(table.sample_goal, (0, None)))
    keys = jax.random.split(jax.random.key(0), 2000)
    for i, size in enumerate([3, 2, 3, 3, 2]):
        goal = np.asarray(sample(keys, jnp.int32(i)))
        mask = np.asarray(table.mask(jnp.int32(i)))
        assert (goal[:, ~mask] == 0).all()
        goal = goal[:, mask]
        assert goal.shape == (2000, size)
        if table.names[i] == "stack":
            np.testing.assert_allclose(goal[:, 2], 0.475)
            continue
        for axis, (low, high) in enumerate([*zip(GRIPPER[:2] - 0.15, GRIPPER[:2] + 0.15), (0.425, 0.875)][:size]):
            assert low - 1e-6 <= goal[:, axis].min() < low + 0.003 and high - 0.003 < goal[:, axis].max() <= high + 1e-6
            assert abs(goal[:, axis].mean() - (low + high) / 2) < 4 * (high - low) / np.sqrt(12 * 2000)
        assert len(np.unique(goal, axis=0)) > 1990


# Rewards


def reward_at(table, obs, name, *goal):
    index = table.names.index(name)
    full = jnp.zeros(table.goal_size).at[table.slots[index]].set(jnp.array(goal, jnp.float32))
    return float(jax.jit(table.reward)(obs, full, jnp.int32(index)))


@pytest.mark.parametrize(("distance", "reward"), [(0.0, 0.0), (0.0499, 0.0), (0.0501, -1.0), (np.nan, -1.0)])
@pytest.mark.parametrize("direction", [(1, 0, 0), (0, -1, 0), (0.6, 0.8, 0)])
def test_solved_within_five_centimetres(distance, reward, direction):
    table, layout = fetch_table("reach", "push", "pnp", "push2")
    at = np.array([1.3, 0.7, 0.425]) + np.multiply(distance, direction)
    obs = fetch_obs(layout, gripper=at, cube1=at, cube2=at)
    for name, goal in [
        ("reach", (1.3, 0.7, 0.425)),
        ("push", (1.3, 0.7)),
        ("pnp", (1.3, 0.7, 0.425)),
        ("push2", (1.3, 0.7)),
    ]:
        got = reward_at(table, obs, name, *goal)
        assert got == reward
        assert np.signbit(got) == (reward < 0)  # no -0.0: solved is +0


@pytest.mark.parametrize(("lift", "reward"), [(0.0, 0.0), (0.0499, 0.0), (0.0501, -1.0), (0.3, -1.0)])
def test_a_lifted_cube_is_not_pushed(lift, reward):
    table, layout = fetch_table("push")
    assert reward_at(table, fetch_obs(layout, cube1=(1.3, 0.7, 0.425 + lift)), "push", 1.3, 0.7) == reward


def test_stack_needs_the_gripper_away():
    table, layout = fetch_table("stack")
    goal = (1.3, 0.7, 0.475)
    for gripper_up, reward in [(0.0, -1.0), (0.0599, -1.0), (0.0601, 0.0), (0.2, 0.0), (np.nan, -1.0)]:
        obs = fetch_obs(layout, (1.3, 0.7, 0.475 + gripper_up), cube1=(1.3, 0.7, 0.475), cube2=(1.3, 0.7, 0.425))
        assert reward_at(table, obs, "stack", *goal) == reward
    beside = fetch_obs(layout, (1.3, 0.7, 0.9), cube1=(1.3, 0.7501, 0.475), cube2=(1.3, 0.7, 0.425))
    assert reward_at(table, beside, "stack", *goal) == -1.0
    broken = fetch_obs(layout, (1.3, 0.7, 0.9), cube1=(1.3, np.nan, 0.475), cube2=(1.3, 0.7, 0.425))
    assert reward_at(table, broken, "stack", *goal) == -1.0


def test_a_stack_goal_follows_its_base_cube():
    table, layout = fetch_table("reach", "stack2on1")
    obs = fetch_obs(layout, cube1=(1.2, 0.8, 0.4249), cube2=(1.5, 0.6, 0.42))
    goal = jnp.zeros(6).at[3:].set(7.0)
    np.testing.assert_allclose(table.goal_at(goal, jnp.int32(1), obs), [0, 0, 0, 1.2, 0.8, 0.475], atol=1e-6)
    reach = jnp.array([1.0, 2.0, 3.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(table.goal_at(reach, jnp.int32(0), obs), reach)


def test_a_distractor_is_not_solved_from_where_it_can_be():
    table, layout = fetch_table("reach", distractors=2)
    nearest = fetch_obs(layout, distractor1=(1.7, 0.75, 0.425), distractor2=(1.7, 0.75, 0.425))  # 20 steps of 5 mm in
    assert reward_at(table, nearest, "distractor2", 1.4919, 0.75) == -1.0  # the nearest goal there is


def test_a_flat_goal_is_solved_when_every_module_is():
    table = line_table(0, 1)
    reward = jax.jit(table.reward)
    goal = jnp.array([1.0, 2.0])
    assert float(reward(jnp.array([1.0, 2.0]), goal, FLAT)) == 0.0
    assert float(reward(jnp.array([1.0, 3.0]), goal, FLAT)) == -1.0
    assert float(reward(jnp.array([0.0, 2.0]), goal, FLAT)) == -1.0


# Relevance


def test_only_what_moved_is_relevant():
    table, layout = fetch_table("reach", "push", "pnp", "push2", "stack", "stack2on1")
    relevant = jax.jit(table.relevant)
    start = dict(gripper=(1.34, 0.75, 0.53), cube1=(1.2, 0.7, 0.425), cube2=(1.4, 0.8, 0.425))

    def moved(**change):
        flags = relevant(fetch_obs(layout, **start), fetch_obs(layout, **{**start, **change}))
        return {name for name, flag in zip(table.names, flags, strict=True) if flag}

    assert moved() == set()
    assert moved(gripper=(1.36, 0.75, 0.53)) == {"reach"}  # stack ignores the gripper
    assert moved(cube1=(1.2, 0.7, 0.4259)) == set()  # under 1e-3
    assert moved(cube1=(1.2, 0.7011, 0.425)) == {"push", "pnp", "stack"}
    assert moved(cube1=(1.1989, 0.7, 0.425)) == {"push", "pnp", "stack"}  # either direction
    assert moved(cube1=(1.2, 0.7, 0.4265)) == {"pnp", "stack"}  # lifted: push's outcome is x and y
    assert moved(cube2=(1.4, 0.81, 0.425)) == {"push2", "stack2on1"}  # stack's own cube did not move
    assert moved(cube1=(np.nan, 0.7, 0.425)) == set()


# Other people's modules


def test_a_module_without_a_goal():
    table = ModuleTable((line_module("a", 0), empty_module("high", 1)))
    assert table.goal_size == 1
    np.testing.assert_array_equal(table.mask(jnp.int32(1)), [False])
    np.testing.assert_array_equal(table.sample_goal(jax.random.key(0), jnp.int32(1)), [0.0])
    assert float(table.reward(jnp.array([0.0, 2.0]), jnp.zeros(1), jnp.int32(1))) == 0.0
    assert float(table.reward(jnp.array([0.0, 0.5]), jnp.zeros(1), jnp.int32(1))) == -1.0
    still, moved = jnp.array([0.0, 0.0]), jnp.array([0.0, 0.5])
    assert table.relevant(still, moved).tolist() == [False, True]
    assert table.relevant(still, still).tolist() == [False, False]


def test_only_modules_without_goals():
    table = ModuleTable((empty_module("high", 0), empty_module("higher", 1)))
    assert table.goal_size == 0
    goal = table.sample_goal(jax.random.key(0), jnp.int32(0))
    assert goal.shape == (0,)
    assert float(table.reward(jnp.array([2.0, 0.0]), goal, jnp.int32(0))) == 0.0
    assert table.outcomes(jnp.zeros(2)).shape == (0,)


def test_a_module_with_nothing_to_compare_takes_every_episode():
    blind = Module("blind", 0, lambda obs: obs[:0], lambda key: jnp.zeros(0), lambda obs, goal: obs[0] > 0)
    assert ModuleTable((blind,)).relevant(jnp.zeros(1), jnp.zeros(1)).tolist() == [True]


def test_registered_modules_stand_beside_the_others(registry):
    def build(layout):
        height = layout.cube_position(3).start + 2
        return Module(
            name="lift3",
            goal_size=1,
            outcome=lambda obs: obs[height : height + 1],
            sample_goal=lambda key: jax.random.uniform(key, (1,), minval=0.5, maxval=0.6),
            solved=lambda obs, goal: obs[height] > goal[0],
        )

    envs_modules.register("lift3", build, cubes=3)
    table, layout = fetch_table("lift3", "push")
    assert (layout.num_cubes, table.names, table.goal_size) == (3, ("lift3", "push"), 3)
    assert reward_at(table, fetch_obs(layout, cube3=(1.3, 0.7, 0.56)), "lift3", 0.55) == 0.0
    assert reward_at(table, fetch_obs(layout, cube3=(1.3, 0.7, 0.54)), "lift3", 0.55) == -1.0
    with pytest.raises(ValueError, match="lift3"):  # the list of right values names it
        fetch_modules.parse("lift4")


@pytest.mark.parametrize("name", ["", "a,b", "a b", "a=b"])
def test_names_that_the_command_line_could_not_say_are_refused(registry, name):
    with pytest.raises(ValueError, match="letters, digits"):
        envs_modules.register(name, lambda layout: line_module(name, 0))


def test_the_parts_of_a_flat_goal_are_drawn_on_their_own():
    goal = line_table(0, 1, 2).sample_goal(jax.random.key(0), FLAT)
    assert len(np.unique(goal)) == 3
