"""Policies on disk: what goes in comes out; what is no policy, or a damaged one, is refused in one sentence."""

import errno
import json
import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax.errors import ConfigError
from curious_jax.run import manifest, policies, resume

CONFIG = configs.make_config(world="point", modules=("reach", "push"), seed=3)
INFO = {"episodes": 8, "mean_success": 0.5}


def policy(scale=1.0):
    return {"layer": {"kernel": scale * jnp.arange(6.0).reshape(2, 3), "bias": scale * jnp.ones(3)}}


def save(run, name="last", scale=1.0):
    policies.save(run / "policies" / name, policy(scale), CONFIG, INFO)
    (run / "config.json").write_text("{}")


def test_round_trip(tmp_path):
    save(tmp_path)
    saved = policies.find(tmp_path)
    assert saved.config == CONFIG
    assert (saved.info["episodes"], saved.info["format"]) == (8, policies.FORMAT)
    found = policies._restore(saved, jax.eval_shape(policy))
    jax.tree.map(np.testing.assert_array_equal, found, policy())


def test_a_later_policy_takes_the_place_and_leaves_no_debris(tmp_path):
    save(tmp_path)
    save(tmp_path, scale=2.0)
    found = policies._restore(policies.find(tmp_path), jax.eval_shape(policy))
    np.testing.assert_array_equal(found["layer"]["bias"], 2.0)
    assert [p.name for p in (tmp_path / "policies").iterdir()] == ["last"]


def test_between_the_two_renames_the_old_policy_is_found(tmp_path):
    save(tmp_path)
    (tmp_path / "policies" / "last").rename(tmp_path / "policies" / ".last.old")
    assert policies.find(tmp_path).info["episodes"] == 8


def test_best_and_a_policys_own_folder(tmp_path):
    save(tmp_path, "best")
    assert policies.find(tmp_path, "best").path.name == "best"
    assert policies.find(tmp_path / "policies" / "best").config == CONFIG


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        policies.find(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        policies.find(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds no policy yet"):
        policies.find(tmp_path)


def test_a_misspelt_name_is_answered_with_the_nearest(tmp_path):
    save(tmp_path / "reach-7")
    (tmp_path / "reach-8").mkdir()  # no run
    with pytest.raises(ConfigError, match=r"no such folder; did you mean \S*/reach-7\? give the folder"):
        policies.find(tmp_path / "reach-9")
    with pytest.raises(ConfigError, match=r"four-module: no such folder; did you mean four-modules\?"):
        policies.find("four-module")
    with pytest.raises(ConfigError, match=r"no such folder; give the folder"):
        policies.find(tmp_path / "nowhere" / "reach-7")
    with pytest.raises(ConfigError, match=r"--resume .*no such folder; did you mean \S*/reach-7\?"):
        resume.check_folder(tmp_path / "reach-77")


def test_damaged_and_foreign_policies_are_refused(tmp_path):
    save(tmp_path)
    info = tmp_path / "policies" / "last" / "policy.json"
    data = json.loads(info.read_text())
    for text, said in (
        (json.dumps(data | {"format": 99}), "has format 99"),
        (json.dumps(data | {"episodes": None}), "policy.json is damaged"),
        (json.dumps(data | {"config": None}), "policy.json is damaged"),
        ("[" * 100_000, "policy.json is damaged"),
        ("{}", "policy.json is damaged"),
    ):
        info.write_text(text)
        with pytest.raises(ConfigError, match=r"the policy is damaged \(policy.json is not what was written\)"):
            policies.find(tmp_path)
        manifest.seal(info.parent, policies.PARTS)  # as whoever means harm would
        with pytest.raises(ConfigError, match=said):
            policies.find(tmp_path)


def test_an_impossible_number_of_seeds_costs_nothing(finished_run, tmp_path):
    run = shutil.copytree(finished_run / "policies" / "last", tmp_path / "many")
    info = json.loads((run / "policy.json").read_text())
    info["config"]["num_seeds"] = 10**9
    (run / "policy.json").write_text(json.dumps(info))
    manifest.seal(run, policies.PARTS)
    with pytest.raises(ConfigError):
        policies.load(run, seed_index=3)


def test_every_changed_bit_is_noticed(tmp_path):
    """A bit of white space in the manifest may change nothing."""
    save(tmp_path)
    folder = policies.find(tmp_path).path
    random, like, noticed = np.random.default_rng(0), jax.eval_shape(policy), 0
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for bit in random.integers(8 * len(whole), size=100):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            try:
                found = policies._restore(policies.find(tmp_path), like)
            except ConfigError:
                noticed += 1
            else:
                jax.tree.map(np.testing.assert_array_equal, found, policy())
                assert path.name == "manifest.json"
        path.write_bytes(whole)
    assert noticed > 250


@pytest.mark.parametrize("name", ["policy.npz", "policy.json", "manifest.json"])
@pytest.mark.parametrize("kind", ["lost", "empty", "half", "link", "pipe", "folder", "garbage"])
def test_damaged_files_are_refused(tmp_path, name, kind):
    save(tmp_path)
    path = policies.find(tmp_path).path / name
    whole = path.read_bytes()
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(whole)
    {
        "lost": lambda: None,
        "empty": lambda: path.write_bytes(b""),
        "half": lambda: path.write_bytes(whole[: len(whole) // 2]),
        "link": lambda: path.symlink_to(tmp_path / "elsewhere"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "garbage": lambda: path.write_bytes(b"\xff" * 100),
    }[kind]()
    with pytest.raises(ConfigError, match="the policy is damaged"):
        policies.find(tmp_path)


def test_a_failure_keeps_the_policy_before(tmp_path, monkeypatch):
    save(tmp_path)

    def full_disk(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    rename = os.rename
    for patched, function in (
        ((manifest, "seal"), full_disk),
        ((os, "rename"), lambda a, b: full_disk() if str(a).endswith(".new") else rename(a, b)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(*patched, function)
            with pytest.raises(OSError):
                save(tmp_path, scale=2.0)
        found = policies._restore(policies.find(tmp_path), jax.eval_shape(policy))
        np.testing.assert_array_equal(found["layer"]["bias"], 1.0)
        assert [p.name for p in (tmp_path / "policies").iterdir()] == ["last"]


def test_a_policy_of_another_shape_or_with_lost_files_is_refused(tmp_path):
    save(tmp_path)
    saved = policies.find(tmp_path)
    wider = {"layer": {"kernel": jax.ShapeDtypeStruct((2, 5), jnp.float32)}}
    with pytest.raises(ConfigError, match="another network"):
        policies._restore(saved, wider)


@pytest.mark.parametrize(
    "held", [{}, {"policy.json": "", ".DS_Store": ""}, {"policy.json": "", "README.md": ""}, {"export.json": ""}]
)
def test_a_policy_may_take_the_place_of_a_policy_or_of_nothing(held, tmp_path):
    for name, text in held.items():
        (tmp_path / name).write_text(text)
    policies.check_place(tmp_path)
    policies.check_place(tmp_path / "new")


@pytest.mark.parametrize(
    "held",
    [["notes.txt"], ["policy.json", "notes.txt"], ["policies/"], ["policy.npz"], ["policy.json", ".git/"], [".env"]],
)
def test_a_policy_never_takes_the_place_of_other_things(held, tmp_path):
    for name in held:
        (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    with pytest.raises(ConfigError, match="holds other things than a policy; name a new folder"):
        policies.check_place(tmp_path)


def test_a_policy_takes_no_file_s_or_link_s_place(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is no folder; name a new folder"):
        policies.check_place(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="is a link; name a new folder"):
        policies.check_place(tmp_path / "link")


def test_a_checkpoint_is_not_taken_for_a_policy_of_its_number(tmp_path):
    save(tmp_path)
    (tmp_path / "checkpoints" / "6400").mkdir(parents=True)
    with pytest.raises(ConfigError, match="no policy was kept after 6400 episodes; there is none"):
        policies.find(tmp_path, "6400")
    with pytest.raises(ConfigError, match="no policy was kept after 6400 episodes"):
        policies.find(tmp_path, 6400)
