"""Policies on a Hugging Face hub: the real client, against a stand-in of the hub on this machine."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import hub as stand_in

from curious_jax import evaluate, export, play
from curious_jax.errors import ConfigError
from curious_jax.run import hub, manifest, policies, zoo
from curious_jax.show import card

pytest.importorskip("huggingface_hub")
ROOT = Path(__file__).parents[2]
ENVIRONMENT = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HF_OIDC_RESOURCE",
    "HF_HUB_OFFLINE",
    "HF_HUB_CACHE",
    "HF_ASSETS_CACHE",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A hub, and a client that was imported when the environment named it: it knows no other, and has its own home."""

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
            del sys.modules[name]

    with pytest.MonkeyPatch.context() as patch, stand_in.serve() as found:
        found.home = tmp_path_factory.mktemp("hf")
        for name in ENVIRONMENT:
            patch.delenv(name, raising=False)
        patch.setenv("HF_ENDPOINT", found.address)
        patch.setenv("HF_HOME", str(found.home))
        forget()
        yield found
        forget()


@pytest.fixture
def served(server):
    """The hub without repositories, the client's home empty, nobody logged in."""
    for path in server.home.iterdir():
        shutil.rmtree(path)
    server.files.clear()
    server.asked.clear()
    server.lost.clear()
    server.state = stand_in.UP
    return server


@pytest.fixture
def logged_in(served, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", stand_in.TOKEN)
    return served


def put(served, name, folder=ROOT / "pretrained" / "fetch-push", **others):
    """Lays a policy's files into a repository."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    served.files[name] = files | others


def kept(served):
    """The files of policies that are kept here."""
    paths = [path for path in served.home.rglob("*") if path.is_file() and ".cache" not in path.parts]
    return [path for path in paths if path.name != hub.COMMIT]


def test_the_files_are_those_of_a_policy_and_its_card():
    assert set(hub.FILES) == {*policies.PARTS, manifest.MANIFEST, card.CARD}
    assert (hub.README, hub.NEEDED, hub.PARTS) == (card.README, policies.INFO, policies.PARTS)


def test_a_policy_goes_to_the_hub_and_comes_back(logged_in, empty_folder, capsys):
    assert export.main(["fetch-push", "--push-to", "me/probe"]) == 0
    said = "".join(capsys.readouterr())
    assert said.startswith(f"{logged_in.address}/me/probe\nshow it with: ")
    assert said.endswith("-m curious_jax.play hub:me/probe\n")
    assert set(logged_in.files["me/probe"]) == {*hub.FILES, hub.README}
    assert [path for _, path in logged_in.asked if "/commit/" in path] == ["/api/models/me/probe/commit/main"]
    assert not list(empty_folder.iterdir())
    mine, theirs = policies.find("fetch-push"), policies.find("hub:me/probe")
    assert theirs.config == mine.config and theirs.info["episodes"] == mine.info["episodes"]
    with np.load(mine.path / policies.ARRAYS) as old, np.load(theirs.path / policies.ARRAYS) as new:
        assert old.files == new.files and all(np.array_equal(old[name], new[name]) for name in old.files)
    success = json.loads((mine.path / card.CARD).read_text())["success"]
    assert card.success(theirs, policies.load(theirs)) == success  # it is handed on
    assert stand_in.TOKEN not in said
    assert not any(stand_in.TOKEN.encode() in path.read_bytes() for path in logged_in.home.rglob("*") if path.is_file())


def test_the_model_card_has_the_hubs_metadata_and_the_success():
    yaml = pytest.importorskip("yaml")
    about = json.loads((ROOT / "pretrained" / "four-modules" / card.CARD).read_text())
    text = (ROOT / "pretrained" / "four-modules" / card.README).read_text()
    _, metadata, rest = hub.page(about, text, "me/four").split("---\n", 2)
    found = yaml.safe_load(metadata)
    assert (found["library_name"], found["license"]) == ("curious_jax", "mit")
    assert found["pipeline_tag"] == "reinforcement-learning" and set(hub.TAGS) <= set(found["tags"])
    (model,) = found["model-index"]
    rates = {result["dataset"]["name"]: result["metrics"][0]["value"] for result in model["results"]}
    assert rates == {name: rate["rate"] for name, rate in about["success"].items()} and model["name"] == "four"
    title, rest_of_card = text.split("\n", 1)
    assert rest == f"\n{title}\n\n    python -m curious_jax.play hub:me/four\n{rest_of_card}"


def test_a_card_without_success_claims_none():
    about = json.loads((ROOT / "pretrained" / "four-modules" / card.CARD).read_text()) | {"success": card.NOT_RECORDED}
    assert "model-index" not in hub.page(about, "# Title\n\ntext\n", "me/four")


def test_only_the_policys_own_files_are_fetched(served):
    put(served, "a/b", **{"policy.pkl": b"\x80\x04.", "train.py": b"raise SystemExit", "pytorch_model.bin": b"x"})
    found = policies.find("hub:a/b")
    assert found.config.modules == ("reach", "push")
    assert served.fetched() == set(hub.FILES) == {path.name for path in kept(served)}


def test_what_is_here_already_is_not_fetched_again(served):
    put(served, "a/b")
    folder = zoo.find(Path("hub:a/b"))
    served.asked.clear()
    assert zoo.find(Path("hub:a/b")) == folder and not served.fetched()
    put(served, "a/b", ROOT / "pretrained" / "four-modules")
    assert policies.find("hub:a/b@main").config.modules == ("reach", "push", "pnp", "stack")


@pytest.mark.parametrize("program", [evaluate, play], ids=["evaluate", "play"])
def test_programs_take_its_name(program, served, refuse):
    put(served, "a/b")
    assert "--seed-index 7" in refuse(program, "hub:a/b", "--seed-index", "7")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("hub:four", "hub:four: must be hub:OWNER/NAME"),
        ("hub:a/b/c", "hub:a/b/c: must be hub:OWNER/NAME"),
        ("hub:a/../b", "hub:a/../b: must be hub:OWNER/NAME"),
        ("hub:a/b--c", "hub:a/b--c: is no name of a repository"),
        ("hub:a/none", "hub:a/none: the hub has no such repository, or a private one; log in by `hf auth login`"),
        ("hub:a/b@gone", "hub:a/b@gone: the repository has no such revision; leave @REVISION out"),
        ("hub:a/other", "hub:a/other: holds no policy of curious_jax (no policy.json in it)"),
        ("hub:a/damaged", "the policy is damaged (policy.npz is not what was written); take another copy of it"),
    ],
)
def test_what_cannot_be_fetched_is_one_line(name, line, served, refuse):
    put(served, "a/b")
    served.files["a/other"] = {"model.safetensors": b"x"}
    put(served, "a/damaged", **{"policy.npz": b"x"})
    assert line in refuse(evaluate, name)
    assert bool(kept(served)) == name.endswith("damaged")


@pytest.mark.parametrize(
    ("state", "line"),
    [(stand_in.SICK, "the hub is out of order (503); try again later"), (stand_in.GONE, "the hub cannot be reached (")],
)
def test_a_hub_that_is_not_there_is_one_line_and_the_last_copy_will_do(state, line, served, refuse, capsys):
    put(served, "a/b")
    served.state = state
    assert f"hub:a/b: {line}" in refuse(evaluate, "hub:a/b")
    assert f"--push-to a/b: {line}" in refuse(export, "fetch-push", "--push-to", "a/b")
    assert not kept(served)
    served.state = stand_in.UP
    folder = policies.find("hub:a/b").path
    served.state = state
    capsys.readouterr()
    assert policies.find("hub:a/b").path == folder
    note = capsys.readouterr().err
    assert note.startswith(f"note: hub:a/b: {line}") and note.endswith("; what was fetched last time is taken\n")


@pytest.mark.parametrize("lost", hub.FILES)
def test_half_a_copy_is_not_taken_for_the_last_one(lost, served, refuse):
    put(served, "a/b")
    served.lost.add(lost)
    assert "hub:a/b: the hub cannot be reached (" in refuse(evaluate, "hub:a/b")
    assert any(path.endswith(f"/{lost}") for _, path in served.asked) and not kept(served)
    served.lost.clear()
    assert policies.find("hub:a/b").config.modules == ("reach", "push")


def test_a_lost_connection_leaves_the_earlier_copy_whole(served, capsys):
    put(served, "a/b")
    policies.find("hub:a/b")
    put(served, "a/b", ROOT / "pretrained" / "four-modules")
    served.lost.add(policies.ARRAYS)
    assert policies.find("hub:a/b").config.modules == ("reach", "push")
    assert "what was fetched last time is taken" in capsys.readouterr().err
    served.lost.clear()
    assert policies.find("hub:a/b").config.modules == ("reach", "push", "pnp", "stack")


def test_a_copy_that_was_damaged_here_is_fetched_again(served):
    put(served, "a/b")
    (policies.find("hub:a/b").path / policies.ARRAYS).write_bytes(b"x")
    assert policies.find("hub:a/b").config.modules == ("reach", "push")


def test_sending_needs_a_log_in(served, refuse, monkeypatch):
    line = "--push-to me/new: the hub does not allow that (401); log in by `hf auth login`, or set HF_TOKEN"
    assert line in refuse(export, "fetch-push", "--push-to", "me/new")
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    assert line in refuse(export, "fetch-push", "--push-to", "me/new")
    assert not served.files


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--push-to", "four"], "--push-to four: must be OWNER/NAME"),
        (["here", "--push-to", "a/b"], "--push-to a/b: is in place of here; leave one of the two out"),
        (["--push-to", "a/b", "--format", "json"], "--format json: --push-to sends what curious_jax loads"),
    ],
)
def test_wrong_options_reach_no_hub(argv, line, served, refuse):
    assert line in refuse(export, "fetch-push", *argv)
    assert not served.asked


def test_without_the_client_the_extra_is_named(refuse, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "huggingface_hub" else there(name, *a)
    )
    line = 'huggingface_hub is not installed; pip install "curious_jax[hub]"'
    assert f"hub:a/b: {line}" in refuse(evaluate, "hub:a/b")
    assert f"--push-to a/b: {line}" in refuse(export, "fetch-push", "--push-to", "a/b")


def test_a_strangers_policy_imports_nothing_unasked(served, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    loaded = policies.load(ROOT / "pretrained" / "fetch-push")
    config = policies.configs.from_dict(policies.configs.to_dict(loaded.config) | {"imports": ["colorsys"]})
    policies.save(copy, loaded.params, config, {"episodes": 1, "mean_success": 0.0})
    put(served, "a/b", copy)
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with pytest.raises(ConfigError, match="hub:a/b: wants to import your Python module colorsys; .*--import colorsys"):
        policies.find("hub:a/b")
    assert "colorsys" not in sys.modules
    monkeypatch.setitem(sys.modules, "colorsys", json)
    assert policies.find("hub:a/b").config.imports == ("colorsys",)
