"""Finds policies by name: those that come with the package, and those on a hub.

Nothing heavy is imported, so that `--help` can name them.
"""

import os
from pathlib import Path

import curious_jax
from curious_jax.errors import ConfigError
from curious_jax.run import hub

PRETRAINED = "pretrained"  # a folder beside this file; in a clone it leads to the one beside the package
_POLICY = "policy.json"  # what makes a folder a policy's (policies.py)


def shelf() -> Path:
    """Returns the folder that holds the policies."""
    package = Path(curious_jax.__file__).parent
    places = (package / "run" / PRETRAINED, package.parent / PRETRAINED)  # the latter where a clone could have no link
    return next((place for place in places if place.is_dir()), places[0])


def names() -> list[str]:
    """Lists the policies that are there."""
    return sorted(path.parent.name for path in shelf().glob(f"*/{_POLICY}"))


def find(run: Path) -> Path:
    """Returns the folder of a policy that is called NAME, pretrained/NAME or hub:OWNER/NAME; any other path as it is.

    A folder of that name in the current folder comes first. A policy on the hub is fetched (hub.py).

    Raises:
      ConfigError: when there is neither; it names the policies that come with the package.
    """
    if os.path.isdir(run) or run.is_absolute():
        return run
    if hub.is_name(run):
        return hub.fetch(str(run))
    if len(run.parts) > 2:
        return run
    asked = run.parts[0] == PRETRAINED if len(run.parts) == 2 else len(run.parts) == 1
    if asked and (shelf() / run.name / _POLICY).is_file():
        return shelf() / run.name
    if len(run.parts) == 2 and asked:
        raise ConfigError(f"{run}: no such policy; {say_names()}")
    return run


def say_names() -> str:
    """Says in a few words which policies there are."""
    return f"there are {', '.join(names())}" if names() else "none came with this copy of curious_jax"
