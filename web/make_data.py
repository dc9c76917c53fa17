"""python web/make_data.py [POLICY ...]: writes what the page shows into web/data; `make web` calls it.

    data/data.js     the world (envs/pictures/page_world.py) and the policies by episodes (curious_jax/show/browser.py)
    data/licences/   the licences of MuJoCo and of what it contains

A POLICY is a run's folder, a policy's own, or pretrained/NAME. Several are the stages that the page's slider has.
"""

import importlib.metadata
import sys
from collections.abc import Sequence
from pathlib import Path

from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import policies
from curious_jax.show import browser, curves
from envs.pictures import page_world

FOLDER = Path(__file__).with_name("data")
DEFAULT = ("pretrained/four-modules",)


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Writes the page's data; returns the exit status."""
    names = (sys.argv[1:] if argv is None else argv) or DEFAULT
    loaded = [policies.load(name) for name in names]
    stages = [browser.describe_policy(*pair) for pair in zip(loaded, names, strict=True)]
    if any(stage["modules"] != stages[0]["modules"] for stage in stages):
        raise ConfigError("the stages of the page must have the same modules")
    if any(one.config.start != loaded[0].config.start for one in loaded):
        raise ConfigError("the stages of the page must have been trained with the same --start")
    world = page_world.describe(loaded[0].env, loaded[0].config.start, curves.colour)
    (FOLDER / "licences").mkdir(parents=True, exist_ok=True)
    (FOLDER / browser.DATA).write_text(browser.data(world, stages))
    for file in importlib.metadata.files("mujoco") or ():
        if "LICENSE" in file.name:
            (FOLDER / "licences" / f"mujoco-{file.name}").write_bytes(Path(file.locate()).read_bytes())
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
