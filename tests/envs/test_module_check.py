"""A slip in a registered module is one line that names the part, before anything runs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import line_module

from envs import modules as envs_modules
from envs import point
from envs.errors import ArgumentError
from envs.modules import Guide, Module

SOUND = line_module("mine", 0)


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """A registry of one's own, gone after the test."""
    monkeypatch.setattr(envs_modules, "_REGISTRY", {})


def build(module, names=("reach", "mine")):
    envs_modules.register("mine", lambda layout: module)
    return point.create(names).modules


def refusal(**parts):
    with pytest.raises(ArgumentError) as error:
        build(dataclasses.replace(SOUND, **parts))
    return error.value.message


def yes(obs, goal):
    return obs[0] < 1.0


def test_a_module_with_every_part_is_taken():
    guide = Guide("reach", lambda obs, goal: obs[2:4], yes)
    module = dataclasses.replace(
        SOUND,
        guides=(guide,),
        mirror=lambda goal: -goal,
        interest=lambda obs: obs[:3],
        place=lambda goal, obs: obs[:2],
    )
    assert build(module).names == ("reach", "mine")


@pytest.mark.parametrize(
    ("part", "function"),
    [
        ("outcome", lambda obs: obs[:2]),
        ("sample_goal", lambda key: jax.random.uniform(key)),
        ("goal_at", lambda goal, obs: obs[:2]),
        ("mirror", lambda goal: goal[0]),
    ],
)
def test_a_goal_of_another_size_is_named_with_both_shapes(part, function):
    message = refusal(**{part: function})
    assert message.startswith(f"mine: {part} gives shape (") and message.endswith("must be (1,), as goal_size says")


@pytest.mark.parametrize(
    ("solved", "given"),
    [
        (lambda obs, goal: jnp.abs(obs[:2] - goal) < 0.1, "bool of shape (2,)"),
        (lambda obs, goal: -jnp.abs(obs[0] - goal[0]), "float32 of shape ()"),
    ],
)
def test_solved_is_one_bool(solved, given):
    assert refusal(solved=solved) == f"mine: solved gives {given}; it must be one bool"


def test_what_is_solved_where_nothing_is_known_is_refused():
    message = refusal(solved=lambda obs, goal: ~(jnp.abs(obs[0] - goal[0]) > 0.1))
    assert message.startswith("mine: solved is True where the observation is NaN")


def test_interest_and_place_have_their_axes():
    assert refusal(interest=lambda obs: obs[0]).startswith("mine: interest gives shape (); it must be [k]")
    assert refusal(place=lambda goal, obs: goal).startswith("mine: place gives shape (1,); it must be (2,) or (3,)")


def test_guides_are_a_tuple_and_give_goals_of_the_module_that_acts():
    guide = Guide("reach", lambda obs, goal: obs[:3], yes)
    assert "guides must be a tuple" in refusal(guides=guide)
    message = refusal(guides=(guide,))
    assert message == "mine: the goal for its guide reach gives shape (3,); it must be (2,), as a goal of reach has"
    arrays = Guide("reach", lambda obs, goal: obs[:2], lambda obs, goal: obs[:2] < 1.0)
    assert "a guide's acts gives bool of shape (2,)" in refusal(guides=(arrays,))


def test_a_guide_that_is_not_in_the_run_may_have_any_goal():
    guide = Guide("pnp", lambda obs, goal: obs[:3], yes)
    assert build(dataclasses.replace(SOUND, guides=(guide,))).names == ("reach", "mine")


@pytest.mark.parametrize(("named", "kept"), [("drag1", "drag"), ("drag", "drag1")])
def test_a_guide_may_be_named_by_either_name_of_its_module(named, kept):
    guide = Guide(named, lambda obs, goal: obs[2:4], yes)
    table = build(dataclasses.replace(SOUND, guides=(guide,)), (kept, "mine"))
    acting, goal = table.guide(jnp.arange(6) / 10, jnp.zeros(3), jnp.int32(1))
    assert acting == 0
    np.testing.assert_allclose(goal, [0.2, 0.3, 0.0], atol=1e-6)
    wide = dataclasses.replace(guide, goal=lambda obs, goal: obs[:3])
    with pytest.raises(ArgumentError, match="as a goal of drag1? has"):
        build(dataclasses.replace(SOUND, guides=(wide,)), (kept, "mine"))


def test_a_guide_whose_name_nobody_knows_is_refused():
    guide = Guide("raech", lambda obs, goal: obs[2:4], yes)
    message = refusal(guides=(guide,))
    assert message == "mine: its guide names 'raech', which is no module; name one such as reach, or register it"
    envs_modules.register("raech", lambda layout: line_module("raech", 0))
    assert build(dataclasses.replace(SOUND, guides=(guide,))).names == ("reach", "mine")


@pytest.mark.parametrize("name", ["reach", "push", "push2", "pnp1", "stack", "stack1on2", "drag9", "distractor1"])
def test_a_name_of_the_worlds_own_modules_is_not_taken(name):
    with pytest.raises(
        ArgumentError, match=f"the worlds have a module of this name; take another name, such as my-{name}"
    ):
        envs_modules.register(name, lambda layout: SOUND)


def test_python_where_jax_is_needed_is_named_by_file_and_line():
    def solved(obs, goal):
        return bool(obs[0] < 1.0)

    line = solved.__code__.co_firstlineno + 1
    assert refusal(solved=solved).startswith(f"mine: solved fails, {__file__}, line {line}: TracerBoolConversionError")


def test_a_builder_that_fails_is_named_by_file_and_line():
    def mine(layout):
        return layout.cube_positon(1)

    envs_modules.register("mine", mine)
    with pytest.raises(ArgumentError, match=rf"fails, .*, line {mine.__code__.co_firstlineno + 1}: AttributeError"):
        point.create(("mine",))


@pytest.mark.parametrize("returned", [None, SOUND.outcome, Module])
def test_a_builder_returns_a_module(returned):
    with pytest.raises(ArgumentError, match=r"mine: its function returns \w+; return an envs.modules.Module"):
        build(returned)


def test_a_module_has_the_name_that_it_is_registered_by():
    assert refusal(name="other") == "mine: the module's own name is 'other'; give both the same name"


def test_pictures_mark_a_goal_at_its_place():
    table = build(dataclasses.replace(SOUND, place=lambda goal, obs: obs[2:4] + goal))
    obs = np.array([0.0, 0.0, 0.3, 0.1, 0.3, 0.1], np.float32)
    np.testing.assert_allclose(table.place(1, np.array([0.1]), obs), [0.4, 0.2], atol=1e-6)
    np.testing.assert_array_equal(table.place(0, np.array([0.1, 0.2]), obs), [0.1, 0.2])


def test_a_ball_in_pictures_is_as_large_as_the_module_says():
    for radius in (0.03, np.float32(0.03), 1):
        assert build(dataclasses.replace(SOUND, radius=radius)).radii == (None, radius)


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), float("inf"), "wide", True])
def test_a_balls_radius_is_a_number_above_0(radius):
    assert refusal(radius=radius) == f"mine: radius is {radius!r}; it must be a number above 0, or None"


@pytest.mark.parametrize(
    "parts",
    [
        dict(goal_size=1, outcome=lambda obs: obs[2:3] > 0.1, sample_goal=lambda key: jax.random.uniform(key, (1,))),
        dict(interest=lambda obs: obs[:2] > 0.1),
        dict(interest=lambda obs: (obs[0], obs[1])),
        dict(goal_size=2, outcome=lambda obs: (obs[2], obs[3]), sample_goal=lambda key: jax.random.uniform(key, (2,))),
    ],
)
def test_an_outcome_of_bools_or_of_several_numbers_tells_what_changed(parts):
    table = build(dataclasses.replace(SOUND, mirror=None, solved=yes, **parts))
    before = jnp.zeros(6)
    assert not table.relevant(before, before)[1]
    assert table.relevant(before, before + 0.2)[1]


@pytest.mark.parametrize("size", [2.0, -1, "2", None, True])
def test_a_goal_s_size_is_a_whole_number(size):
    assert refusal(goal_size=size) == f"mine: goal_size is {size!r}; it must be a whole number of 0 or more"


@pytest.mark.parametrize("part", ["outcome", "sample_goal", "solved", "goal_at"])
def test_a_part_that_is_missing_is_named(part):
    assert refusal(**{part: None}) == f"mine: {part} is None; it must be a function"


def test_a_guide_names_its_module_by_a_text():
    assert "its guide names 5; give a module's name" in refusal(guides=(Guide(5, lambda obs, goal: goal, yes),))


def test_no_module_takes_the_name_of_all_of_them():
    with pytest.raises(ArgumentError, match="name='all': stands for every module of a run"):
        envs_modules.register("all", lambda layout: SOUND)


def test_the_point_worlds_layout_ends_with_its_objects():
    assert point.create(("reach", "push")).mirror(jnp.ones(6)).tolist() == [1, -1, 1, -1, 1, -1]
    layout = point.PointLayout(num_cubes=1, num_distractors=2)
    assert layout.distractor_position(2) == slice(8, 10)
    for place, k in ((layout.cube_position, 2), (layout.cube_relative_position, 0), (layout.distractor_position, 3)):
        with pytest.raises(ValueError, match=f" {k} does not exist: the scene has "):
            place(k)
