"""Says which command made each figure of README and the documentation, and checks that what is kept of it is there.

    python -m experiments.checks.results

The list is docs/results/figures.toml. It ends with exit status 1 when a file is missing, a table is not where the list
says, or a picture, a folder of docs/results or a table of measured numbers stands on a page and belongs to no entry. A
table that shows its command, in it or in the four lines before it, needs none.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser
from curious_jax.errors import ConfigError

ROOT = Path(__file__).parents[2]
LIST = "docs/results/figures.toml"
PAGES = ("README.md", "docs/*.md", "docs/results/README.md", "pretrained/README.md")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"`(python -m|make|experiments/checks)\b|^ {4}(python -m|make) ", re.MULTILINE)
# A cell that is a measured number: "0.97", "4.3 s", "0.4 and 5.6 mm".
_NUMBER = re.compile(r"^[\d,.]+( (and|to) [\d,.]+)?( (s|ms|mm|minutes|hours|MB|GB|GiB|%|episodes|steps/s))?$")
MEASURED, AT_LEAST = 0.25, 3  # share and number of such cells from which on a table is one of measured numbers
BEFORE = 4  # lines before a table in which its command may stand


@dataclass(frozen=True)
class Figure:
    """One entry of the list."""

    name: str
    what: str
    files: tuple[str, ...]
    tables: tuple[tuple[str, str], ...]  # page, beginning of the table's first line
    command: str = ""
    once: str = ""  # how it was measured, where no command makes it again
    commit: str = ""


@dataclass(frozen=True)
class Table:
    """A table on a page."""

    page: str
    lines: tuple[str, ...]
    before: str  # the lines above it

    @property
    def head(self) -> str:
        """The first line."""
        return self.lines[0]

    @property
    def has_command(self) -> bool:
        """Does it show its command, or is it told just before?"""
        return bool(_COMMAND.search("\n".join([self.before, *self.lines])))

    @property
    def is_measured(self) -> bool:
        """Is it one of measured numbers?"""
        rows = [line.strip("|").split(" | ")[1:] for line in self.lines[2:]]
        cells = [cell.strip() for row in rows for cell in row if cell.strip()]
        return sum(bool(_NUMBER.match(cell)) for cell in cells) >= max(AT_LEAST, MEASURED * len(cells))


def read(text: str) -> list[Figure]:
    """Reads the list.

    Raises:
      ConfigError: on an entry with other fields, or with neither or both of command and once.
    """
    return [_figure(name, entry) for name, entry in tomllib.loads(text).items()]


def _figure(name: str, entry: Mapping[str, Any]) -> Figure:
    """Make a figure of one entry of the list."""
    try:
        tables = tuple((page, head) for page, head in entry["tables"])
        figure = Figure(name, **{**entry, "files": tuple(entry["files"]), "tables": tables})
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{LIST}: [{name}] has not the fields that the head of the list names: {error}") from error
    if bool(figure.command) == bool(figure.once):
        raise ConfigError(f"{LIST}: [{name}] needs either a command or once")
    return figure


def pages(root: Path) -> dict[str, str]:
    """Returns the text of every page that shows figures, by its path."""
    found = sorted({path for pattern in PAGES for path in root.glob(pattern)})
    return {str(path.relative_to(root)): path.read_text() for path in found}


def tables(page: str, text: str) -> Iterator[Table]:
    """Yields the tables of a page."""
    lines = text.splitlines()
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        if end > start:
            yield Table(page, tuple(lines[start:end]), "\n".join(lines[max(0, start - BEFORE) : start]))
        start = end + 1


def pictures(page: str, text: str, root: Path) -> Iterator[str]:
    """Yields the paths, from the root, of the pictures that a page shows and that lie in the repository."""
    for target in _PICTURE.findall(text):
        if "://" not in target:
            yield str(((root / page).parent / target).resolve().relative_to(root.resolve()))


def problems(figures: Sequence[Figure], root: Path) -> Iterator[str]:
    """Yields a line on everything that is missing or belongs to no entry."""
    kept = {file for figure in figures for file in figure.files}
    told = [place for figure in figures for place in figure.tables]
    text_of = pages(root)
    all_tables = [table for page, text in text_of.items() for table in tables(page, text)]
    for figure in figures:
        yield from (f"[{figure.name}] {file}: no such file" for file in figure.files if not (root / file).is_file())
        for page, head in figure.tables:
            if not any(table.page == page and table.head.startswith(head) for table in all_tables):
                yield f"[{figure.name}] {page}: no table that begins with {head}"
    for page, text in text_of.items():
        for picture in sorted(set(pictures(page, text, root)) - kept):
            yield f"{page}: the picture {picture} belongs to no entry of {LIST}"
    for table in all_tables:
        listed = any(table.page == page and table.head.startswith(head) for page, head in told)
        if table.is_measured and not table.has_command and not listed:
            yield f"{table.page}: the table {table.head} shows no command, and belongs to no entry of {LIST}"
    for folder in sorted(path for path in (root / "docs" / "results").iterdir() if path.is_dir()):
        inside = str(folder.relative_to(root)) + "/"
        if not any(file.startswith(inside) for file in kept):
            yield f"{inside}: belongs to no entry of {LIST}"


def describe(figure: Figure, root: Path) -> str:
    """Says of a figure what made it, where it stands, and what is kept of it."""
    shown = [page for page, text in pages(root).items() if set(figure.files) & set(pictures(page, text, root))]
    places = dict.fromkeys([*shown, *(page for page, _ in figure.tables)])
    there = sum((root / file).is_file() for file in figure.files)
    lines = [
        f"{figure.name}: {figure.what}" + (f" ({figure.commit})" if figure.commit else ""),
        f"    {figure.command or 'measured once: ' + figure.once}",
        f"    on {', '.join(places) or 'no page by itself'}; "
        + (f"{there} of {len(figure.files)} files" if figure.files else "printed, nothing kept"),
    ]
    return "\n".join(lines)


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Lists every figure, then everything that is wrong."""
    OneLineParser(prog="python -m experiments.checks.results", description=(__doc__ or "").split("\n\n")[0]).parse_args(
        argv
    )
    figures = read((ROOT / LIST).read_text())
    for figure in figures:
        print(describe(figure, ROOT))
    wrong = list(problems(figures, ROOT))
    for line in wrong:
        print(f"missing: {line}", file=sys.stderr)
    print(f"{len(figures)} figures, {sum(len(figure.files) for figure in figures)} files, {len(wrong)} missing")
    return program.FAILED if wrong else program.DONE


if __name__ == "__main__":
    sys.exit(main())
