"""The page in a notebook's cell: one text with everything in it, in a frame of its own. tests/web opens it."""

import base64
import gzip
import html
import json
import re

import jax
import numpy as np
import pytest

import curious_jax
import envs
from curious_jax.errors import ConfigError
from curious_jax.run import policies
from curious_jax.show import browser
from envs.errors import ArgumentError
from envs.pictures import page_world

INDEX = """<html><head><link rel="stylesheet" href="style.css" /></head><body>
<script src="data.js"></script>
<script src="page.js"></script>
</body></html>"""


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A page as `make web` leaves it, in small; its program has what may not stand within a page."""
    for name, text in (
        (browser.INDEX, INDEX),
        (browser.STYLE, "b { color: red }"),
        (browser.PROGRAM, "a = '</script><!-- & < 1';"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(browser, "PAGE", tmp_path)


def unpack(data):
    """The world and the policies that data.js holds."""
    found = re.fullmatch(r'window.curiousData = \{ world: "(.*)", policies: "(.*)" \};\n', data)
    return [json.loads(gzip.decompress(base64.b64decode(text))) for text in found.groups()]


def test_the_page_is_one_text_in_which_scripts_end_where_they_should(built):
    page = browser.page("data = 1;")
    assert "src=" not in page and "href=" not in page
    assert "<style>\nb { color: red }</style>" in page
    assert re.findall(r"<script>\n(.*?)</script>", page) == ["data = 1;", r"a = '<\/script>\x3C!-- & < 1';"]


def test_a_notebook_gets_a_frame_with_the_whole_page(built):
    frame = browser.Frame(browser.page('data = "x";'), 500)
    (source,) = re.findall(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" ', frame._repr_html_())
    assert html.unescape(source) == frame.html
    assert "height: 500px" in frame._repr_html_() and "notebook" in repr(frame)


def test_numbers_reach_the_page_as_they_are():
    arrays = {"a": np.float32([0.1, 1e-7]), "b": np.arange(3)}
    world, stages = unpack(browser.data({"slots": slice(2, 5)}, [{"episodes": 9, **arrays}, {"episodes": 1}]))
    assert world == {"slots": [2, 5]}
    assert stages == [{"episodes": 1}, {"episodes": 9, "a": [0.1, 1e-7], "b": [0, 1, 2]}]


def test_the_users_policy_and_its_start_are_in_it(built):
    frame = curious_jax.show_policy("fetch-push")
    (data,) = re.findall(r"<script>\n(window.*?\n)</script>", frame.html)
    world, (policy,) = unpack(data)
    loaded = policies.load("fetch-push")
    assert [module["name"] for module in world["modules"]] == policy["modules"] == ["reach", "push"]
    assert world["locked"] and policy["episodes"] == loaded.episodes
    mean = np.float32(policy["arrays"]["obs.mean"])
    assert np.array_equal(mean, np.asarray(loaded.params.normalizer.obs.mean))


def test_without_the_page_one_line_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "PAGE", tmp_path / "none")
    with pytest.raises(ConfigError, match="is not built: run `make web`"):
        curious_jax.show_policy("four-modules")


@pytest.mark.parametrize("options", [{"world": "point", "modules": ("reach",)}, {"distractors": 1}])
def test_worlds_that_the_page_cannot_show_are_refused(options):
    with pytest.raises(ArgumentError, match="the page shows the arm without distractors"):
        page_world.describe(envs.make(**options), "default", str)


def test_policies_that_the_page_cannot_play_are_refused():
    loaded = policies.load("fetch-push")
    widened = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), loaded.params.actor)
    with pytest.raises(ConfigError, match="mine: the page plays policies of curious and muvfa"):
        browser.describe_policy(loaded._replace(params=loaded.params.replace(actor=widened)), "mine")
