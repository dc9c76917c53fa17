"""Policies for programs without JAX: NumPy (the documentation's function) and ONNX act as `load_policy` does."""

import errno
import importlib.util
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.parts import tiny_config

import curious_jax
from curious_jax import export
from curious_jax.errors import ConfigError
from curious_jax.learner import normalizer
from curious_jax.learner.state import PolicyParams, setup
from curious_jax.run import files, formats, policies, portable
from curious_jax.run.acting import TrainedPolicy
from envs import modules as env_modules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "export.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DRAWS = 1000


def write(trained, name, folder):
    """Writes a policy in a format; returns the file."""
    folder.mkdir()
    path = folder / formats.FILES[name]
    formats.write(portable.make(loaded(trained)), name, path)
    return path


def loaded(trained):
    return policies.Loaded(trained.config, trained.env, trained.params, trained.offset, trained.episodes)


def untrained(**settings):
    """A policy of random numbers, biases and layer normalisation included."""
    config = tiny_config(**settings)
    env = curious_jax.make(config)
    draw = np.random.default_rng(1)
    sizes = {"obs": env.obs_size, "goal": env.modules.goal_size}
    moments = {k: normalizer.Moments(np.ones(n), *draw.random((2, n)).astype(np.float32)) for k, n in sizes.items()}
    shapes = jax.eval_shape(setup(config, env).learner.init, jax.random.key(0)).actor
    actor = jax.tree.map(lambda leaf: jnp.asarray(draw.normal(scale=0.5, size=leaf.shape), jnp.float32), shapes)
    return TrainedPolicy(config, env, PolicyParams(actor, normalizer.NormalizerState(**moments)), 16)


def examples(trained):
    """(obs [N, O], goal [N, G], module [N], action [N, A]): random inputs near what was seen, and the actions."""
    draw, table = np.random.default_rng(0), trained.env.modules
    seen = trained.params.normalizer

    def near(moments):
        noise = draw.normal(size=(DRAWS, len(moments.mean)))
        return np.asarray(moments.mean + 2 * noise * np.sqrt(moments.variance), np.float32)

    obs, goal = near(seen.obs), near(seen.goal)
    flat = trained.config.algorithm == "her"
    module = np.full(DRAWS, -1) if flat else draw.integers(table.num_modules, size=DRAWS)
    action = np.zeros((DRAWS, trained.env.action_size), np.float32)
    for number in np.unique(module):
        rows = module == number
        name, slots = ("all", slice(None)) if flat else (table.names[number], table.slots[number])
        action[rows] = trained.act(obs, name, goal[:, slots])[rows]  # always all of them: one program
    return obs, goal, module, action


def page_act(about, arrays):
    """The page's function for these arrays."""
    code = BLOCKS[0][BLOCKS[0].index("def act") :]
    space = {"np": np, "a": arrays, "about": formats.as_text(about)}
    exec(code, space)
    return space["act"]


def by_hand(about, arrays, obs, goal, module):
    """What the page says of layer normalisation, experts and the flat goal, put into one function."""
    own = (arrays["goal.module"] == module) | (module < 0)
    goal = arrays["goal.keep"] * goal + arrays["goal.scale"] * obs[arrays["goal.index"]] + arrays["goal.offset"]
    clip = about["clip"]
    x = np.clip((obs - arrays["obs.mean"]) / arrays["obs.std"], -clip, clip)
    g = np.clip((goal - arrays["goal.mean"]) / arrays["goal.std"], -clip, clip) * own
    x = np.concatenate([x, g, np.arange(len(about["modules"])) == module])
    for k in range(about["layers"]):
        layer = {name.split(".")[2]: a for name, a in arrays.items() if name.startswith(f"layer.{k}.")}
        layer = {name: a[module] for name, a in layer.items()} if about["experts"] else layer
        x = x @ layer["weight"] + layer["bias"]
        if "norm_scale" in layer:
            x = (x - x.mean()) / np.sqrt(x.var() + about["norm_epsilon"]) * layer["norm_scale"] + layer["norm_shift"]
        x = np.maximum(x, 0) if k < about["layers"] - 1 else np.tanh(x)
    return x


def read_json(path):
    about = json.loads(path.read_text())
    return about, {name: np.array(values) for name, values in about.pop("arrays").items()}


def run_onnx(path, obs, goal, module):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(path))
    (action,) = session.run(["action"], {"obs": obs, "goal": goal, "module": module.astype(np.int64)})
    return action


# NumPy and ONNX.


@pytest.fixture(scope="module")
def four():
    """The committed policy, and examples of it."""
    trained = curious_jax.load_policy(ROOT / "pretrained" / "four-modules")
    return trained, *examples(trained)


def test_the_committed_policy_in_numpy(four, tmp_path):
    pytest.importorskip("safetensors")
    trained, obs, goal, module, action = four
    space = {}
    write(trained, "safetensors", tmp_path / "four")
    exec(BLOCKS[0].replace("four/", f"{tmp_path}/four/"), space)
    found = [space["act"](*row) for row in zip(obs, goal, module)]
    np.testing.assert_allclose(found, action, atol=1e-5)


def test_json_gives_the_same_numbers_back(four, tmp_path):
    trained, space = four[0], {}
    write(trained, "json", tmp_path / "four-json")
    exec(BLOCKS[1].replace("four-json/", f"{tmp_path}/four-json/"), space)
    for name, array in portable.make(loaded(trained)).arrays.items():
        np.testing.assert_array_equal(space["a"][name].astype(array.dtype), array)  # to the bit


def test_the_committed_policy_as_a_graph(four, tmp_path):
    pytest.importorskip("onnx")
    trained, obs, goal, module, action = four
    path = write(trained, "onnx", tmp_path / "four")
    np.testing.assert_allclose(run_onnx(path, obs, goal, module), action, atol=1e-5)
    np.testing.assert_allclose(run_onnx(path, obs[:1], goal[:1], module[:1]), action[:1], atol=1e-5)


KINDS = {
    "plain": {},
    "layer norm": {"actor_layer_norm": True, "hidden_layers": 2},
    "experts": {"algorithm": "mgme"},
    "experts with layer norm": {"algorithm": "mgme", "actor_layer_norm": True},
    "flat goal": {"algorithm": "her"},
    "not normalised": {"normalize": False},
    "td3": {"learner": "td3"},
    "failed sensor": {"perturb_at": 8, "perturb_cube": 1, "perturb_shift": 0.5},
    "failed sensor of a goal that moves": {
        **dict(world="fetch", modules=("reach", "stack"), distractors=0),
        **dict(perturb_at=8, perturb_cube=1, perturb_shift=0.5),
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_policy(tmp_path, kind):
    trained = untrained(**KINDS[kind])
    obs, goal, module, action = examples(trained)
    assert len(np.unique(action.round(3), axis=0)) > DRAWS / 2  # not one action for all
    about, arrays = read_json(write(trained, "json", tmp_path / "json"))
    found = [by_hand(about, arrays, *row) for row in zip(obs, goal, module)]
    np.testing.assert_allclose(found, action, atol=1e-5)
    if kind in ("plain", "not normalised", "td3"):
        act = page_act(about, arrays)
        np.testing.assert_allclose([act(*row) for row in zip(obs, goal, module)], action, atol=1e-5)
    pytest.importorskip("onnx")
    path = write(trained, "onnx", tmp_path / "onnx")
    np.testing.assert_allclose(run_onnx(path, obs, goal, module), action, atol=1e-5)


def test_the_files_say_what_they_are(tmp_path):
    onnx, safetensors = pytest.importorskip("onnx"), pytest.importorskip("safetensors")
    trained = untrained()
    about, _ = read_json(write(trained, "json", tmp_path / "json"))
    assert about["modules"] == ["reach", "push", "distractor1"] and about["goal_slots"] == [[0, 2], [2, 4], [4, 6]]
    with safetensors.safe_open(write(trained, "safetensors", tmp_path / "safetensors"), "numpy") as file:
        assert file.metadata() == formats.as_text(about)
    model = onnx.load(write(trained, "onnx", tmp_path / "onnx"))
    assert {entry.key: entry.value for entry in model.metadata_props} == formats.as_text(about)
    named = re.findall(r"`([\w.]+)`", PAGE.split("## safetensors and JSON")[1].split("safetensors keeps")[0])
    assert set(about) <= set(named)


@pytest.mark.slow
def test_the_pages_policy_picks_a_cube_up(monkeypatch, tmp_path, capsys):
    pytest.importorskip("gymnasium")
    pytest.importorskip("safetensors")
    command = ["pretrained/four-modules", str(tmp_path / "four"), "--format", "safetensors"]
    assert f"python -m curious_jax.export {command[0]} four --format safetensors" in PAGE
    assert export.main(command) == 0
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(BLOCKS[0], space)
    exec(BLOCKS[2], space)
    assert capsys.readouterr().out.splitlines()[-1] == "solved: True"


def test_every_folder_that_the_page_reads_has_its_command():
    read = set(re.findall(r'"(four[\w-]*)/actor\.(\w+)"', PAGE))
    assert len(read) == 3
    for folder, format_ in read:
        assert f"python -m curious_jax.export pretrained/four-modules {folder} --format {format_}" in PAGE


def test_the_pages_session_runs(four, monkeypatch, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    write(four[0], "onnx", tmp_path / "four-onnx")
    monkeypatch.chdir(tmp_path)
    space = {}
    exec(BLOCKS[3], space)
    assert space["action"].shape == (3, 4)


# Goals that follow the observation.


def lifted(goal_at):
    """A module of one's own whose goal moves."""
    place = slice(0, 2)
    return env_modules.Module(
        name="own",
        goal_size=2,
        outcome=lambda obs: obs[place],
        sample_goal=lambda key: jnp.zeros(2),
        solved=lambda obs, goal: env_modules.distance_solved(obs[place], goal, 0.1),
        goal_at=goal_at,
    )


@pytest.mark.parametrize(
    ("goal_at", "rule"),
    [
        (lambda goal, obs: goal, [[1, 1], [0, 0], [0, 0]]),
        (lambda goal, obs: jnp.stack([2 * obs[3] + 0.5, jnp.float32(0.1)]), [[0, 0], [2, 0], [0.5, 0.1]]),
        (lambda goal, obs: goal + obs[4:6], [[1, 1], [1, 1], [0, 0]]),
    ],
)
def test_the_rule_of_a_goal_that_moves(goal_at, rule):
    found = portable._goal_rule(env_modules.ModuleTable((lifted(goal_at),)), 8)
    np.testing.assert_allclose([found[f"goal.{name}"] for name in ("keep", "scale", "offset")], rule, atol=1e-6)


@pytest.mark.parametrize(
    "goal_at",
    [
        lambda goal, obs: obs[:2] + obs[2:4],
        lambda goal, obs: obs[:2] ** 2,
        lambda goal, obs: goal[::-1],
        lambda goal, obs: jnp.where(obs[0] > 0.2, obs[:2], goal),
        lambda goal, obs: obs[:2] / jnp.linalg.norm(obs[:2]),
    ],
)
def test_a_goal_that_no_file_can_say_is_refused(goal_at):
    with pytest.raises(ConfigError, match="own: its goal follows the observation .*take --format folder"):
        portable._goal_rule(env_modules.ModuleTable((lifted(goal_at),)), 8)


# What can go wrong.


def test_numbers_that_are_not_finite_are_refused():
    trained = untrained()
    trained.params.actor["params"]["MLP_0"]["Dense_0"]["bias"] = jnp.full(8, jnp.nan)
    with pytest.raises(ConfigError, match="not finite; export another"):
        portable.make(loaded(trained))


@pytest.mark.parametrize("name", ["safetensors", "onnx"])
def test_a_missing_package_is_named_with_its_extra(finished_run, refuse, monkeypatch, name):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda p, *rest: None if p == name else find(p, *rest))
    line = refuse(export, finished_run, "new", "--format", name)
    assert line == (
        f'error: --format {name}: {name} is not installed; pip install "curious_jax[formats]", or take --format json'
    )


def test_another_format_is_refused(finished_run, refuse):
    line = refuse(export, finished_run, "new", "--format", "pickle")
    assert "--format pickle: must be one of folder, safetensors, onnx, json" in line


def test_a_full_disk_leaves_nothing(finished_run, empty_folder, monkeypatch, capsys):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    for place, name in (("curious_jax.run.formats.write", full), ("curious_jax.run.files.sync", full)):
        with monkeypatch.context() as patch:
            patch.setattr(place, name)
            assert export.main([str(finished_run), "a/b/new", "--format", "json"]) == 1
        assert capsys.readouterr().err == "error: a/b/new: No space left on device; make room there\n"
        assert not list(empty_folder.iterdir())


def test_a_folder_has_its_name_when_it_is_whole(tmp_path):
    with files.atomic_folder(tmp_path / "new") as scratch:
        (scratch / "a").write_text("a")
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    with pytest.raises(OSError), files.atomic_folder(tmp_path / "new"):
        pass  # it holds something
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "a"]


def test_an_exported_file_is_no_run(finished_run, tmp_path):
    assert export.main([str(finished_run), str(tmp_path / "new"), "--format", "json"]) == 0
    with pytest.raises(ConfigError, match="new: holds a policy for programs without JAX; give the run"):
        policies.find(tmp_path / "new")
