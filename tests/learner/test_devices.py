"""Several devices: their draws are one device's, an update is too within rounding, and what they save opens on one.

JAX fixes its number of devices when it starts, so four simulated CPU devices need a process of their own. It leaves
what it found in a folder, and tests in this process, with its one device, compare.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from helpers.parts import tiny_config

from curious_jax import evaluate, train
from curious_jax.cli import environment
from curious_jax.errors import ConfigError
from curious_jax.learner import devices, trainer
from curious_jax.learner.state import make_policy, no_metrics, policy_params, setup
from curious_jax.run import checkpoints, policies, resume

ROOT = Path(__file__).parents[2]
SETTINGS = dict(num_envs=8, updates_per_cycle=1, episodes=16, evaluation_interval=8, evaluation_episodes=10)
OF_WORLD = {"point": {}, "fetch": dict(distractors=0, capacity=16)}
PROBES = 32  # observations on which two policies are compared

SCRIPT = """
import json, sys
sys.path[:0] = ["tests", "tests/learner"]
from test_devices import first_cycle, leave
from pathlib import Path

folder, world = Path(sys.argv[1]), sys.argv[2]
leave(folder / "four.npz", *first_cycle(world, 4))
if world == "point":
    from curious_jax import train
    argv = json.loads(sys.argv[3])
    sys.exit(train.main([*argv, "--devices", "4", "--out", str(folder / "run")]))
"""


def settings_of(world, number):
    return tiny_config(world=world, devices=number, **{**SETTINGS, **OF_WORLD[world]})


def first_cycle(world, number):
    """(state after one cycle with one update, sums of its metrics) of a run on so many devices."""
    config = settings_of(world, number)
    env = environment.make_env(config).with_worlds(config.schedule.num_envs // number)
    run, state = setup(config, env), trainer.init(config, env)
    state, total = trainer.compile_epoch(run, state)(state, no_metrics(config), 1)
    assert all(x.sharding.is_fully_replicated for x in jax.tree.leaves(state))
    assert len(state.replay.obs.devices()) == number
    return state, total


def leave(path, state, total):
    """Writes the leaves by their path in the tree."""
    tree = jax.tree.map(
        lambda x: jax.random.key_data(x) if resume.is_key(x) else np.asarray(x), {"state": state, "total": total}
    )
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    np.savez(path, **{jax.tree_util.keystr(name): leaf for name, leaf in flat})


def four_devices(folder, world, *argv):
    """Runs SCRIPT on four simulated devices."""
    flags = "--xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), world, json.dumps(argv)],
        cwd=ROOT, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """The folder left by a point-world run on four devices."""
    from helpers.small import SMALL

    return four_devices(tmp_path_factory.mktemp("four"), "point", *SMALL, "--distractors", "1")


def check_first_cycle(folder, world):
    """Draws equal bit for bit; positions, parameters and losses within 1e-5, on the arm, whose contacts amplify the
    last bits of a sum over 50 steps, within 1e-4."""
    leave(folder / "one.npz", *first_cycle(world, 1))
    one, many = np.load(folder / "one.npz"), np.load(folder / "four.npz")
    assert set(one) == set(many)
    within = {"point": 1e-5, "fetch": 1e-4}[world]
    for name in one:
        exact = one[name].dtype.kind in "iub" or name.endswith("replay.goal")
        np.testing.assert_allclose(many[name], one[name], rtol=0, atol=0 if exact else within, err_msg=name)
    starts = "['state'].replay.obs"
    np.testing.assert_array_equal(many[starts][:8, 0], one[starts][:8, 0])
    learner = [name for name in one if ".learner" in name]
    assert learner and any(np.any(one[name] != 0) for name in learner)


@pytest.mark.slow
def test_first_cycle_draws_and_one_update_are_one_device_s(four):
    check_first_cycle(four, "point")


@pytest.mark.slow
def test_first_cycle_with_c_physics(tmp_path):
    check_first_cycle(four_devices(tmp_path, "fetch"), "fetch")


CONTINUES = """
import sys
sys.path[:0] = [%r]
sys.path.append(%r)
from helpers.parts import tiny_config
import curious_jax
progress = None
for number in (2, 1, 2):
    config = tiny_config(devices=number, episodes=16 + (progress.episodes if progress else 0))
    progress = curious_jax.fit(config, curious_jax.make(config), start=progress)
    print(len(progress.state.key.devices()), progress.episodes)
"""


@pytest.mark.slow
def test_fit_continues_on_other_devices_than_it_began_on():
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    script = CONTINUES % (str(ROOT), str(ROOT / "tests"))
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["2 16", "1 32", "2 48"]


@pytest.mark.slow
def test_what_four_devices_saved_opens_on_one(four, capsys):
    """The policy acts as the saved state does, to 1e-6; the state's tree is a run's, leaf for leaf."""
    run = four / "run"
    found = resume.find(run)
    assert found.config.devices == 4
    config = resume.merge_settings(found, {"devices": 1})
    env = environment.make_env(config)
    progress = resume.load(found, config, env)
    like = trainer.init(config, env)
    assert jax.tree.structure(progress.state) == jax.tree.structure(like)
    for a, b in zip(jax.tree.leaves(progress.state), jax.tree.leaves(like), strict=True):
        assert (a.shape, a.dtype, a.devices()) == (b.shape, b.dtype, b.devices())
    assert jax.random.key_impl(progress.state.key) == jax.random.key_impl(like.key)

    policy = policies.load(run).params
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(PROBES, env.obs_size)).astype(np.float32)
    goal = rng.normal(size=(PROBES, env.modules.goal_size)).astype(np.float32)
    module = np.arange(PROBES, dtype=np.int32) % env.modules.num_modules
    parts = setup(config, env)
    actions = [make_policy(parts, p)(obs, goal, module) for p in (policy, policy_params(progress.state))]
    np.testing.assert_allclose(actions[0], actions[1], atol=1e-6)

    assert evaluate.main([str(run), "--episodes", "5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trained_episodes"] == 16


@pytest.mark.slow
def test_a_run_of_four_devices_goes_on_with_one(four, tmp_path, refuse, capsys):
    import shutil

    run = shutil.copytree(four / "run", tmp_path / "run")
    line = refuse(train, "--resume", run)
    assert line == "error: --devices 4: must be at most 1, the cpu devices that JAX finds here"
    assert train.main(["--resume", str(run), "--devices", "1", "--episodes", "24"]) == 0
    assert [p.name for p in checkpoints.states(run / "checkpoints")] == ["480"]


@pytest.mark.parametrize("argv, mentions", [
    (["--devices", "2"], "--devices 2: must be at most 1"),
    (["--devices", "0"], "--devices 0: must be a whole number of 1 or more"),
    (["--devices", "-1"], "--devices -1"),
    (["--devices", "many"], "--devices many: must be a whole number, or all"),
    (["--devices", "1.5"], "--devices 1.5: must be a whole number, or all"),
])  # fmt: skip
def test_bad_numbers_are_refused(refuse, small, argv, mentions):
    assert mentions in refuse(train, *small, *argv)


@pytest.mark.parametrize("settings, option", [
    (dict(num_envs=6), "--num-envs 6"),
    (dict(batch_size=10), "--batch-size 10"),
])  # fmt: skip
def test_shares_must_be_whole(monkeypatch, settings, option):
    monkeypatch.setattr(jax, "local_device_count", lambda: 4)
    with pytest.raises(ConfigError, match=rf"{option}: must be a multiple of --devices \(4\)"):
        environment.make_env(tiny_config(devices="all", **settings))
    environment.make_env(tiny_config(devices=2, **settings))


def test_all_means_every_device_there_is(monkeypatch):
    assert devices.count("all") == jax.local_device_count()
    monkeypatch.setattr(jax, "local_device_count", lambda: 8)
    assert devices.count("all") == 8 and devices.count(3) == 3
