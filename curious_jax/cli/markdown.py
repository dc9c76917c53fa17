"""Writes tables in Markdown."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> str:
    """Returns a table: heads, rule, rows.

    Args:
      numbers: how many of the last columns are numbers, which stand at the right.
    """
    rule = ["---"] * (len(heads) - numbers) + ["---:"] * numbers
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows))
