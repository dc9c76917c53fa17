"""The goal samplers: values worked by hand, and for each the property that makes it what it is."""

import dataclasses
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import assert_same, assert_uniform, empty_module, line_module, line_table, make_run, tiny_config
from scipy import stats

from curious_jax.config import SettingError, make_config
from curious_jax.errors import ConfigError
from curious_jax.learner import feedback, goals, state, trainer
from curious_jax.learner.estimators import Results
from curious_jax.learner.goals import alp_gmm, mega, protocol, recent, riac, vds
from curious_jax.learner.goals.protocol import View
from curious_jax.types import LearnerBatch
from envs.modules import Module, ModuleTable

NAMES = ("alp-gmm", "riac", "mega", "vds", "learnability")
SOME = [name if name == "alp-gmm" else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]
E, O, A = 256, 3, 2


def box(size):
    """A module whose goals are uniform in [0, 1]^size, reached where the observation begins."""
    return Module(
        name=f"box{size}",
        goal_size=size,
        outcome=lambda obs: obs[:size],
        sample_goal=lambda key: jax.random.uniform(key, (size,)),
        solved=lambda obs, goal: jnp.linalg.norm(obs[:size] - goal) < 0.1,
    )


TABLE = ModuleTable((empty_module("empty", 0), box(1), box(2), box(3)))  # module k has k slots
G, M = TABLE.goal_size, TABLE.num_modules
INPUTS = O + G + M
MIXED = np.arange(E, dtype=np.int32) % M
VIEW = View(
    encode=lambda obs, goal, module: jnp.concatenate([obs, goal, TABLE.descriptor(module)], axis=-1),
    act=lambda inputs: jnp.zeros((*inputs.shape[:-1], A)),
)


@functools.cache
def make(name):
    """The sampler for TABLE, compiled; its propose takes state, seed and modules and returns a NumPy array."""
    made = goals.make(make_config(world="point", goals=name), TABLE, INPUTS, A)

    @jax.jit
    def compiled(held, seed, module):
        return made.propose(held, jax.random.key(seed), module, jnp.zeros((E, O)), VIEW)

    def propose(held, seed, module):
        return np.asarray(compiled(held, seed, np.broadcast_to(np.int32(module), E)))

    return made._replace(init=jax.jit(made.init), propose=propose, update=jax.jit(made.update))


@functools.cache
def begin(name):
    """The sampler's state before its first result."""
    return make(name).init(jax.random.key(0))


@jax.jit
def draw(key, module):
    return jax.vmap(TABLE.sample_goal)(jax.random.split(key, E), module)


def results(rng, module, success=None, goal=None, valid=True, reached=None, relevant=True, cycle=0, own=True):
    """A cycle's results, E self-evaluations (or not), for goals that the module draws where none are given."""
    module = np.broadcast_to(np.int32(module), E)
    key = jax.random.key(int(rng.integers(2**31)))
    wide = lambda x, *shape: np.broadcast_to(np.asarray(x), (E, *shape))  # noqa: E731
    return Results(
        module=module,
        goal=np.asarray(draw(key, module)) if goal is None else np.asarray(goal, np.float32),
        success=rng.random(E) < 0.5 if success is None else success,
        self_evaluation=wide(own),
        valid=wide(valid),
        first=np.zeros((E, O), np.float32),
        reached=np.asarray(rng.random((E, G)) if reached is None else wide(reached, G), np.float32),
        relevant=wide(relevant, M),
        td_error=np.zeros(E, np.float32),
        key=key,
        cycle=np.int32(cycle),
    )


def column(module):
    """The first slot of a module's goal."""
    return TABLE.slots[module].start


def assert_in_own_slots(goal, module):
    outside = TABLE.slot_module != module[:, None]
    assert np.isfinite(goal).all() and (goal[outside] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_goals_are_uniform_without_results(name):
    goal, module = make(name).propose(begin(name), 1, MIXED), MIXED
    assert goal.shape == (E, G)
    assert_in_own_slots(goal, module)
    for one in range(1, M):
        for drawn in goal[module == one][:, TABLE.slots[one]].T:
            assert stats.kstest(drawn, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_invalid_episodes_are_ignored(name):
    broken = results(np.random.default_rng(0), 2, goal=np.full((E, G), np.nan), valid=False, reached=np.nan)
    assert_same(make(name).update(begin(name), broken), begin(name))


@pytest.mark.parametrize("name", ["alp-gmm", "riac", "learnability"])
def test_what_exploration_failed_at_is_no_failure(name):
    """Exploring episodes act with noise, and perhaps guided: success is judged by self-evaluations alone."""
    made, held, rng = make(name), begin(name), np.random.default_rng(0)
    after = made.update(held, results(rng, MIXED, own=False))
    size = lambda state: np.asarray(state.size)  # noqa: E731
    np.testing.assert_array_equal(size(after), size(held))
    assert (size(made.update(held, results(rng, MIXED))) > size(held)).any()


@pytest.mark.parametrize("name", SOME)
def test_goals_of_every_size_stay_finite_and_in_their_slots(name):
    made, held, rng = make(name), begin(name), np.random.default_rng(0)
    for cycle in range(4):
        goal = made.propose(held, cycle, MIXED)
        assert_in_own_slots(goal, MIXED)
        assert (goal >= 0).all() and (goal <= 1).all()
        held = made.update(held, results(rng, MIXED, goal=goal, cycle=cycle))
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(held))


# The store of recent results.


def test_the_newest_results_stay_in_order():
    add = jax.jit(recent.add)
    counted = np.array([[True, False, True], [False, True, False]])
    held = add(recent.init(2, {"value": ()}), counted, value=np.array([1, 2, 3]))
    np.testing.assert_array_equal(held.entries["value"][0, -2:], [1, 3])
    assert held.entries["value"][1, -1] == 2
    np.testing.assert_array_equal(recent.held(held).sum(axis=1), [2, 1])
    many = np.arange(recent.MOST + 7)
    held = add(held, np.stack([many < recent.MOST - 1, many >= 0]), value=many)
    np.testing.assert_array_equal(held.entries["value"][0], [3, *range(recent.MOST - 1)])
    np.testing.assert_array_equal(held.entries["value"][1], many[7:])
    np.testing.assert_array_equal(held.size, recent.MOST)


# Progress: alp-gmm and riac.


def test_alp_is_the_change_from_the_nearest_earlier_goal():
    update, rng, number = make("alp-gmm").update, np.random.default_rng(0), np.arange(E)
    first, second = np.zeros((2, E, G))
    first[:2, 0] = 0.1, 0.8
    second[:3, 0] = 0.2, 0.9, 0.4
    held = update(begin("alp-gmm"), results(rng, 1, goal=first, success=number == 0, valid=number < 2))
    held = update(held, results(rng, 1, goal=second, success=number == 1, valid=number < 3))
    # The first two had nobody before them. 0.2 failed where 0.1 succeeded, 0.9 succeeded where 0.8 failed, and 0.4 is
    # nearer to 0.1.
    np.testing.assert_array_equal(held.entries["progress"][1, -5:], [0, 0, 1, 1, 1])
    np.testing.assert_array_equal(held.size, [0, 5, 0, 0])


def test_the_nearest_earlier_goal_is_so_in_deviations_of_the_earlier_ones():
    """Module 2 was asked for (0, 0), which failed, and (1, 0.02), which was solved: deviations of 0.5 and 0.01."""
    held = recent.init(M, {"goal": (3,), "result": (), "progress": ()})
    goal = held.entries["goal"].at[2, -1].set(jnp.array([1.0, 0.02, 0.0]))
    result = held.entries["result"].at[2, -1].set(1.0)
    held = held.replace(entries=held.entries | {"goal": goal, "result": result}, size=jnp.array([0, 0, 2, 0]))
    # (0.4, 0.02) is nearer to the first in metres, and to the second in deviations: 1.2 against 2.2.
    part, module = jnp.array([[0.4, 0.02, 0.0], [0.4, 0.0, 0.0]]), jnp.array([2, 2])
    found = alp_gmm.measure_progress(held, part, module, jnp.array([1.0, 1.0]))
    np.testing.assert_array_equal(found, [0.0, 1.0])


def test_densities_are_those_of_scipys_normals():
    mean, x = np.array([[1.0, -1.0], [0.0, 0.5]], np.float32), np.array([0.5, 0.25], np.float32)
    covariance = np.array([[[4.0, 1.0], [1.0, 2.0]], [[0.25, 0.0], [0.0, 0.01]]], np.float32)
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    expected = [stats.multivariate_normal(m, s).logpdf(x) for m, s in zip(mean, covariance, strict=True)]
    np.testing.assert_allclose(alp_gmm.log_density(mean, whiten, x), expected, rtol=1e-5)


fit, weigh = jax.jit(alp_gmm.fit), jax.jit(alp_gmm.weigh)


def test_a_cluster_becomes_one_gaussian():
    point = np.array([0.3, 0.6, 0.5])  # ALP is 0.5
    mixture = fit(np.tile(point, (64, 1)), np.arange(64) >= 32)
    candidates = np.array([[0.3, 0.6], [0.4, 0.6], [0.3, 0.4]])
    expected = np.exp(-np.array([0.0, 0.1**2, 0.2**2]) / (2 * alp_gmm.REGULAR))
    np.testing.assert_allclose(weigh(mixture, candidates), expected, rtol=1e-3)


def test_the_mixture_finds_four_clusters():
    rng = np.random.default_rng(0)
    centres = np.array([[-2, -2, 0], [-2, 2, 0], [2, -2, 1], [2, 2, 0]], np.float32)
    data = np.repeat(centres, 32, axis=0) + 0.1 * rng.normal(size=(128, 3))
    mixture = fit(data.astype(np.float32), np.arange(128) >= 0)
    near = np.abs(np.asarray(mixture.mean)[:, None] - centres).max(axis=2) < 0.1
    assert (near.sum(axis=0) == 1).all()
    np.testing.assert_allclose(mixture.share, 0.25, atol=1e-3)
    weights = np.asarray(weigh(mixture, centres[:, :2]))
    assert weights[2] == 1.0 and (weights[[0, 1, 3]] < 0.1).all()


def test_interest_is_the_change_between_halves():
    result = np.array([0.0, 0, 1, 0, 1, 1, 1], np.float32)
    some = np.array([1, 0, 1, 1, 0, 1, 0])  # 0 1 | 0 1
    inside = np.stack([np.ones(7), some, np.zeros(7), np.arange(7) == 3]).astype(bool)
    found = jax.jit(riac.measure_interest)(result, inside)
    np.testing.assert_allclose(found, [1 - 1 / 3, 0, 0, 0], rtol=1e-6)  # 0 0 1 | 0 left out | 1 1 1


def test_a_region_is_split_where_progress_begins():
    age = np.arange(200)
    part = np.random.default_rng(0).random((200, 2)).astype(np.float32)
    part[:, 1] = np.where(age % 4 == 0, 0.9, 0.1) + 0.05 * part[:, 1]
    result = (part[:, 1] > 0.5) & (age >= 100)
    tree = jax.jit(riac.grow)(part, result.astype(np.float32), np.ones(200, bool))
    assert tree.axis[0] == 1 and 0.1 < tree.threshold[0] <= 0.95
    regions = jax.jit(jax.vmap(riac.find_region, (None, 0)))(tree, np.array([[0.5, 0.1], [0.5, 0.93]]))
    np.testing.assert_array_equal(tree.interest[regions], [0, 1])


def test_regions_are_chosen_by_interest_and_goals_uniformly_within():
    tree = riac.Tree(
        axis=np.zeros(7, np.int32),
        threshold=np.array([0.5, *[np.inf] * 6]),
        interest=np.array([0.1, 0, 0, 0, 0.3, 0, 0, 0]),
    )
    weights = jax.jit(riac.weigh)(tree, np.array([[0.1], [0.2], [0.3], [0.7]]))
    np.testing.assert_allclose(weights / weights.sum(), [0.25 / 3, 0.25 / 3, 0.25 / 3, 0.75], rtol=1e-5)


def test_a_goal_is_found_in_its_region_through_every_level():
    """The tree that halves 0 to 1 thrice: the regions are the eighths, in order."""
    levels = [np.arange(1, 2**k, 2) / 2**k for k in (1, 2, 3)]
    tree = riac.Tree(axis=np.ones(7, np.int32), threshold=np.concatenate(levels), interest=np.zeros(8))
    part = np.stack([np.zeros(16), np.arange(16) / 16], axis=1)  # each border belongs to what lies above it
    regions = jax.jit(jax.vmap(riac.find_region, (None, 0)))(tree, part)
    np.testing.assert_array_equal(regions, np.arange(16) // 2)


@pytest.mark.parametrize("name", [pytest.param("alp-gmm", marks=pytest.mark.slow), "riac"])
def test_goals_are_where_success_changes(name):
    """Failures everywhere; then successes in the upper half of the first coordinate, and there alone."""
    made, held, rng = make(name), begin(name), np.random.default_rng(0)
    for cycle in range(2):
        drawn = results(rng, 2, valid=np.arange(E) < recent.MOST // 2)
        upper = drawn.goal[:, column(2)] > 0.5
        held = made.update(held, drawn.replace(success=upper & (cycle == 1)))
    goal = made.propose(held, 9, 2)
    assert (goal[:, column(2)] > 0.5).mean() > 0.8
    other = made.propose(held, 9, 1)  # of which nothing is known
    assert stats.kstest(other[:, column(1)], "uniform").pvalue > 1e-4


# Outcomes: mega.


def test_density_is_lowest_at_the_rare_outcome():
    estimate = jax.jit(mega.estimate_density)
    part = np.array([[0.0, 0.5, 0.51, 0.52, 0.49, 0.9]])[..., None]
    density = np.asarray(estimate(part, np.arange(6)[None] > 0))[0]
    assert np.isinf(density[0]) and density.argmin() == 5 and density[1:5].min() > 2 * density[5]
    # Two outcomes lie 2 deviations apart, 20 bandwidths: each has its own kernel alone.
    two = estimate(np.array([[[0.0], [1.0]]]), np.ones((1, 2), bool))
    np.testing.assert_allclose(two, 1.0)


def test_mega_proposes_the_rare_outcome():
    made, rng = make("mega"), np.random.default_rng(0)
    reached = 0.5 + 0.01 * rng.random((E, G))
    reached[9] = 0.9
    relevant = (np.arange(E)[:, None] < 10) & (np.arange(M) == 2)  # the others did not move module 2's outcome
    held = made.update(begin("mega"), results(rng, 1, reached=reached, relevant=relevant))
    np.testing.assert_array_equal(held.size, [0, 0, 10, 0])
    goal = made.propose(held, 1, MIXED)
    assert_in_own_slots(goal, MIXED)
    rare = (goal[MIXED == 2][:, TABLE.slots[2]] > 0.8).all(axis=1)
    assert rare.mean() > 0.85  # 32 draws of 10 miss it in 3 % of the cases
    assert stats.kstest(goal[MIXED == 1][:, column(1)], "uniform").pvalue > 1e-4


def test_mega_proposes_no_outcome_outside_the_goal_space():
    """Goals of `a` lie between 0 and 1. Outcomes within a tenth of that beside them count, and are moved into it."""
    table = ModuleTable((line_module("a", 0, 0.0), line_module("b", 1, 0.0)))
    reached = np.array([[0.5, 0.5], [1.05, 0.5], [1.2, -0.3], [-0.05, 0.2]], np.float32)
    inside = np.asarray(mega.lies_inside(table, jnp.asarray(reached)))
    np.testing.assert_array_equal(inside, [[True, True], [True, True], [False, False], [True, True]])
    empty = ModuleTable(
        (dataclasses.replace(line_module("a", 0, 0.0), goal_size=0, sample_goal=lambda key: jnp.zeros(0)),)
    )
    assert mega.lies_inside(empty, jnp.zeros((3, 0))).all()  # a module without goal numbers
    made, rng = make("mega"), np.random.default_rng(0)
    far = np.full((E, G), 0.5)
    far[::2] = 1.5 + rng.random((E // 2, G))  # the rarer they lie, the likelier they would be chosen
    held = made.update(begin("mega"), results(rng, 2, reached=far))
    goal = made.propose(held, 1, 2)
    assert (goal[:, TABLE.slots[2]] <= 1.0).all()


@pytest.mark.slow
def test_mega_leaves_goals_that_move_with_the_world_to_chance():
    offset = dataclasses.replace(line_module("b", 1, 0.0), goal_at=lambda goal, obs: obs[:1] + goal)
    table = ModuleTable((line_module("a", 0, 0.0), offset))
    made = mega.make(tiny_config(), table, 1, 1)
    told = dict(module=jnp.zeros(64, jnp.int32), goal=jnp.zeros((64, 2)), success=jnp.zeros(64, bool))
    told |= dict(self_evaluation=jnp.zeros(64, bool), valid=jnp.ones(64, bool), first=jnp.zeros((64, 2)))
    told |= dict(reached=jnp.linspace(0.9, 1.0, 128).reshape(64, 2), relevant=jnp.ones((64, 2), bool))
    told |= dict(td_error=jnp.zeros(64), key=jax.random.key(0), cycle=jnp.int32(0))
    held = jax.jit(made.update)(made.init(jax.random.key(0)), Results(**told))
    module, obs = jnp.arange(64) % 2, jnp.full((64, 2), 3.0)
    goal = np.asarray(jax.jit(made.propose)(held, jax.random.key(1), module, obs, None))
    assert (goal[::2, 0] >= 0.9).all(), "outcomes of the module whose goals stand still"
    assert ((goal[1::2, 1] >= 0.0) & (goal[1::2, 1] < 1.0)).all(), "uniform goals, as they are drawn"


# Value functions: vds.


def with_outputs(params, unit, weights):
    """Critics that give ReLU of one input, times a weight each."""
    zero = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), params)
    first, second, last = (zero["params"]["MLP_0"][f"Dense_{i}"]["kernel"] for i in range(3))
    first[:, unit, 0] = second[:, 0, 0] = 1.0
    last[:, 0, 0] = weights
    return zero


def test_goals_are_drawn_in_proportion_to_disagreement():
    made, unit = make("vds"), O + column(1)
    params = with_outputs(begin("vds").params, unit, [-1.0, -2.0, -3.0])
    held = begin("vds").replace(params=params, trained=np.array(True))
    inputs = np.zeros((2, INPUTS))
    inputs[:, unit] = 0.5, 1.0
    expected = np.std([1, 2, 3]) * np.array([0.5, 1.0])
    np.testing.assert_allclose(jax.jit(vds.disagreement)(params, inputs, np.zeros((2, A))), expected, rtol=1e-6)
    goal = made.propose(held, 1, 1)
    assert stats.kstest(goal[:, column(1)], lambda g: g**2).pvalue > 1e-4  # density 2g


def test_the_ensemble_learns_from_the_learners_batches():
    made, rng = make("vds"), np.random.default_rng(0)
    inputs = rng.normal(size=(64, INPUTS)).astype(np.float32)
    batch = jax.tree.map(jnp.asarray, LearnerBatch(inputs, np.zeros((64, A)), -np.ones(64), inputs))
    learn = jax.jit(lambda held, key: made.learn(held, key, lambda key: batch, VIEW))
    before = begin("vds")
    assert_same(learn(before, jax.random.key(1)), before)  # there were no episodes
    held = made.update(before, results(rng, 1))
    for cycle in range(5):
        held = learn(held, jax.random.key(cycle))
    evaluate = jax.jit(vds.evaluate)
    after, q = (np.asarray(evaluate(x.params, inputs, batch.action)) for x in (held, before))  # [K, 64]
    assert (after.mean(axis=1) < q.mean(axis=1) - 0.1).all()  # y is 1 below what a member thinks


def test_the_ensemble_learns_from_the_next_state_and_the_policys_action_there():
    """Q' is -1 where both are 1, and 0 elsewhere, as in the batch itself; Q is 0, and its last bias learns."""
    made = vds.make(make_config(world="point", goals="vds", updates_per_cycle=8), TABLE, INPUTS, A)  # one update
    before = jax.tree.map(jnp.zeros_like, made.init(jax.random.key(0))).replace(trained=jnp.array(True))
    target = with_outputs(before.target, 0, -1.0)
    first = target["params"]["MLP_0"]["Dense_0"]
    first["kernel"][:, INPUTS, 0], first["bias"][:, 0] = 1.0, -1.0  # of the action's first number
    inputs, nothing = jnp.zeros((4, INPUTS)), jnp.zeros((4, A))
    batch = LearnerBatch(inputs, nothing, jnp.zeros(4), inputs.at[:, 0].set(1.0))
    view = VIEW._replace(act=lambda seen: jnp.repeat(seen[:, :1], A, axis=1))
    after = made.learn(before.replace(target=target), jax.random.key(0), lambda key: batch, view)
    last, slow = (x["params"]["MLP_0"]["Dense_2"]["bias"] for x in (after.params, after.target))
    np.testing.assert_allclose(last, -vds.STEP_SIZE, rtol=1e-3)  # Adam's first step, towards y = -γ
    np.testing.assert_allclose(slow, -vds.STEP_SIZE * vds.TARGET_RATE, rtol=1e-3)


# Success: learnability.


def test_goals_are_solved_half_of_the_time():
    """Goals below 0.35 always succeed, those above 0.65 never."""
    made, held, rng = make("learnability"), begin("learnability"), np.random.default_rng(0)
    for cycle in range(40):
        drawn = results(rng, 1, cycle=cycle)
        g = drawn.goal[:, column(1)]
        success = np.where(g < 0.35, True, np.where(g > 0.65, False, drawn.success))
        held = made.update(held, drawn.replace(success=success))
    g = made.propose(held, 1, 1)[:, column(1)]
    assert ((g > 0.3) & (g < 0.7)).mean() > 0.6  # uniform goals: 0.4


# What they share.


def test_a_candidate_is_kept_by_its_weight_or_in_the_given_share_uniformly():
    number, weights = 20_000, jnp.array([0.0, 3.0, 1.0, 0.0])
    candidates = jnp.broadcast_to(jnp.arange(4.0)[:, None], (number, 4, 1))
    for share, p in ((0.0, [0, 0.75, 0.25, 0]), (0.2, [0.05, 0.65, 0.25, 0.05]), (1.0, [0.25] * 4)):
        kept = protocol.choose(jax.random.key(1), candidates, jnp.tile(weights, (number, 1)), share)
        np.testing.assert_allclose(np.bincount(np.asarray(kept)[:, 0].astype(int), minlength=4) / number, p, atol=0.015)
    for unusable in (jnp.zeros(4), jnp.array([1.0, jnp.nan, 1.0, 1.0])):
        kept = protocol.choose(jax.random.key(1), candidates, jnp.tile(unusable, (number, 1)), 0.0)
        assert_uniform(kept, range(4))


def test_candidates_are_judged_where_they_stand_and_proposed_as_they_are_drawn():
    moved = dataclasses.replace(line_module("b", 1, 0.0), goal_at=lambda goal, obs: obs[:1] + goal)
    table = ModuleTable((line_module("a", 0, 0.0), moved))
    found = protocol.draw_candidates(table, jax.random.key(0), jnp.array([0, 1]), jnp.array([[3.0], [4.0]]))
    np.testing.assert_allclose(found.now[0], found.goal[0])
    np.testing.assert_allclose(found.now[1] - found.goal[1], [[0.0, 4.0]] * protocol.CANDIDATES, atol=1e-6)
    assert (found.goal[0, :, 0] < 1).all() and (found.goal[1, :, 1] < 1).all()


def test_at_most_three_numbers_of_a_goal_are_looked_at():
    table = ModuleTable((box(1), box(5)))
    goal = jnp.tile(jnp.arange(1.0, 7.0), (2, 1))
    np.testing.assert_array_equal(protocol.own_part(table, goal, jnp.array([0, 1])), [[1, 0, 0], [2, 3, 4]])


def test_only_exploring_episodes_take_what_a_sampler_proposes():
    table = line_table(0)
    run = SimpleNamespace(
        goals=SimpleNamespace(propose=lambda held, key, module, obs, view: jnp.full((len(module), 1), 7.0)),
        env=SimpleNamespace(modules=table),
        config=SimpleNamespace(normalizer=None),
        learner=SimpleNamespace(act=lambda actor, inputs: inputs),
    )
    held = SimpleNamespace(goals=(), normalizer=None, learner=SimpleNamespace(actor=None))
    propose = feedback.make_proposals(run, held, jax.random.key(0), jnp.array([True, False]))
    goal = propose(jnp.zeros(2, jnp.int32), jnp.zeros((2, 1)), jnp.array([[1.0], [2.0]]))
    np.testing.assert_array_equal(goal, [[7.0], [2.0]])


# In a run.


def run_two_cycles(name, seeds):
    config = tiny_config(goals=name, num_seeds=seeds)
    run = make_run(config)
    cycle = jax.jit(state.for_seeds(config, functools.partial(trainer.train_cycle, run)))
    first, _ = cycle(trainer.init(config, run.env))
    again = jax.tree.map(jnp.asarray, jax.device_get(first.replace(key=jax.random.key_data(first.key))))
    again = again.replace(key=jax.random.wrap_key_data(again.key))
    second, metrics = cycle(first)
    assert_same(cycle(again)[0], second)  # what a checkpoint keeps is all there is
    for x in jax.tree.leaves((second.goals, second.learner, metrics)):
        assert np.isfinite(x).all() and x.shape[:1] == ((seeds,) if seeds > 1 else x.shape[:1])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_two_cycles(name, seeds):
    run_two_cycles(name, seeds)


@pytest.mark.parametrize("name", NAMES)
def test_a_cycle_keeps_the_shapes_of_the_state(name):
    config = tiny_config(goals=name)
    run = make_run(config)
    before = jax.eval_shape(functools.partial(trainer.init, config, run.env))
    after, _ = jax.eval_shape(functools.partial(trainer.train_cycle, run), before)
    assert jax.tree.structure(after) == jax.tree.structure(before)
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(before)):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_self_evaluations_keep_uniform_goals(share):
    config = tiny_config(goals="mega", self_evaluation=share)
    run = make_run(config)
    sevens = lambda state, key, module, obs, view: jnp.full((len(module), run.env.modules.goal_size), 7.0)  # noqa: E731
    run = run._replace(goals=run.goals._replace(propose=sevens))
    after, _ = jax.jit(functools.partial(trainer.train_cycle, run))(trainer.init(config, run.env))
    goal = np.asarray(after.replay.goal)[: config.schedule.num_envs]
    assert (goal == 7.0).all() if share == 0.0 else (np.abs(goal) < 1.1).all() and (goal != 0).any()


@pytest.mark.slow
@pytest.mark.parametrize("interest_replay", [True, False])
def test_goals_learn_from_what_changed_whatever_replay_takes(interest_replay):
    run = make_run(tiny_config(goals="mega", interest_replay=interest_replay))
    after, _ = jax.jit(functools.partial(trainer.train_cycle, run))(trainer.init(run.config, run.env))
    store, length = after.replay, run.config.schedule.num_envs
    moved = jax.vmap(run.env.modules.relevant)(store.obs[:length, 0], store.obs[:length, -1])
    inside = mega.lies_inside(run.env.modules, jax.vmap(run.env.modules.outcomes)(store.obs[:length, -1]))
    np.testing.assert_array_equal(after.goals.size, np.asarray(moved & inside).sum(axis=0))
    assert not np.asarray(moved).all()  # or the test shows nothing


@pytest.mark.parametrize("algorithm", ["her", "mgme"])
def test_algorithms_without_a_choice_refuse_goals(algorithm):
    with pytest.raises(SettingError, match="goals") as refusal:
        tiny_config(algorithm=algorithm, goals="riac")
    assert "\n" not in str(refusal.value)


def test_unknown_names_are_refused_and_own_ones_registered(monkeypatch):
    monkeypatch.setattr(goals, "_MAKERS", dict(goals._MAKERS))
    assert goals.make(make_config(world="point"), TABLE, INPUTS, A) is None
    config = make_config(world="point", goals="own")
    with pytest.raises(ConfigError, match="alp-gmm, riac, mega, vds, learnability"):
        goals.make(config, TABLE, INPUTS, A)
    goals.register("own", lambda config, modules, input_size, action_size: make("mega"))
    assert goals.make(config, TABLE, INPUTS, A) is make("mega")
    with pytest.raises(ConfigError, match="letters"):
        goals.register("a,b", riac.make)
