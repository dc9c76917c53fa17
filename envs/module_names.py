"""The names that the worlds give their own modules; a user's module takes another."""

import re

FETCH = re.compile(r"(reach)|(push|pnp)([1-9]\d?)?|(stack)(?:([1-9]\d?)on([1-9]\d?))?")
POINT = re.compile(r"(reach)|(drag|push)([1-9]\d?)?")
_DISTRACTOR = re.compile(r"distractor[1-9]\d*")
_SECOND_NAMES = {"push1": "push", "pnp1": "pnp", "drag1": "drag", "stack1on2": "stack"}


def is_built_in(name: str) -> bool:
    """Says whether some world has a module of this name, or a distractor."""
    return any(names.fullmatch(name) for names in (FETCH, POINT, _DISTRACTOR))


def canonical(name: str) -> str:
    """Returns the name that a module has in tables: push1 -> push, stack1on2 -> stack; other names unchanged."""
    return _SECOND_NAMES.get(name, name)
