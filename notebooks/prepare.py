"""Runs the notebooks in place, with their pictures, and sets the GitHub account in their addresses.

    python notebooks/prepare.py --execute quickstart --size reach
    python notebooks/prepare.py --execute all --size full
    python notebooks/prepare.py --owner ACCOUNT

Needs `pip install ".[notebooks,play]"`.
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
SIZES = ("small", "reach", "full")  # small: seconds, for tests; reach: the quickstart stops after reach
SIZE_VARIABLE = "CURIOUS_NOTEBOOK_SIZE"
CELL_TIMEOUT = 3600  # seconds
# Every file that names the repository's address.
ADDRESSED = (*(f"notebooks/{name}.ipynb" for name in NAMES), "notebooks/README.md")
SITE = "mkdocs.yml"  # where it is one variable, empty until there is an address
_OWNER = re.compile(r"(?<=github\.com/)[\w-]+(?=/curious_jax\b)|(?<=colab\.research\.google\.com/github/)[\w-]+")


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
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def owners() -> set[str]:
    """The accounts named in the addresses; one, unless something is wrong."""
    return {owner for file in ADDRESSED for owner in _OWNER.findall((ROOT / file).read_text())}


def set_owner(owner: str) -> None:
    """Writes the account into every address."""
    address = f'\\1"https://github.com/{owner}/curious_jax"'
    (ROOT / SITE).write_text(re.sub(r"^(  repository: ).*", address, (ROOT / SITE).read_text(), flags=re.MULTILINE))
    for file in ADDRESSED:
        path = ROOT / file
        path.write_text(_OWNER.sub(owner, path.read_text()))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--execute", choices=(*NAMES, "all"), help="run this notebook, in place")
    parser.add_argument("--size", choices=SIZES, default="full", help="how much it does [default: full]")
    parser.add_argument("--owner", metavar="ACCOUNT", help="the GitHub account that holds the repository")
    given = parser.parse_args()
    if given.owner:
        set_owner(given.owner)
    for name in NAMES if given.execute == "all" else filter(None, [given.execute]):
        notebook = execute(read(name), HERE, given.size)
        nbformat.write(notebook, HERE / f"{name}.ipynb")
        print(f"{name}: {(HERE / f'{name}.ipynb').stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
