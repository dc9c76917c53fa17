"""Documentation: what it says of the program is what the program does, and the site builds without a warning."""

import html
import html.parser
import importlib
import importlib.util
import os
import pkgutil
import re
import runpy
import shutil
import subprocess
import sys
import types
import urllib.parse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import curious_jax
from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.config import option_name
from curious_jax.config.fields import ESTIMATORS, GOALS
from curious_jax.learner import curriculum, replay
from envs import modules as env_modules
from envs.fetch import constants
from envs.fetch.observation import ObservationLayout

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def page(name):
    return (DOCS / name).read_text()


def code_blocks(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def table_rows(text):
    """The cells of every table row of a page."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def load_hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks


# The site.


def build_site(folder, project=ROOT):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    quiet = dict(os.environ, NO_MKDOCS_2_WARNING="1")  # Material's advertisement of its successor
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, env=quiet)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    return build_site(tmp_path_factory.mktemp("docs") / "site")


@pytest.mark.slow
def test_the_site_builds_without_a_warning(site):
    assert "--num-envs" in (site / "settings.html").read_text()
    assert not list(site.rglob("checkpoints")) and not list(site.rglob("*.py"))


class Addresses(html.parser.HTMLParser):
    """Collects a page's links, the files that it loads, and the places that can be linked to."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found["href"])
        elif found.get("src"):
            self.loads.append(found["src"])


def broken_addresses(site):
    """Every (page, address) that does not lead to a file of the site, and to a place in it where one is named.

    Links to other sites lead out of it; files that a page loads may not.
    """
    pages = {path: Addresses(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for address in [*page.links, *page.loads]:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme == "data" or parts.scheme and address not in page.loads:
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            there = not parts.scheme and not parts.netloc and target.is_file()
            if not there or parts.fragment and target in pages and parts.fragment not in pages[target].places:
                yield path.name, address


@pytest.mark.slow
def test_every_link_of_the_site_resolves_offline(site):
    assert not sorted(broken_addresses(site))


def test_headings_are_places():
    assert {"adding-a-part", "training-and-evaluating"} <= heading_places(DOCS / "api.md")


def test_a_link_that_leads_nowhere_would_be_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a> <a href="b.html#there"></a> <a href="c.html"></a> <a href="#top"></a>'
        '<a href="https://elsewhere"></a> <script src="https://elsewhere/x.js"></script> <img src="data:,">'
    )
    (tmp_path / "b.html").write_text('<p id="here">')
    found = [address for _, address in broken_addresses(tmp_path)]
    assert found == ["b.html#there", "c.html", "#top", "https://elsewhere/x.js"]


def small_project(folder):
    """A project with the page on the browser alone, and our hooks."""
    (folder / "docs").mkdir()
    shutil.copy(DOCS / "hooks.py", folder / "docs")
    (folder / "docs" / "index.md").write_text("# Start")
    (folder / "docs" / "browser.md").write_text("# In a browser\n\n<!-- the arm -->")
    (folder / "mkdocs.yml").write_text(
        "site_name: x\nuse_directory_urls: false\ntheme: {name: material, font: false}\n"
        "extra: {repository: ''}\nhooks: [docs/hooks.py]\n"
        "exclude_docs: hooks.py\nnav:\n  - index.md\n  - browser.md\n"
    )


@pytest.mark.slow
def test_the_site_carries_the_page_of_web_when_it_has_been_built(tmp_path):
    small_project(tmp_path)
    without = build_site(tmp_path / "without", tmp_path)
    assert not (without / "arm").exists() and "arm/" not in (without / "browser.html").read_text()
    (tmp_path / "web" / "dist").mkdir(parents=True)
    (tmp_path / "web" / "dist" / "index.html").write_text('<script src="app.js"></script>')
    (tmp_path / "web" / "dist" / "app.js").write_text("1")
    carried = build_site(tmp_path / "with", tmp_path)
    assert (carried / "arm" / "app.js").read_text() == "1"
    assert not list(broken_addresses(carried))
    for name in ("index.html", "browser.html"):
        assert "arm/index.html" in Addresses((carried / name).read_text()).links


def test_the_browser_page_asks_for_the_link():
    assert load_hooks().ARM_COMMENT in page("browser.md")


def heading_places(path):
    """The names of a page's headings in a link, as MkDocs and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", title.lower().replace("`", "")).strip() for title in titles]
    return {re.sub(r"\s", "-", title) for title in plain}


ALL_PAGES = sorted({*PAGES, *DOCS.rglob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("[a-z]*/*.md")})


@pytest.mark.parametrize("path", ALL_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path):
    text = re.sub(r"`[^`]*`|^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)", text):
        if target.startswith("http"):
            continue
        name, _, place = target.partition("#")
        found = path.parent / name if name else path
        assert found.exists(), target
        assert not place or place in heading_places(found), target


@pytest.mark.parametrize(
    "path", [*PAGES, ROOT / "README.md", *sorted(ROOT.glob("[a-z]*/README.md"))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_files_named_with_their_folder_are_there(path):
    folders = "curious_jax|envs|experiments|tests|notebooks|docs"
    for name in re.findall(rf"`((?:{folders})/[\w/-]+\.\w+)", path.read_text()):
        assert (ROOT / name).exists(), name


def test_every_page_is_in_the_navigation():
    text = (ROOT / "mkdocs.yml").read_text()
    listed = {name for name in re.findall(r"^  - [^:]+: (\S+\.md)$", text, re.MULTILINE)}
    assert {p.name for p in PAGES} <= listed
    assert all((DOCS / name).is_file() for name in listed)


def test_relative_links_out_of_docs_go_to_the_repository():
    hooks = load_hooks()
    text = "[a](../README.md) [b](../../README.md#x) [c](faq.md) [d](../performance.md)"
    assert hooks.repository_links(text, "results/README.md", "https://host/repo/") == (
        "[a](../README.md) [b](https://host/repo/blob/main/README.md#x) [c](faq.md) [d](../performance.md)"
    )
    assert hooks.repository_links("[a](../README.md)", "index.md", "https://host/repo") == (
        "[a](https://host/repo/blob/main/README.md)"
    )


def test_without_an_address_links_out_of_docs_become_names_of_files():
    hooks = load_hooks()
    text = "[a](../README.md#x) [quickstart](../notebooks/quickstart.ipynb) [c](faq.md)"
    assert hooks.repository_links(text, "index.md", "") == "a (`README.md`) `notebooks/quickstart.ipynb` [c](faq.md)"


# Settings: made from the program.


def test_the_settings_page_has_every_setting_with_default_range_and_source():
    text = load_hooks().with_tables(page("settings.md"))
    assert "<!-- table" not in text
    rows = {cells[0]: cells for cells in table_rows(text.replace("\\|", "/")) if len(cells) == 3}
    for name, (_, field) in configs.fields_by_name().items():
        _, default, meaning = rows[f"`{option_name(name)}`"]
        assert default == options.default(name)
        assert all(detail in meaning for detail in options.details(field)), name
    assert rows["`--updates-per-cycle`"][1] == "192, gpu 2000, paper 100, point 80"


def test_an_unknown_table_is_an_error():
    with pytest.raises(KeyError):
        load_hooks().with_tables("<!-- table: nothing -->")


# The algorithm page: quotations of the code, and examples worked by hand.


def test_quoted_code_stands_in_the_program():
    sources = ("trainer.py", "batches.py", "rollout.py", "hindsight.py", "state.py")
    code = " ".join(" ".join((ROOT / "curious_jax" / "learner" / name).read_text().split()) for name in sources)
    table = page("algorithm.md").split("## The formulas")[0]
    quotes = [q for cells in table_rows(table)[2:] for q in re.findall(r"`([^`]+)`", cells[-1])]
    calls = [q for q in quotes if re.search(r"[=(]", q)]
    assert len(calls) >= 20
    for quote in calls:
        assert quote in code, quote


def test_the_algorithm_page_goes_through_algorithm_1_line_by_line():
    lines = []
    for cells in table_rows(page("algorithm.md").split("## The formulas")[0])[2:]:
        for part in cells[0].split(","):
            first, _, last = part.strip().partition("–")
            lines += range(int(first), int(last or first) + 1)
    assert lines == list(range(1, 24))


def test_the_worked_examples_are_right():
    p = curriculum.probabilities(jnp.array([0.1, -0.3, 0.0, 0.0]), 0.4)
    np.testing.assert_allclose(p, [0.25, 0.55, 0.1, 0.1], rtol=1e-6)
    assert replay.shares(p, 256).tolist() == [65, 141, 25, 25]
    assert "gives p = (0.25, 0.55, 0.1, 0.1)" in page("algorithm.md")
    assert "65, 141, 25, 25" in page("algorithm.md")


# The environment page.


def test_the_observation_table_is_the_layouts():
    layout = ObservationLayout(num_cubes=2, num_distractors=1)
    rows = [cells for cells in table_rows(page("environment.md")) if re.fullmatch(r"\d+–\d+", cells[0])]
    found, units = {}, {}
    for index, name, unit in rows:
        first, last = map(int, index.split("–"))
        found[name.strip("`")] = slice(first, last + 1)
        units[name.strip("`")] = unit
    assert found == layout.table() and list(found) == list(layout.table())
    assert units == layout.units()
    assert layout.cube_position(2) == slice(25, 28)  # the page's example


def test_the_environment_pages_numbers_are_the_programs():
    text = page("environment.md")
    for value in (
        f"{constants.EPISODE_LENGTH} control steps",
        f"{constants.SUBSTEPS} physics steps, {constants.CONTROL_PERIOD * 1e3:.0f} ms",
        f"{constants.DISPLACEMENT} m · a[0:3]",
        f"x {constants.DISTRACTOR_X[0]} to {constants.DISTRACTOR_X[1]}",
        f"y {constants.DISTRACTOR_Y[0]} to {constants.DISTRACTOR_Y[1]:.1f}",
        f"a mass of {constants.CUBE_MASS:.0f} kg",
    ):
        assert value in text, value


# A module of one's own: the page's code, run.


@pytest.fixture
def lift_script(tmp_path, monkeypatch):
    """The page's file, in a folder of its own; what it registers is forgotten afterwards."""
    monkeypatch.setattr(env_modules, "_REGISTRY", {})
    path = tmp_path / "lift.py"
    path.write_text(code_blocks(page("own-module.md"))[0])
    return path


def test_the_pages_module_does_what_the_page_says(lift_script):
    runpy.run_path(str(lift_script))
    layout = ObservationLayout(num_cubes=2, num_distractors=0)
    module = env_modules.registered()["lift"].build(layout)

    def at(height):
        return jnp.zeros(layout.size).at[layout.cube_position(1).stop - 1].set(height)

    assert module.outcome(at(0.5)).tolist() == [0.5]
    assert bool(module.solved(at(0.52), jnp.array([0.5]))) and not bool(module.solved(at(0.425), jnp.array([0.5])))
    assert not bool(module.solved(at(jnp.nan), jnp.array([0.5])))
    goals = jax.vmap(module.sample_goal)(jax.random.split(jax.random.key(0), 200))
    assert goals.shape == (200, 1) and 0.475 <= goals.min() and goals.max() <= 0.725
    assert goals.min() - 0.425 >= 0.05 - 1e-6  # none is solved by a cube on the table


@pytest.mark.slow
def test_the_pages_module_trains(lift_script, small):
    command = [sys.executable, "-m", "curious_jax.train", "--import", "lift", "--modules", "reach,push,lift"]
    command += [*small[4:], "--out", "run"]
    path = dict(os.environ, PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=lift_script.parent, capture_output=True, text=True, env=path)
    assert done.returncode == 0, done.stderr
    assert "lift" in (lift_script.parent / "run" / "summary.json").read_text()
    again = code_blocks(page("own-module.md"))[1].replace("runs/NAME", "run").replace("200", "2")
    done = subprocess.run(
        [sys.executable, "-c", again], cwd=lift_script.parent, capture_output=True, text=True, env=path
    )
    assert done.returncode == 0, done.stderr
    assert "'lift': " in done.stdout


# An estimator of one's own: the page's code, run.


def test_the_pages_estimator_is_twenty_lines_and_trains(tmp_path, monkeypatch, small, capsys):
    from curious_jax import train
    from curious_jax.learner import estimators

    monkeypatch.setattr(estimators, "_MAKERS", dict(estimators._MAKERS))
    monkeypatch.syspath_prepend(tmp_path)
    code = code_blocks(page("curricula.md"))[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "surprise.py").write_text(code)
    given = ["--import", "surprise", "--estimator", "surprise", "--out", str(tmp_path / "run")]
    assert train.main([*small, *given]) == 0
    assert '"predicted/push"' in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert train.main(["--resume", str(tmp_path / "run"), "--episodes", "24"]) == 0


def test_the_curricula_page_names_every_choice():
    names = {cells[0].strip("`") for cells in table_rows(page("curricula.md"))}
    assert {*ESTIMATORS, *GOALS} <= names


# The Python page.


def described():
    """The names that the reference describes."""
    return set(re.findall(r"^::: (\S+)$", page("reference.md"), re.MULTILINE))


def public_names():
    """(package, name) of everything that a module of ours lists in `__all__`."""
    for folder in ("curious_jax", "envs", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            if re.search(r"^__all__ = ", path.read_text(), re.MULTILINE):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                yield from ((module, name) for name in importlib.import_module(module).__all__)


def test_every_public_name_is_in_the_reference():
    """Under the name of its home where the package only hands it on, with its public name as heading."""
    found, names, text = described(), list(public_names()), page("reference.md")
    assert len(names) > 15
    for module, name in names:
        if name == "__version__":
            assert "`curious_jax.__version__`" in text
        elif module == "curious_jax":
            home, _, other = curious_jax._HOMES[name].partition(":")
            thing = getattr(importlib.import_module(home), other or name)
            place = f"{getattr(thing, '__module__', home)}.{other or name}"
            assert place in found, (name, place)
            assert f'::: {place}\n    options: {{heading: "curious_jax.{name}"' in text
        else:
            assert f"{module}.{name}" in found, f"{module}.{name}"


def test_every_name_of_the_reference_exists_and_says_what_it_is():
    for name in described():
        thing = pkgutil.resolve_name(name)
        assert isinstance(thing, dict) or (thing.__doc__ or "").strip(), name


def test_what_the_python_page_names_is_in_the_reference():
    """A method stands under its class, a package under its own page."""
    named = set(re.findall(r"`((?:curious_jax|envs)(?:\.\w+)+)`", page("api.md")))
    classes = {name.rpartition(".")[0] for name in named if name.rpartition(".")[0] in described()}
    for name in named - described():
        handed_on = name.count(".") == 1 and name.partition(".")[2] in curious_jax.__all__
        is_module = isinstance(pkgutil.resolve_name(name), types.ModuleType) and not handed_on
        assert handed_on or is_module or name.rpartition(".")[0] in classes, name


@pytest.mark.slow
def test_the_reference_shows_signatures(site):
    text = (site / "reference.html").read_text()
    for name in described():
        assert f'id="{name}"' in text, name
    plain = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", "", text)))
    assert "act(obs: Any, module: str, goal: Any = ()) -> np.ndarray" in plain.replace("( ", "(")
    assert ":::" not in plain


def test_every_name_on_the_python_page_exists():
    names = re.findall(r"`((?:curious_jax|envs)(?:\.\w+)+)`", page("api.md"))
    assert len(names) > 30
    for name in names:
        assert pkgutil.resolve_name(name) is not None


@pytest.mark.parametrize("name", ["environment.md", "api.md", "tutorial.md", "own-module.md", "export.md"])
def test_python_on_the_pages_is_python(name):
    blocks = code_blocks(page(name))
    assert blocks
    for block in blocks:
        compile(block, name, "exec")


@pytest.mark.slow
def test_the_environment_pages_example_runs(capsys):
    exec(code_blocks(page("environment.md"))[0], {})
    assert capsys.readouterr().out.strip() == "(8, 40)"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["README.md", "docs/api.md"])
def test_training_from_python_as_shown_runs(path, monkeypatch, capsys, tmp_path):
    """On the point world, in four cycles of eight episodes, two of them without an evaluation."""
    tiny = {"num_envs": 8, "updates_per_cycle": 2, "capacity": 16, "episodes": 32, "hidden_size": 8, "batch_size": 8}
    tiny |= {"evaluation_interval": 16, "evaluation_episodes": 8, "world": "point"}
    original = configs.make_config
    monkeypatch.setattr(configs, "make_config", lambda platform, **given: original(platform, **{**given, **tiny}))
    monkeypatch.chdir(tmp_path)
    exec(code_blocks((ROOT / path).read_text())[0], {})
    assert "\n32 " in "\n" + capsys.readouterr().out
