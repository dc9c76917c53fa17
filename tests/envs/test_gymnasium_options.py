"""What Gymnasium's environments can be asked for beside modules: dense rewards, distractors, drawn starts, sleep."""

import copy
import dataclasses
import pickle
import types
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from helpers.parts import line_module

from envs import modules
from envs.errors import ArgumentError
from envs.fetch import constants as c
from envs.fetch import start
from envs.gymnasium_env import CuriousFetchEnv, CuriousFetchVectorEnv
from envs.gymnasium_env.goals import make_arm
from envs.gymnasium_env.pictures import Pictures
from envs.modules import Within

NAMES = ("reach", "push", "pnp2", "stack")
DOWN = np.array([1.0, -0.5, -1.0, 0.3])
DEFAULT, PUSH = start.settled_start("default").gripper, start.settled_start("fetch-push").gripper


def goals(*names, **options):
    return make_arm(names, "default", "c", **options)[1]


# Nothing that is asked for: what these environments drew before there were such options. The vectors here are of three
# worlds, most with two cubes and one distractor or none, so that they share their compiled programs' cache on disk.

EPISODES = [  # module, cube 1's x and y, goal, gripper after three steps
    ("stack", [1.4610566, 0.8318064], [1.2657992, 0.8147005, 0.475], [1.4352416, 0.7018523, 0.4403678]),
    ("pnp2", [1.1975973, 0.6199650], [1.1959529, 0.7930283, 0.7551386], [1.4333855, 0.7022091, 0.4451251]),
    ("reach", [1.2676084, 0.6150001], [1.4667521, 0.6295599, 0.6735113], [1.4352416, 0.7018523, 0.4403678]),
]


def test_without_options_an_environment_draws_what_it_always_drew():
    env = CuriousFetchEnv(NAMES)
    for number, (module, cube, goal, gripper) in enumerate(EPISODES):
        obs, info = env.reset(seed=None if number else 7)
        assert info == {"is_success": False, "module": module}
        np.testing.assert_allclose(obs["observation"][10:12], cube, atol=1e-6)
        np.testing.assert_allclose(obs["desired_goal"][env.goals.slots[module]][:3], goal, atol=1e-6)
        for _ in range(3):
            obs, reward, *_ = env.step(DOWN)
        np.testing.assert_allclose(obs["observation"][:3], gripper, atol=1e-4)
        assert reward == -1.0 and obs["observation"].shape == (40,) and obs["desired_goal"].shape == (19,)
    assert env.np_random.random() == 0.31251633634970166


def test_without_options_a_vector_draws_what_it_always_drew():
    env = CuriousFetchVectorEnv(3, ("reach", "stack"), physics="c", max_episode_steps=2)
    obs, infos = env.reset(seed=7)
    assert infos["module"].tolist() == ["stack"] * 3
    cubes = [[1.4750084, 0.8416328], [1.4816864, 0.7789345], [1.4393181, 0.8895738]]
    np.testing.assert_allclose(obs["observation"][:, 10:12], cubes, atol=1e-6)
    for _ in range(4):
        obs, reward, _, _, infos = env.step(np.tile(DOWN, (3, 1)))
    assert infos["module"].tolist() == ["reach", "stack", "reach"]
    places = [[1.3254229, 0.7504645, 0.8700321], [1.2089404, 0.8587175, 0.475], [1.4296986, 0.7857538, 0.4970954]]
    found = [obs["desired_goal"][e, env.goals.slots[name]][:3] for e, name in enumerate(infos["module"])]
    np.testing.assert_allclose(found, places, atol=1e-6)
    assert reward.dtype == float and reward.tolist() == [-1.0] * 3
    assert env.np_random.random() == 0.6125396042730308


# Dense rewards.


def test_a_dense_reward_is_minus_the_distance_to_the_goal():
    reach, push, stack = (goals(name, reward_type="dense") for name in ("reach", "push", "stack"))
    at = np.array([1.3, 0.7, 0.5])
    assert reach.reward(at, at + [0.03, -0.04, 0.0]) == pytest.approx(-0.05)
    assert reach.reward(at, at) == 0.0
    goal = np.array([1.3, 0.7, 0.425])
    assert push.reward(goal + [0.03, 0.0, 0.04], goal) == pytest.approx(-0.05)  # in the air is away from it
    assert push.reward(at, at) == pytest.approx(-0.075)  # hindsight's goal of a lifted cube is on the table
    place, cube, gripper = np.array([1.3, 0.7, 0.475]), np.array([1.3, 0.8, 0.475]), np.array([1.5, 0.9, 0.9])
    assert stack.reward(np.concatenate([cube, gripper]), np.tile(place, 2)) == pytest.approx(-0.1)  # of the cube alone
    assert np.isclose(reach.reward(at * np.nan, at), -1.0)
    np.testing.assert_array_equal(reach.solved(at, [at + [0.049, 0, 0], at + [0.051, 0, 0]]), [True, False])


def test_dense_rewards_of_any_number_of_goals():
    space = goals("reach", "push", reward_type="dense")
    achieved = np.array([[1, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0, 0.425, 0, 1]], float)
    desired = np.array([[1, 0, 0.2, 0, 0, 0, 1, 0], [0, 0, 0, 1, 0.3, 0.425, 0, 1]], float)
    np.testing.assert_allclose(space.reward(achieved, desired), [-0.2, -0.3], atol=1e-6)
    stacked = space.reward(np.tile(achieved, (4, 3, 1, 1)), np.tile(desired, (4, 3, 1, 1)))
    assert stacked.dtype == np.float32
    np.testing.assert_allclose(stacked, np.tile([-0.2, -0.3], (4, 3, 1)), atol=1e-6)
    np.testing.assert_allclose(space.reward(achieved[0], [desired[0]] * 2), [-0.2, -0.2], atol=1e-6)
    with pytest.raises(ValueError, match="goals of reach, push are arrays"):
        space.reward(achieved[:, :3], desired[:, :3])


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_step_s_reward_is_that_of_its_goals(kind):
    single = CuriousFetchEnv(NAMES, distractors=1, reward_type=kind)
    many = CuriousFetchVectorEnv(3, NAMES, physics="c", max_episode_steps=3, distractors=1, reward_type=kind)
    rng = np.random.default_rng(0)
    for episode in range(6):
        single.reset(seed=episode)
        obs, reward, *_ = single.step(rng.uniform(-1, 1, 4))
        assert type(reward) is float
        assert single.compute_reward(obs["achieved_goal"], obs["desired_goal"], {}) == reward
    many.reset(seed=0)
    seen = []
    for t in range(8):
        obs, reward, *_ = many.step(rng.uniform(-1, 1, (3, 4)))
        expected = many.compute_reward(obs["achieved_goal"], obs["desired_goal"], {})
        resetting = t in (3, 7)  # no transition
        np.testing.assert_array_equal(reward, np.full(3, -1.0) if resetting else expected)
        seen += [] if resetting else [*reward]
    assert (set(seen) <= {0.0, -1.0}) == (kind == "sparse")


def test_a_diverged_world_s_reward_is_minus_one():
    env = CuriousFetchEnv(("reach",), reward_type="dense")
    env.reset(seed=0)
    _, reward, _, truncated, info = env.step(np.full(4, np.nan))
    assert (reward, truncated, info["is_success"]) == (-1.0, True, False)


# Distractors.


@pytest.mark.parametrize("worlds, number", [(None, 3), (3, 1)])
def test_distractors_are_out_of_reach_and_move_at_random(worlds, number):
    options = dict(modules=("reach",), distractors=number)
    env = CuriousFetchEnv(**options) if worlds is None else CuriousFetchVectorEnv(worlds, physics="c", **options)
    single = env.observation_space if worlds is None else env.single_observation_space
    assert {name: space.shape for name, space in single.items()} == {
        "observation": (40 + 3 * number,),  # ten of the robot, 15 of each of two cubes, three of each distractor
        "achieved_goal": (3 + 3 * number + 1 + number,),
        "desired_goal": (3 + 3 * number + 1 + number,),
    }
    obs, infos = env.reset(seed=0, options={"module": "distractor1"})
    assert set(np.ravel(infos["module"])) == {"distractor1"}
    places = []
    for _ in range(40):
        places.append(obs["observation"][..., 40:].reshape(-1, 3))
        np.testing.assert_array_equal(obs["achieved_goal"][..., 3:6], obs["observation"][..., 40:43])
        assert not np.any(infos["is_success"])
        obs, _, _, _, infos = env.step(np.zeros(env.action_space.shape))
    x, y, z = places[0].T
    assert (x >= 1.8).all() and (x <= 1.9).all() and (y >= 0.7).all() and (y <= 1.0).all()
    np.testing.assert_allclose(np.array(places)[..., 2], c.CUBE_REST_HEIGHT, atol=1e-6)
    steps = np.diff(places, axis=0)[..., :2]
    assert abs(steps.mean()) < 0.0015 and 0.0042 < steps.std() < 0.0058  # 234 steps of 5 mm


def test_distractors_have_goals_that_cannot_be_reached():
    space = goals("reach", distractors=2)
    assert space.slots == {"reach": slice(0, 3), "distractor1": slice(3, 6), "distractor2": slice(6, 9)}
    n = 600
    drawn = space.sample(np.random.default_rng(0), np.full(n, 2), np.zeros((n, 46), np.float32))
    assert drawn.shape == (n, 12) and (drawn[:, 8] == np.float32(0.425)).all()
    np.testing.assert_allclose(drawn[:, 6:8].min(axis=0), [1.1919, 0.5991], atol=4e-3)
    np.testing.assert_allclose(drawn[:, 6:8].max(axis=0), [1.4919, 0.8991], atol=4e-3)
    there = np.array([0, 0, 0, 0, 0, 0, 1.85, 0.8, 0.42489, 0, 0, 1])
    assert space.reward(there, there) == 0.0  # as hindsight has it, whose goals are where they were


def test_modules_of_the_arm_and_distractors_are_judged_as_by_the_learner():
    names, n = ("push", "stack"), 600
    env, space = make_arm(names, "default", "c", distractors=1)
    rng, table = np.random.default_rng(0), env.modules
    obs = rng.uniform(0.3, 0.42, (n, env.obs_size)).astype(np.float32)
    module = np.arange(n) % 3
    desired = space.moved(space.sample(rng, module, obs), obs)
    near = obs[:, env.layout.distractor_position(1)] + rng.uniform(-0.05, 0.05, (n, 3))
    desired[module == 2, 9:11] = near[module == 2, :2]
    goal = np.concatenate([desired[:, :2], desired[:, 3:6], desired[:, 9:11]], axis=1)
    expected = jax.jit(jax.vmap(table.reward))(obs, goal, jnp.asarray(module))
    reward = space.reward(space.achieved(module, obs), desired)
    np.testing.assert_array_equal(reward, expected)
    assert 0 < (reward[module == 2] == 0).mean() < 1


# Starts that are drawn.


def check_starts(module, gripper, goal, low):
    """Goals and grippers [n, 2 or more] of episodes of one module, and whether they began as FetchPush-v4 does [n]."""
    np.testing.assert_allclose(gripper, np.where(low[:, None], PUSH, DEFAULT), atol=1e-5)
    centre = DEFAULT[None] if module == "distractor1" else gripper
    off = goal[:, :2] - centre[:, :2]
    assert 0.13 < off.max() <= 0.151 and -0.151 <= off.min() < -0.13
    assert 0.2 < low.mean() < 0.46 if module != "pnp" else not low.any()


@pytest.mark.parametrize("module", ["push", "pnp", "distractor1"])
def test_an_episode_s_start_suits_its_module_and_its_goal_lies_around_it(module):
    names, n = ("push", "pnp"), 200
    env = CuriousFetchEnv(names, start="mixed", distractors=1)
    env.reset(seed=0)
    begun = [env.reset(options={"module": module})[0] for _ in range(n)]
    obs, goal = (np.stack([one[key] for one in begun]) for key in ("observation", "desired_goal"))
    check_starts(module, obs[:, :3], goal[:, env.goals.slots[module]], obs[:, 2] < 0.45)


@pytest.mark.slow
def test_a_vector_s_starts_suit_their_modules():
    n = 200
    env = CuriousFetchVectorEnv(n, ("push", "pnp"), "mixed", physics="c", distractors=1)
    for module in ("push", "pnp", "distractor1"):
        obs, _ = env.reset(seed=0, options={"module": module})
        low = np.asarray(env._state.start) == 2
        check_starts(module, obs["observation"][:, :3], obs["desired_goal"][:, env.goals.slots[module]], low)


def test_fingers_are_locked_in_the_episodes_that_start_so():
    env, open_fingers = CuriousFetchEnv(("push",), start="mixed"), []
    for episode in range(12):
        env.reset(seed=episode)
        for _ in range(5):
            obs, *_ = env.step(np.array([0, 0, 1, 1]))
        open_fingers.append((env.fetch.start.locked, obs["observation"][6] > 0.02))
    assert set(open_fingers) == {(True, False), (False, True)}


# Cubes that sleep.


@pytest.mark.slow
def test_a_vector_moves_with_sleeping_cubes_as_without():
    awake, sleepy = (CuriousFetchVectorEnv(3, ("reach",), physics="c", sleep=sleep) for sleep in (False, True))
    assert make_arm(("reach",), "default", "c", sleep=True)[0].sleep
    actions, ends = np.random.default_rng(0).uniform(-1, 1, (10, 3, 4)), []
    for env in (awake, sleepy):
        env.reset(seed=0)
        ends.append([env.step(action)[0]["observation"] for action in actions][-1])
    np.testing.assert_allclose(*ends, atol=2e-5)


# Modules of one's own.


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(modules, "_REGISTRY", {})


def lift(layout):
    """Cube 1 at a height, as in docs/own-module.md."""
    cube = layout.cube_position(1)

    def height(obs):
        return obs[cube][2:]

    sample = lambda key: jax.random.uniform(key, (1,), minval=0.475, maxval=0.725)  # noqa: E731
    return modules.Module("lift", 1, height, sample, Within(height, 0.05))


@pytest.fixture
def lifts(registry):
    modules.register("lift", lift)


@pytest.mark.parametrize("worlds", [None, 3])
def test_an_own_module_s_goals_are_its_outcome_and_its_goal(lifts, worlds):
    names = ("reach", "lift")
    env = CuriousFetchEnv(names) if worlds is None else CuriousFetchVectorEnv(worlds, names, physics="c")
    assert env.goals.slots == {"reach": slice(0, 3), "lift": slice(3, 4)} and env.goals.size == 3 + 1 + 2
    ask = {"options": {"module": "lift"}}
    first, _ = env.reset(seed=3, **ask)
    heights = np.ravel([env.reset(**ask)[0]["desired_goal"][..., 3] for _ in range(40)])
    assert len(set(heights)) > 0.9 * len(heights)  # every one is drawn
    assert 0.475 <= min(heights) < 0.5 and 0.7 < max(heights) < 0.725
    np.testing.assert_equal(env.reset(seed=3, **ask)[0], first)
    obs, reward, *_ = env.step(np.zeros(env.action_space.shape))
    achieved = np.zeros((worlds or 1, 6), np.float32)
    achieved[:, 3], achieved[:, 5] = obs["observation"][..., 12], 1.0
    np.testing.assert_array_equal(np.atleast_2d(obs["achieved_goal"]), achieved)
    assert np.all(np.equal(reward, -1.0))


def test_an_own_module_is_judged_by_goals_alone(lifts):
    sparse, dense = (goals("reach", "lift", reward_type=kind) for kind in ("sparse", "dense"))
    goal = np.array([0, 0, 0, 0.6, 0, 1])
    above = np.array([0, 0, 0, 1, 0, 0]) * np.array([0.049, 0.051, -0.02, np.nan])[:, None]
    np.testing.assert_array_equal(sparse.reward(goal + above, goal), [0, -1, 0, -1])
    np.testing.assert_allclose(dense.reward(goal + above, goal), [-0.049, -0.051, -0.02, -1], atol=1e-6)
    n, rng = 300, np.random.default_rng(0)
    env = make_arm(("reach", "lift"), "default", "c")[0]
    obs = rng.uniform(0.4, 0.75, (n, env.obs_size)).astype(np.float32)
    desired = sparse.sample(rng, np.ones(n, int), obs)
    expected = jax.jit(jax.vmap(env.modules.reward, (0, 0, None)))(obs, desired[:, :4], 1)
    np.testing.assert_array_equal(sparse.reward(sparse.achieved(np.ones(n, int), obs), desired), expected)
    assert 0.1 < (np.asarray(expected) == 0).mean() < 0.9


def test_own_modules_that_need_an_observation_are_refused(registry):
    line = line_module("mine", 0)
    near = dataclasses.replace(line, solved=Within(line.outcome, 0.5))
    for unfit in (
        line,
        dataclasses.replace(near, solved=Within(lambda obs: obs[1:2], 0.5)),  # another outcome
        dataclasses.replace(near, goal_at=lambda goal, obs: goal + obs[:1]),  # follows the gripper
    ):
        modules.register("mine", lambda layout, unfit=unfit: unfit)
        with pytest.raises(ArgumentError) as refusal:
            CuriousFetchEnv(("reach", "mine"))
        assert str(refusal.value) == (
            "modules: mine: compute_reward sees no observation here; give it solved=envs.modules.Within(outcome, "
            "tolerance) and no goal_at, or train by envs.make or envs.brax_env"
        )
    modules.register("mine", lambda layout: near)
    assert CuriousFetchEnv(("reach", "mine")).goals.size == 6


def test_pictures_mark_an_own_module_s_goal_where_it_says(registry):
    place = lambda goal, obs: obs[:2] + goal  # noqa: E731
    outcome = lambda obs: obs[10:11]  # noqa: E731
    mine = dataclasses.replace(line_module("mine", 10), place=place, radius=0.02)
    modules.register("mine", lambda layout: dataclasses.replace(mine, outcome=outcome, solved=Within(outcome, 0.1)))
    found, radius = goals("mine").mark(np.array([0.1], np.float32), np.arange(40, dtype=np.float32))
    np.testing.assert_allclose(found, [0.1, 1.1], atol=1e-6)
    assert radius == 0.02
    found, radius = goals("stack").mark(np.arange(6, dtype=np.float32), np.zeros(40, np.float32))
    assert found.tolist() == [0, 1, 2] and radius is None


def test_pictures_show_the_distractors():
    space = goals("reach", distractors=2)
    pictures = Pictures(space, "rgb_array", ["rgb_array"])
    pictures._drawer = types.SimpleNamespace(frame=lambda state, marks: (state.distractors, marks[0].goal))
    desired = np.array([1, 2, 3, 0, 0, 0, 0, 0, 0, 1, 0, 0])
    places, goal = pictures.draw(np.zeros(24), np.arange(46), desired, False)
    assert places.tolist() == [[40, 41, 42], [43, 44, 45]] and goal.tolist() == [1, 2, 3]


# All of them.

VARIANTS = [
    {"reward_type": "dense"},
    {"distractors": 2},
    {"start": "mixed"},
    {"modules": ("reach", "lift")},
    {"modules": ("push", "pnp", "lift"), "start": "mixed", "distractors": 1, "reward_type": "dense"},
]


@pytest.mark.parametrize("options", VARIANTS)
def test_gymnasium_s_checker_passes_for_each_variant(lifts, options):
    env = gymnasium.make("CuriousFetch-v0", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.filterwarnings("ignore", message=".*observation space m(in|ax)imum value is -?infinity.*")
        check_env(env.unwrapped, skip_render_check=True)
    for other in (pickle.loads(pickle.dumps(env.unwrapped)), copy.deepcopy(env.unwrapped)):
        np.testing.assert_equal(other.reset(seed=1), env.reset(seed=1))
        np.testing.assert_equal(other.step(DOWN), env.step(DOWN))


def test_make_vec_takes_every_option_and_copies_keep_them(lifts):
    env = gymnasium.make_vec("CuriousFetchPush-v0", num_envs=2, physics="c", sleep=True, **VARIANTS[-1])
    assert isinstance(env, CuriousFetchVectorEnv) and env.goals.names == ("push", "pnp", "lift", "distractor1")
    assert env.single_observation_space["observation"].shape == (43,)
    assert env.goals.size == 3 + 3 + 1 + 3 + 4
    achieved, desired = np.zeros(14), np.zeros(14)
    achieved[6], desired[6], desired[12] = 0.6, 0.5, 1.0
    for other in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert other.observation_space == env.observation_space and other.goals.names == env.goals.names
        assert other.compute_reward(achieved, desired, {}) == pytest.approx(-0.1)


@pytest.mark.parametrize("kind", [CuriousFetchEnv, CuriousFetchVectorEnv])
@pytest.mark.parametrize(
    "options, line",
    [
        ({"reward_type": "shaped"}, "reward_type='shaped': must be one of sparse, dense"),
        ({"distractors": -1}, "distractors=-1: must be a whole number of 0 or more"),
        ({"distractors": 0.5}, "distractors=0.5: must be a whole number of 0 or more"),
        ({"start": "Mixed"}, "start='Mixed': must be one of default, fetch-reach, fetch-push, mixed"),
    ],
)
def test_bad_options_are_named(kind, options, line):
    with pytest.raises(ArgumentError) as refusal:
        kind(**options)
    assert str(refusal.value) == line
