"""The documentation's pages, for tests."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def page(name):
    return (DOCS / name).read_text()


def load_hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    return hooks


def described():
    """The names that the reference describes."""
    return set(re.findall(r"^::: (\S+)$", page("reference.md"), re.MULTILINE))
