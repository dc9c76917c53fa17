"""The names that the worlds give their own modules; a user's module takes another."""

import re

FETCH = re.compile(r"(reach)|(push|pnp)([1-9]\d?)?|(stack)(?:([1-9]\d?)on([1-9]\d?))?")
POINT = re.compile(r"(reach)|(drag|push)([1-9]\d?)?")
_DISTRACTOR = re.compile(r"distractor[1-9]\d*")


def is_built_in(name: str) -> bool:
    """Says whether some world has a module of this name, or a distractor."""
    return any(names.fullmatch(name) for names in (FETCH, POINT, _DISTRACTOR))
