"""The papers of a release: true of the program, and of one version."""

import ast
import importlib
import json
import re
from pathlib import Path

import pytest

import curious_jax
from curious_jax.config.fields import OLD_VALUES
from curious_jax.run.rows import RENAMED

ROOT = Path(__file__).parent.parent
SOURCES = [path for folder in ("curious_jax", "envs", "experiments") for path in sorted((ROOT / folder).rglob("*.py"))]
PROGRAMS = ("train", "evaluate", "play", "report", "export", "benchmark")
# Modules that run what they read, or make what does; and functions of others that do.
PICKLES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "jsonpickle"}
LOADERS = {"read_pickle", "to_pickle"}


def test_nothing_reads_pickle():
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not PICKLES & {name.partition(".")[0] for name in imported}, path
            if isinstance(node, ast.Call):
                check_call(node, path)


def check_call(call, path):
    """NumPy's load says allow_pickle=False, PyTorch's and pandas' is not called."""
    name, options = ast.unparse(call.func), {word.arg: ast.unparse(word.value) for word in call.keywords}
    assert name.rpartition(".")[2] not in LOADERS, (path, name)
    assert name != "torch.load", path
    assert options.get("allow_pickle", "False") == "False", path
    if name in ("np.load", "numpy.load", "jnp.load"):
        assert options.get("allow_pickle") == "False", path


def test_a_call_that_reads_pickle_would_be_found():
    for text in ("np.load(x)", "np.load(x, allow_pickle=True)", "pd.read_pickle(x)", "torch.load(x)"):
        with pytest.raises(AssertionError):
            check_call(ast.parse(text).body[0].value, "here")
    check_call(ast.parse("np.load(x, allow_pickle=False)").body[0].value, "here")


def test_notebooks_read_no_pickle():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        code = "\n".join(
            "".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"
        )
        assert not re.search(rf"^\s*(import|from) ({'|'.join(PICKLES)})\b|allow_pickle", code, re.MULTILINE), path.name


def test_the_citation_is_the_papers():
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0" and found["message"] and found["type"] == "software"
    assert str(found["version"]) == curious_jax.__version__ and found["license"] == "MIT"
    assert found["authors"] == [{"name": "The curious_jax developers"}]
    (paper,) = found["references"]
    assert (paper["volume"], paper["start"], paper["end"], paper["year"]) == (97, 1331, 1340, 2019)
    bibtex = (ROOT / "README.md").read_text()
    names = [name.split(",")[0] for name in re.search(r"author\s*= \{(.*)\},$", bibtex, re.MULTILINE)[1].split(" and ")]
    assert [author["family-names"] for author in paper["authors"]] == names
    assert all(author["given-names"] for author in paper["authors"])


def test_the_changelog_knows_the_version_and_the_options():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == curious_jax.__version__
    parsers = [importlib.import_module(f"curious_jax.{name}").parser() for name in PROGRAMS]
    known = {option for parser in parsers for action in parser._actions for option in action.option_strings}
    assert set(re.findall(r"--[a-z][a-z-]*", text)) <= known
    for name in [*RENAMED, *RENAMED.values(), *OLD_VALUES]:
        assert name in text, name


def test_no_paper_names_a_machine_or_an_address():
    for name in ("CHANGELOG.md", "CITATION.cff", "SECURITY.md"):
        assert not re.search(r"/work|/root|/home|@|https?://", (ROOT / name).read_text()), name


def test_files_that_the_security_page_names_are_there():
    for name in re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text()):
        assert (ROOT / name).is_file()
