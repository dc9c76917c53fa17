"""Prepares docstrings for the reference: mkdocstrings reads a section that begins behind an empty line alone."""

import re
from typing import Any

import griffe

_SECTION = re.compile(r"\n(?=(Args|Attributes|Returns|Yields|Raises):\n)")


class SectionsApart(griffe.Extension):
    """Puts an empty line before every section of a docstring, on the page alone."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Takes one class, function or module; griffe calls it."""
        if obj.docstring:
            obj.docstring.value = _SECTION.sub("\n\n", obj.docstring.value)
