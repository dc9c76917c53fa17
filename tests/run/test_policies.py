"""Policy exports: what goes in comes out; what is no export is refused in one sentence."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from curious_jax import config as configs
from curious_jax.errors import ConfigError
from curious_jax.run import policies

CONFIG = configs.make_config(world="point", modules=("reach", "push"), seed=3)
INFO = {"episodes": 8, "mean_success": 0.5}


def policy(scale=1.0):
    return {"layer": {"kernel": scale * jnp.arange(6.0).reshape(2, 3), "bias": scale * jnp.ones(3)}}


def save(run, name="last", scale=1.0):
    policies.save(run / "checkpoints" / name, policy(scale), CONFIG, INFO)
    (run / "config.json").write_text("{}")


def test_round_trip(tmp_path):
    save(tmp_path)
    export = policies.find(tmp_path)
    assert export.config == CONFIG
    assert (export.info["episodes"], export.info["format"]) == (8, policies.FORMAT)
    found = policies.restore(export, jax.eval_shape(policy))
    jax.tree.map(np.testing.assert_array_equal, found, policy())


def test_a_later_export_takes_the_place_and_leaves_no_debris(tmp_path):
    save(tmp_path)
    save(tmp_path, scale=2.0)
    found = policies.restore(policies.find(tmp_path), jax.eval_shape(policy))
    np.testing.assert_array_equal(found["layer"]["bias"], 2.0)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["last"]


def test_between_the_two_renames_the_old_export_is_found(tmp_path):
    save(tmp_path)
    (tmp_path / "checkpoints" / "last").rename(tmp_path / "checkpoints" / ".last.old")
    assert policies.find(tmp_path).info["episodes"] == 8


def test_best_and_an_exports_own_folder(tmp_path):
    save(tmp_path, "best")
    assert policies.find(tmp_path, "best").path.name == "best"
    assert policies.find(tmp_path / "checkpoints" / "best").config == CONFIG


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        policies.find(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="is not the folder of a run"):
        policies.find(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds no policy yet"):
        policies.find(tmp_path)


def test_damaged_and_foreign_exports_are_refused(tmp_path):
    save(tmp_path)
    info = tmp_path / "checkpoints" / "last" / "export.json"
    data = json.loads(info.read_text())
    info.write_text(json.dumps(data | {"format": 99}))
    with pytest.raises(ConfigError, match="format 99"):
        policies.find(tmp_path)
    info.write_text("{")
    with pytest.raises(ConfigError, match="damaged"):
        policies.find(tmp_path)


def test_a_policy_of_another_shape_or_with_lost_files_is_refused(tmp_path):
    save(tmp_path)
    export = policies.find(tmp_path)
    wider = {"layer": {"kernel": jax.ShapeDtypeStruct((2, 5), jnp.float32)}}
    with pytest.raises(ConfigError, match="cannot be read"):
        policies.restore(export, wider)
    for file in (export.path / "policy").rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be read"):
        policies.restore(export, jax.eval_shape(policy))
