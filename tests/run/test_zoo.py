"""The policies that come with the package: there by name, each with a card."""

import json
from pathlib import Path

import pytest

import curious_jax
from curious_jax.errors import ConfigError
from curious_jax.run import zoo

ROOT = Path(__file__).parents[2]


def test_the_package_leads_to_the_policies_of_the_clone():
    assert (Path(curious_jax.__file__).parent / "run" / "pretrained").samefile(ROOT / "pretrained")
    assert zoo.names() == sorted(path.parent.name for path in (ROOT / "pretrained").glob("*/policy.json"))
    assert {"four-modules", "fetch-push"} <= set(zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_every_policy_has_a_card_with_success_and_command(name):
    folder = zoo.shelf() / name
    card, info = (json.loads((folder / file).read_text()) for file in ("card.json", "policy.json"))
    assert [module["name"] for module in card["modules"]] == info["config"]["modules"]
    assert card["training"]["episodes"] == info["episodes"]
    assert card["training"]["command"] in (folder / "README.md").read_text()
    for module in info["config"]["modules"]:
        found = card["success"][module]
        assert found["episodes"] >= 200 and found["rate"] == found["successes"] / found["episodes"]


def test_paths_are_left_alone(tmp_path):
    for path in (tmp_path / "four-modules", Path("runs/four-modules"), Path("a/pretrained/four-modules"), Path(".")):
        assert zoo.find(path) == path


def test_an_installation_without_policies_says_so(empty_folder, monkeypatch):
    monkeypatch.setattr(curious_jax, "__file__", str(empty_folder / "curious_jax" / "__init__.py"))
    with pytest.raises(ConfigError, match="pretrained/four-modules: no such policy; none came with this copy"):
        zoo.find(Path("pretrained/four-modules"))
