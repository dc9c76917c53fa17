"""Runs the notebooks in place, with their pictures, and brings the repository's address into them.

    python notebooks/prepare.py --execute quickstart --size reach
    python notebooks/prepare.py --execute all --size full
    python notebooks/prepare.py --address

The address is set in one place, `repository` in mkdocs.yml; --address copies it to where Colab needs it.

Needs `pip install ".[experiments,notebooks,play]"`.
"""

import argparse
import os
import re
from pathlib import Path
from typing import Any

import nbclient
import nbformat

HERE = Path(__file__).parent
ROOT = HERE.parent
NAMES = ("quickstart", "environment", "curriculum", "experiments")
SIZES = ("small", "reach", "full")  # small: seconds, for tests; reach: see README.md
SIZE_VARIABLE = "CURIOUS_NOTEBOOK_SIZE"
CELL_TIMEOUT = 3600  # seconds
PAGE_TAG = "page"  # of the cell that shows the browser's page
SITE = "mkdocs.yml"  # where the repository's address is set; empty until there is one
# The files with copies of the address, which a notebook that Colab opens by itself cannot do without.
ADDRESSED = (*(f"notebooks/{name}.ipynb" for name in NAMES), "notebooks/README.md")
UNSET = "https://github.com/OWNER/curious_jax"  # stands there while there is no address
_SET = re.compile(r'^  repository: "?([^"\s#]*)"?$', re.MULTILINE)
_COLAB = "https://colab.research.google.com/github/"
_BADGE = re.compile(rf"{re.escape(_COLAB)}([\w-]+/[\w.-]+)/blob/")


def read(name: str) -> Any:
    """A notebook by name."""
    return nbformat.read(HERE / f"{name}.ipynb", as_version=4)


def execute(notebook: Any, folder: Path, size: str) -> Any:
    """Runs a notebook in `folder`, with this Python, and returns it with its outputs.

    Raises:
      nbclient.exceptions.CellExecutionError: when a cell fails.
    """
    client = nbclient.NotebookClient(
        notebook, timeout=CELL_TIMEOUT, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    # XLA's log on a busy machine ("Very slow compile?") is not the notebook's output.
    client.execute(env=os.environ | {SIZE_VARIABLE: size, "TF_CPP_MIN_LOG_LEVEL": "3"})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        if PAGE_TAG in cell.metadata.get("tags", ()):
            leave_page_out(cell)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def leave_page_out(cell: Any) -> None:
    """Takes the browser's page, of 5 MB, out of a cell's outputs; their text stays."""
    for output in cell.outputs:
        output.get("data", {}).pop("text/html", None)


def address() -> str:
    """Returns the repository's address, as mkdocs.yml sets it.

    Raises:
      SystemExit: when it is not one on GitHub, from which alone Colab opens notebooks.
    """
    found = _SET.search((ROOT / SITE).read_text())
    value = (found[1] if found else "").rstrip("/") or UNSET
    if not re.fullmatch(r"https://github\.com/[\w-]+/[\w.-]+", value):
        raise SystemExit(f"{SITE}: repository must be an address like https://github.com/ACCOUNT/NAME, not {value}")
    return value


def copies() -> set[str]:
    """Returns the addresses in the files that have copies of it; one, unless something is wrong."""
    texts = [(ROOT / file).read_text() for file in ADDRESSED]
    return {f"https://github.com/{found}" for text in texts for found in _BADGE.findall(text)}


def copy_address() -> None:
    """Brings the address of mkdocs.yml to every file that has a copy."""
    new = address()
    for file in ADDRESSED:
        path = ROOT / file
        text = path.read_text()
        for old in {f"https://github.com/{found}" for found in _BADGE.findall(text)}:
            short = old.removeprefix("https://github.com/")
            text = text.replace(f"{_COLAB}{short}/", f"{_COLAB}{new.removeprefix('https://github.com/')}/")
            text = re.sub(re.escape(old) + r"(?![\w.-])", lambda _: new, text)
        path.write_text(text)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--execute", choices=(*NAMES, "all"), help="run this notebook, in place")
    parser.add_argument("--size", choices=SIZES, default="full", help="how much it does [default: full]")
    parser.add_argument("--address", action="store_true", help=f"copy the repository's address from {SITE}")
    given = parser.parse_args()
    if given.address:
        copy_address()
    for name in NAMES if given.execute == "all" else filter(None, [given.execute]):
        notebook = execute(read(name), HERE, given.size)
        nbformat.write(notebook, HERE / f"{name}.ipynb")
        print(f"{name}: {(HERE / f'{name}.ipynb').stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
