"""Policies to act with: loaded by path, asked by a module's name and its own goal, or by Gymnasium's dicts."""

import dataclasses
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import line_module, tiny_config

import curious_jax
from curious_jax import fit
from curious_jax.evaluation import Result
from curious_jax.learner.state import make_policy, setup
from curious_jax.types import FLAT

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def policy(finished_run):
    return curious_jax.load_policy(finished_run)


def test_a_policy_knows_its_modules_and_their_goals(policy):
    assert policy.modules == ("reach", "push", "distractor1")
    assert policy.goal_sizes == {"reach": 2, "push": 2, "distractor1": 2}
    assert policy.episodes == 16


def test_it_acts_as_the_learner_does(policy):
    obs = np.linspace(-0.4, 0.4, policy.env.obs_size, dtype=np.float32)
    run = setup(policy.config, policy.env)
    goal = jnp.zeros(6).at[2:4].set(jnp.array([0.1, -0.2]))
    expected = make_policy(run, policy.params)(obs, goal, jnp.int32(1))
    found = policy.act(obs, "push", [0.1, -0.2])
    assert found.shape == (3,) and np.abs(found).max() <= 1
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_many_environments_at_once(policy):
    obs = np.random.default_rng(0).normal(size=(4, policy.env.obs_size)).astype(np.float32)
    goals = np.random.default_rng(1).uniform(-0.5, 0.5, (4, 2))
    together = policy.act(obs, "reach", goals)
    assert together.shape == (4, 3)
    np.testing.assert_allclose(together, [policy.act(o, "reach", g) for o, g in zip(obs, goals)], atol=1e-6)
    for goal in (goals[0], goals[:1]):  # the same for all
        np.testing.assert_allclose(policy.act(obs, "reach", goal)[0], together[0], atol=1e-6)


@pytest.mark.parametrize(
    ("obs", "module", "goal", "message"),
    [
        ([0.0], "push", [0.0, 0.0], "obs has shape \\(1,\\): must be \\[8\\], or \\[E, 8\\]"),
        ([0.0] * 8, "push", [0.0], "goal has shape \\(1,\\): push takes \\[2\\]"),
        ([[0.0] * 8] * 5, "push", [[0.0] * 2] * 3, "goal has shape \\(3, 2\\): push takes \\[2\\], or \\[5, 2\\]"),
        ([0.0] * 8, "fly", [0.0, 0.0], "module 'fly': must be one of reach, push, distractor1"),
        ([0.0] * 8, "all", [0.0], "module 'all': must be one of reach"),
    ],
)
def test_what_does_not_fit_is_named(policy, obs, module, goal, message):
    with pytest.raises(curious_jax.ConfigError, match=message):
        policy.act(obs, module, goal)


@pytest.fixture
def untrained():
    """untrained(**settings) -> the progress of a run as `fit` would return it, its networks as they were made."""

    def make(**settings):
        config = tiny_config(**settings)
        env = curious_jax.make(config)
        rates = Result({"reach": 3, "push": 1}, {"reach": 4, "push": 4})
        return dataclasses.replace(fit.begin(config, env), results=(rates,) * config.num_seeds, cycles=2)

    return make


def test_a_policy_is_kept_after_fit_and_loaded(untrained, tmp_path):
    progress = untrained()
    curious_jax.save_policy(tmp_path / "mine", progress)
    loaded = curious_jax.load_policy(tmp_path / "mine")
    assert (loaded.config, loaded.episodes) == (progress.config, progress.episodes)
    jax.tree.map(np.testing.assert_array_equal, loaded.params.actor, progress.state.learner.actor)


def test_keeping_a_policy_touches_nothing_else(untrained, tmp_path):
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(curious_jax.ConfigError, match="holds other things than a policy"):
        curious_jax.save_policy(tmp_path, untrained())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_policy_without_an_evaluation_is_kept_too(untrained, tmp_path):
    curious_jax.save_policy(tmp_path / "mine", dataclasses.replace(untrained(), results=()))
    curious_jax.save_policy(tmp_path / "mine", untrained())  # and replaced
    assert curious_jax.load_policy(tmp_path / "mine", 16).episodes == 16


def test_one_seed_of_several(untrained, tmp_path):
    progress = untrained(num_seeds=2, seed=5)
    curious_jax.save_policy(tmp_path / "mine", progress)
    second = curious_jax.load_policy(tmp_path / "mine", seed_index=1)
    assert second.config.seed == 6
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[1]), second.params.actor, progress.state.learner.actor)
    with pytest.raises(curious_jax.ConfigError, match="seed_index=2: must be from 0 to 1"):
        curious_jax.load_policy(tmp_path / "mine", seed_index=2)


def test_the_flat_goal_asks_for_all_modules(untrained, tmp_path):
    progress = untrained(algorithm="her", distractors=0)
    curious_jax.save_policy(tmp_path / "flat", progress)
    flat = curious_jax.load_policy(tmp_path / "flat")
    obs, goal = np.full(6, 0.1, np.float32), np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    expected = make_policy(setup(flat.config, flat.env), flat.params)(obs, goal, jnp.int32(FLAT))
    np.testing.assert_allclose(flat.act(obs, "all", goal), expected, atol=1e-6)
    with pytest.raises(curious_jax.ConfigError, match="must be all"):
        flat.act(obs, "push", goal[:2])


@pytest.mark.parametrize("modules", [("push",), "push"])
def test_evaluate_gives_success_per_module(policy, modules):
    found = curious_jax.evaluate(policy, episodes=4, modules=modules)
    assert found["success"].keys() == {"push"} and found["episodes"]["push"] >= 4
    assert found["mean_success"] == found["success"]["push"]


def readme_block():
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if "load_policy" in block]
    return found


def test_the_readme_s_policy_stacks_in_gymnasium(monkeypatch, capsys):
    pytest.importorskip("gymnasium")
    monkeypatch.chdir(ROOT)
    exec(readme_block(), {})
    assert capsys.readouterr().out.split()[-1] == "True"


def test_gymnasium_s_vectors_and_what_the_policy_cannot_do(untrained, tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    import envs.gymnasium_env  # noqa: F401

    four = curious_jax.load_policy(ROOT / "pretrained" / "four-modules")
    env = gymnasium.make("CuriousFetch-v0")
    act = four.for_gymnasium(env)
    observations = []
    for module in ("stack", "push", "reach"):
        observation, _ = env.reset(seed=1, options={"module": module})
        observations.append(observation)
    together = {key: np.stack([o[key] for o in observations]) for key in observations[0]}
    np.testing.assert_allclose(act(together), [act(o) for o in observations], atol=1e-5)
    both = {"num_envs": 3, "vectorization_mode": "sync", "modules": ("push", "reach")}
    ours, theirs = (
        gymnasium.make_vec("CuriousFetch-v0", **(both | mode))
        for mode in ({"vectorization_mode": "vector_entry_point"}, {})
    )
    for vector in (ours, theirs):
        observation, _ = vector.reset(seed=1)
        assert four.for_gymnasium(vector)(observation).shape == (3, 4)
        vector.close()
    recorded = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("CuriousFetch-v0", **both))
    assert four.for_gymnasium(recorded)(recorded.reset(seed=1)[0]).shape == (3, 4)
    recorded.close()

    class Apart(gymnasium.vector.AsyncVectorEnv):
        closed = True

        def __init__(self):  # without its processes
            pass

    with pytest.raises(curious_jax.ConfigError, match="is in other processes: give gymnasium.make of the same id"):
        four.for_gymnasium(Apart())
    single = four.for_gymnasium(gymnasium.make("CuriousFetch-v0", modules=("push", "reach")))
    assert single(observation).shape == (3, 4)
    with pytest.raises(curious_jax.ConfigError, match="is none of envs.gymnasium_env"):
        four.for_gymnasium(gymnasium.make("CartPole-v1"))
    line = r"asks for pnp: the policy has reach, push.*make\(\"CuriousFetch-v0\", modules=\('reach', 'push'\)\)"
    curious_jax.save_policy(tmp_path / "two", untrained(world="fetch", distractors=0))
    with pytest.raises(curious_jax.ConfigError, match=line):
        curious_jax.load_policy(tmp_path / "two").for_gymnasium(env)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (dict(distractors=0), "was trained in the world point"),
        (dict(world="fetch", distractors=0, algorithm="her"), "has one goal for all its modules together"),
    ],
)
def test_gymnasium_s_environments_have_no_such_world(untrained, tmp_path, settings, reason):
    gymnasium = pytest.importorskip("gymnasium")
    import envs.gymnasium_env  # noqa: F401

    curious_jax.save_policy(tmp_path / "kept", untrained(**settings))
    kept = curious_jax.load_policy(tmp_path / "kept")
    with pytest.raises(curious_jax.ConfigError, match=f"the policy {reason}.*use its own world"):
        kept.for_gymnasium(gymnasium.make("CuriousFetchReach-v0"))


def test_policies_with_distractors_and_own_modules_play_in_gymnasium(untrained, tmp_path, monkeypatch):
    gymnasium = pytest.importorskip("gymnasium")
    import envs.gymnasium_env  # noqa: F401
    from envs import modules

    monkeypatch.setattr(modules, "_REGISTRY", {})
    mine = line_module("mine", 12)
    modules.register(
        "mine", lambda layout: dataclasses.replace(mine, solved=modules.Within(mine.outcome, 0.5)), cubes=2
    )
    curious_jax.save_policy(
        tmp_path / "kept", untrained(world="fetch", modules=("reach", "push", "mine"), distractors=2)
    )
    kept = curious_jax.load_policy(tmp_path / "kept")
    env = gymnasium.make("CuriousFetch-v0", modules=("mine", "push"), distractors=2)
    act = kept.for_gymnasium(env)
    for module, size in (("mine", 1), ("push", 2), ("distractor2", 2)):
        observation, _ = env.reset(seed=0, options={"module": module})
        goal = observation["desired_goal"][env.unwrapped.goals.slots[module]][:size]
        np.testing.assert_allclose(act(observation), kept.act(observation["observation"], module, goal), atol=1e-6)
    line = r"has 2 cubes and 1 distractors, and the policy takes 2 and 2; .*'push', 'mine'\), distractors=2\)"
    with pytest.raises(curious_jax.ConfigError, match=line):
        kept.for_gymnasium(gymnasium.make("CuriousFetchReach-v0", distractors=1))


def test_a_flat_policy_of_one_module_plays_it_in_gymnasium(untrained, tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    import envs.gymnasium_env  # noqa: F401

    curious_jax.save_policy(
        tmp_path / "flat", untrained(world="fetch", modules=("reach",), distractors=0, algorithm="her")
    )
    flat = curious_jax.load_policy(tmp_path / "flat")
    env = gymnasium.make("CuriousFetchReach-v0")
    observation, _ = env.reset(seed=2)
    np.testing.assert_allclose(
        flat.for_gymnasium(env)(observation),
        flat.act(observation["observation"], "all", observation["desired_goal"]),
        atol=1e-6,
    )


def test_a_policy_gets_the_observations_that_it_was_trained_with(untrained, tmp_path):
    """A sensor that was off at the end of the run is off for the policy, too, as in evaluate and play."""
    shifted = untrained(world="fetch", distractors=0, perturb_at=8, perturb_cube=1, perturb_shift=0.05)
    curious_jax.save_policy(tmp_path / "kept", shifted)
    kept = curious_jax.load_policy(tmp_path / "kept")
    plain = make_policy(setup(kept.config, kept.env), kept.params)
    obs, goal = np.full(kept.env.obs_size, 0.1, np.float32), jnp.zeros(kept.env.modules.goal_size)
    assert kept.offset.max() == np.float32(0.05)
    np.testing.assert_allclose(
        kept.act(obs, "reach", np.zeros(3)), plain(obs + kept.offset, goal, jnp.int32(0)), atol=1e-6
    )


def test_a_figure_of_an_earlier_policy_is_not_kept_with_it(untrained, tmp_path):
    for evaluated, mean in ((16, 0.5), (8, None)):
        curious_jax.save_policy(tmp_path / "mine", dataclasses.replace(untrained(), evaluated_at=evaluated))
        assert json.loads((tmp_path / "mine" / "policy.json").read_text())["mean_success"] == mean


def test_evaluate_wants_a_module(policy):
    with pytest.raises(curious_jax.ConfigError, match="--modules: name at least one of reach, push"):
        curious_jax.evaluate(policy, episodes=4, modules=())
