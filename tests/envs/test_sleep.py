"""Cubes sleep where nothing can touch them, and nothing else moves otherwise for it."""

import numpy as np
from helpers import fetch as fetch

from envs.fetch.observation import SensorLayout
from envs.physics.native import NativePhysics
from envs.physics.sleep import Sleepers

WORLDS, STEPS = 16, 30
LAYOUT = fetch.env("c").layout
FAR = [1.15, 0.4]  # of the table, away from the hand's start


def asleep(states, action=(0, 0, 0)):
    """Tells who may sleep through the next step, [E, 2]."""
    physics = states.physics
    worlds = np.concatenate([physics.qpos, physics.qvel], axis=1)
    parts = SensorLayout.hand_position, SensorLayout.hand_quaternion
    hand = np.concatenate([np.asarray(physics.sensordata)[:, part] for part in parts], axis=1)
    target = hand[:, :3] + 0.05 * np.asarray(action)[..., :3]
    return Sleepers(fetch.env("c").model).asleep(worlds, target, hand)


def changed(states, velocities, **values):
    """World 0 of `states` with entries of qpos or qvel set."""
    physics = states.physics
    qpos, qvel = np.array(physics.qpos), np.array(physics.qvel)
    for index, value in values.items():
        (qvel if velocities else qpos)[0, int(index[1:])] = value
    return states.replace(physics=physics.replace(qpos=qpos, qvel=qvel))


def test_who_may_sleep():
    states = fetch.at(fetch.reset("c", 1), [[FAR, [1.15, 1.1]]])
    assert asleep(states).tolist() == [[True, True]]
    hand = np.asarray(states.obs[0, :2])
    under = fetch.at(states, [[hand, FAR]])
    assert asleep(under, [0, 0, -1]).tolist() == [[False, True]]  # the hand comes down on cube 1
    assert asleep(under, [0, 0, 1]).tolist() == [[True, True]]  # it goes up
    near = [FAR[0], FAR[1] + 0.06]
    pushed = changed(fetch.at(states, [[FAR, near]]), True, v10=0.3)
    assert asleep(pushed).tolist() == [[False, False]]  # cube 1 moves, and cube 2 is beside it
    assert asleep(changed(states, True, v10=0.3)).tolist() == [[False, True]]
    assert asleep(changed(states, True, v15=0.3)).tolist() == [[False, True]]  # it only turns
    assert asleep(changed(states, False, p12=0.6)).tolist() == [[False, True]]  # the top of its flight


def test_with_sleeping_cubes_everything_moves_as_without():
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (STEPS, WORLDS, 4)) * 1.0
    actions[:, WORLDS // 2 :, 2] -= 0.1  # down, where the cubes are
    awake, sleepy = fetch.reset("c", WORLDS, seed=4), fetch.reset("c, sleep", WORLDS, seed=4)
    slept, moved = np.zeros((WORLDS, 2)), np.zeros((WORLDS, 2))
    start = np.asarray(awake.physics.qpos)
    for action in actions:
        slept += asleep(sleepy, np.clip(action, -1, 1))
        awake, _ = fetch.run("c", awake, action[None])
        sleepy, _ = fetch.run("c, sleep", sleepy, action[None])
        ours, theirs = np.asarray(sleepy.physics.qpos), np.asarray(awake.physics.qpos)
        np.testing.assert_allclose(ours[:, :10], theirs[:, :10], atol=1e-5)
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
        moved = np.abs(ours - start)[:, [10, 17]]
    assert 0.3 < slept.mean() / STEPS < 0.9 and (moved > 0.01).any()
    never = slept.sum(axis=1) == 0
    np.testing.assert_array_equal(ours[never], theirs[never])


def test_a_cube_that_nothing_touches_stays_to_the_micrometre():
    states = fetch.at(fetch.reset("c, sleep", 2), [[FAR, [1.15, 1.1]]] * 2)
    start = np.asarray(states.physics.qpos)[:, 10:]
    last, obs = fetch.run("c, sleep", states, np.zeros((100, 2, 4)))
    np.testing.assert_allclose(np.asarray(last.physics.qpos)[:, 10:], start, atol=1e-6)
    for k in (1, 2):
        np.testing.assert_allclose(obs[-1][:, LAYOUT.cube_position(k)], obs[0][:, LAYOUT.cube_position(k)], atol=1e-6)


def test_a_bad_world_stays_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    states = fetch.reset("c, sleep", WORLDS)
    broken = states.replace(physics=states.physics.replace(qpos=states.physics.qpos.at[3, 12].set(np.nan)))
    after = fetch.batched_step("c, sleep", WORLDS)(broken, np.zeros((WORLDS, 4), np.float32))
    assert np.isnan(np.asarray(after.physics.qpos[3])).all() and np.isfinite(np.asarray(after.physics.qpos[:3])).all()
    assert not list(tmp_path.iterdir())  # MuJoCo writes a log file where it warns


def test_the_hand_stays_within_the_way_to_its_target_and_a_margin():
    states = fetch.reset("c", WORLDS)
    rng, most = np.random.default_rng(1), 0.0
    for turn in range(40):
        if turn % 6 == 0:
            action = rng.choice([-1.0, 1.0], (WORLDS, 4))
        before = np.asarray(states.physics.sensordata)[:, SensorLayout.hand_position]
        states, _ = fetch.run("c", states, action[None])
        moved = np.asarray(states.physics.sensordata)[:, SensorLayout.hand_position] - before
        way = 0.05 * action[:, :3]
        beyond = np.maximum(moved - np.maximum(way, 0), np.minimum(way, 0) - moved)
        most = max(most, beyond.max())
    assert most < 0.02, most  # sleep.py allows for 0.03


def test_both_kinds_are_programs_of_their_own():
    model = fetch.env("c").model
    assert NativePhysics(model)._target != NativePhysics(model, sleep=True)._target
