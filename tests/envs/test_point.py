"""The probe world: its physics, and what CURIOUS and M-UVFA must do on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import make_run, probe_config, run_cycles

from curious_jax import evaluation
from curious_jax.learner import trainer
from curious_jax.learner.state import policy_params
from envs import modules as envs_modules
from envs import point
from envs.modules import Module


def stepped(env, obs_point, obs_object, *actions):
    """Observations after these actions from a point and one object put somewhere."""
    state = env.reset(jax.random.key(0))
    state = state.replace(position=jnp.array(obs_point, float), objects=jnp.array([obs_object], float))
    step = jax.jit(env.step)
    for action in actions:
        state = step(state, jnp.array(action, float))
    return np.asarray(state.obs)


@pytest.fixture(scope="module")
def env():
    return point.create(("reach", "push"), 1)


def test_the_point_moves_and_stays_inside(env):
    np.testing.assert_allclose(stepped(env, (0, 0), (0.3, 0.3), (1, -0.5, 0))[:2], [0.1, -0.05], atol=1e-6)
    np.testing.assert_allclose(stepped(env, (0, 0), (0.3, 0.3), (9, 0, 0))[:2], [0.1, 0.0], atol=1e-6)  # full at 1
    np.testing.assert_allclose(stepped(env, (0.45, 0), (0.3, 0.3), (1, 0, 0))[:2], [0.5, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("distance", "hand", "carried"), [(0.14, 1.0, True), (0.16, 1.0, False), (0.14, 0.0, False), (0.0, -1.0, False)]
)
def test_an_object_is_carried_when_near_and_held(env, distance, hand, carried):
    obs = stepped(env, (0, 0), (distance, 0), (0, 1, hand))
    np.testing.assert_allclose(obs[2:4], [distance, 0.1 if carried else 0.0], atol=1e-6)
    np.testing.assert_allclose(obs[4:6], obs[2:4] - obs[:2], atol=1e-6)  # relative to the point


def test_a_dragged_object_clings_without_being_held():
    env = point.create(("push", "drag2"))
    state = env.reset(jax.random.key(0)).replace(position=jnp.zeros(2), objects=jnp.array([[0.1, 0.0], [0.1, 0.16]]))
    obs = env.step(state, jnp.array([0.0, 1.0, -1.0])).obs
    np.testing.assert_allclose(obs[2:4], [0.1, 0.0], atol=1e-6)  # let go
    np.testing.assert_allclose(obs[6:8], [0.1, 0.26], atol=1e-6)  # from 0.19 away
    far = state.replace(objects=jnp.array([[0.1, 0.0], [0.1, 0.18]]))  # 0.206 away
    np.testing.assert_allclose(env.step(far, jnp.array([0.0, 1.0, 1.0])).obs[6:8], [0.1, 0.18], atol=1e-6)
    goals = jax.vmap(lambda key: env.modules.sample_goal(key, 1))(jax.random.split(jax.random.key(0), 200))
    assert np.abs(goals[:, 2:]).max() <= point.START


def test_an_object_is_not_dragged_and_pushed():
    with pytest.raises(ValueError, match="modules: object 2 is dragged and pushed; .* such as drag3"):
        point.create(("push2", "reach", "drag2"))


def test_objects_start_near_distractors_out_of_reach(env):
    obs = np.asarray(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 500)).obs)
    assert (obs[:, :2] == 0).all()
    assert np.abs(obs[:, 2:4]).max() <= point.START and np.abs(obs[:, 2:4]).max() > 0.99 * point.START
    assert obs[:, 6:8].min() >= 1.0
    # 20 steps of 0.01 bring one no nearer than some 0.3 to a goal inside 0.5: out of a tolerance of 0.1.
    assert 1.0 - 5 * point.DISTRACTOR_STEP * np.sqrt(env.episode_length) - point.ARENA > point.TOLERANCE


def test_distractors_walk_by_themselves(env):
    state = env.reset(jax.random.key(3))
    step, positions = jax.jit(env.step), [state.distractors]
    for _ in range(300):
        state = step(state, jnp.ones(3))
        positions.append(state.distractors)
    steps = np.diff(np.stack(positions), axis=0)
    assert abs(steps.std() - point.DISTRACTOR_STEP) < 0.1 * point.DISTRACTOR_STEP
    assert abs(steps.mean()) < 4 * point.DISTRACTOR_STEP / np.sqrt(steps.size)


def test_reset_after_other_episodes_equals_a_fresh_one():
    used = point.create(("reach", "push2"), 2)
    state = used.reset(jax.random.key(1))
    for _ in range(3):
        state = used.step(state, jnp.ones(3))
    fresh = point.create(("reach", "push2"), 2)
    np.testing.assert_array_equal(used.reset(jax.random.key(9)).obs, fresh.reset(jax.random.key(9)).obs)
    assert not np.array_equal(fresh.reset(jax.random.key(9)).obs, fresh.reset(jax.random.key(8)).obs)


def test_modules_and_their_places():
    env = point.create(("push2", "reach", "push1"), 2)
    assert env.modules.names == ("push2", "reach", "push", "distractor1", "distractor2")
    assert env.obs_size == 2 + 4 * 2 + 2 * 2
    outcomes = env.modules.outcomes(jnp.arange(14.0))
    np.testing.assert_array_equal(outcomes, [6, 7, 0, 1, 2, 3, 10, 11, 12, 13])


@pytest.mark.parametrize("name", ["pnp", "push0", "reach1", "stack", "", "push\n"])
def test_unknown_modules_are_refused(name):
    with pytest.raises(ValueError, match="modules: unknown module .* in the point world; use reach, push"):
        point.create(("reach", name))


def test_a_module_named_twice_is_refused():
    with pytest.raises(ValueError, match="push is named twice"):
        point.create(("push", "push1"))


def test_a_registered_module_trains(monkeypatch):
    """One of one's own with an empty goal: stand in the right half."""
    monkeypatch.setattr(envs_modules, "_REGISTRY", {})

    def build(layout):
        x = layout.gripper_position.start
        return Module(
            name="right",
            goal_size=0,
            outcome=lambda obs: obs[:0],
            sample_goal=lambda key: jnp.zeros(0),
            solved=lambda obs, goal: obs[x] > 0.2,
            interest=lambda obs: obs[x : x + 1],
        )

    envs_modules.register("right", build, cubes=2)
    config = probe_config(modules=("right",), distractors=0, updates_per_cycle=20, hidden_size=32)
    run = make_run(config)
    assert run.env.layout.num_cubes == 2
    state, _ = run_cycles(run, trainer.init(config, run.env), 30)
    found = evaluation.evaluate(config, run.env, policy_params(state), jax.random.key(0), 50)
    assert found.rate["right"] >= 0.9


# The acceptance of the learner on the probe (issue 2, A7)

CYCLES = 140
IMPOSSIBLE = 2


def trained(cycles, **settings):
    """(run, state, the curriculum after every cycle)."""
    config = probe_config(**settings)
    run = make_run(config)
    state, record = run_cycles(run, trainer.init(config, run.env), cycles)
    return run, state, jax.tree.map(np.asarray, record)


@pytest.fixture(scope="module")
def learned():
    """CURIOUS on the probe: the curriculum after every cycle, and an evaluation of 200 episodes per module."""
    run, state, record = trained(CYCLES)
    return record, evaluation.evaluate(run.config, run.env, policy_params(state), jax.random.key(99), 400)


def shares(record, module):
    """(mean p_LP of a learnable module, of the impossible one) over the cycles after which the learnable one's
    competence is between 0.2 and 0.8."""
    competence = record.competence[:, module]
    between = (competence >= 0.2) & (competence <= 0.8)
    assert between.sum() >= 5
    return float(record.p[between, module].mean()), float(record.p[between, IMPOSSIBLE].mean())


def follows_progress(own, impossible):
    return own >= 0.45 and impossible <= 0.22


@pytest.mark.slow
def test_probe_both_learnable_modules_are_mastered(learned):
    _, found = learned
    assert all(rate >= 0.9 for rate in found.rate.values()), found


@pytest.mark.slow
def test_probe_practice_goes_to_push_while_it_progresses(learned):
    assert follows_progress(*shares(learned[0], 1)), shares(learned[0], 1)


@pytest.mark.slow
def test_probe_practice_goes_to_reach_while_it_progresses():
    """In small cycles: reach is learned so fast that it passes from 0.2 to 0.8 in three of the others."""
    _, _, record = trained(80, num_envs=8, updates_per_cycle=10, self_evaluation=0.5)
    assert record.competence[-1, 0] >= 0.9
    assert follows_progress(*shares(record, 0)), shares(record, 0)


@pytest.mark.slow
def test_probe_impossible_module_is_never_solved(learned):
    record, _ = learned
    assert (record.competence[:, IMPOSSIBLE] == 0).all()
    assert (record.progress[:, IMPOSSIBLE] == 0).all()
    assert record.p[:, IMPOSSIBLE].min() == pytest.approx(0.4 / 3, abs=1e-6)  # the floor


@pytest.mark.slow
def test_probe_muvfa_fails_that_check():
    _, _, record = trained(CYCLES, algorithm="muvfa")
    np.testing.assert_allclose(record.p, 1 / 3, atol=1e-6)
    assert record.competence[:, 0].max() >= 0.9  # it learns,
    assert not follows_progress(*shares(record, 1))  # and does not choose
