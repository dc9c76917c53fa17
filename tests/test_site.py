"""The documentation site: it builds without a warning, every link of it and of the pages leads somewhere."""

import html
import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

import pytest
from helpers.documentation import DOCS, PAGES, ROOT, described, load_hooks, page


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
    for path, held in pages.items():
        for address in [*held.links, *held.loads]:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme == "data" or parts.scheme and address not in held.loads:
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


@pytest.mark.slow
def test_the_reference_shows_signatures(site):
    text = (site / "reference.html").read_text()
    for name in described():
        assert f'id="{name}"' in text, name
    plain = re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]+>", "", text)))
    assert "act(obs: Any, module: str, goal: Any = ()) -> np.ndarray" in plain.replace("( ", "(")
    assert ":::" not in plain
