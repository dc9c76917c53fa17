"""python -m curious_jax.play RUN: shows a run's policy, as a video or in MuJoCo's viewer.

    python -m curious_jax.play runs/some-run --video out.mp4
    python -m curious_jax.play pretrained/four-modules --modules stack --episodes 9 --video stack.gif

Works without a screen. Episodes are as --seed draws them; none is picked.
"""

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curious_jax.cli import environment, program
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from curious_jax.run import files, trained
from curious_jax.show.stats import printable

if TYPE_CHECKING:
    from curious_jax.types import Env

SIDES, MAX_TILES, MAX_ROUNDS = (64, 1920), 64, 1000  # pixels, episodes side by side, one after the other

PAUSE = 1.0  # s, after an episode in the viewer


def parser() -> options.Parser:
    """Makes the command line."""
    result = options.Parser(
        "play", "Shows a run's policy: a video, or MuJoCo's viewer.", usage="RUN [OPTION VALUE ...]"
    )
    add = result.add_argument
    trained.add_options(result)
    add("--video", type=options.path, metavar="FILE", help="write this .mp4 or .gif [default: video.mp4 "
        "in RUN; NAME-video.mp4 in the current folder where RUN holds no checkpoint, as pretrained/NAME]")  # fmt: skip
    add("--viewer", action="store_true", help="open MuJoCo's viewer instead (needs a screen)")
    add("--modules", default="all", metavar="A,B,...", help="modules to show [default: all that can be achieved]")
    add("--module", dest="modules", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # its earlier name
    add("--episodes", metavar="N", help="episodes side by side [default: one per module, four of a single one]")
    add("--rounds", default="2", metavar="N", help="number of rounds to play, one after the other [default: 2]")
    add("--seed", default="0", metavar="K", help="seed of goals and starts [default: 0]")
    add("--size", metavar="WxH", help="pixels of one episode's picture [default: 640x480, for .gif 320x240]")
    add("--looks", default="auto", metavar="auto|plain|mesh", help="mesh: the Fetch's own shapes, from "
        "gymnasium-robotics; plain: simple ones; auto: mesh when it is installed [default: auto]")  # fmt: skip
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    rounds, seed = options.number(given, "rounds", 1, MAX_ROUNDS), options.number(given, "seed", 0, 2**31 - 1)
    tiles = None if given["episodes"] is None else options.number(given, "episodes", 1, MAX_TILES)
    if given["viewer"] and given["video"] is not None:
        raise ConfigError("--viewer: makes no video; leave one of --viewer and --video out")
    export, index = trained.find(given)
    from curious_jax.show import video

    path = None if given["viewer"] else video.check(given["video"] or str(files.place(Path(given["run"]), "video.mp4")))
    size = _size(given["size"] or ("320x240" if path and path.suffix.lower() == ".gif" else "640x480"))
    _check_drawing(export.config.world, given)

    import jax

    from curious_jax.run import policies
    from curious_jax.show import playback

    loaded = policies.load(export, seed_index=index, physics=given["physics"])
    table = loaded.env.modules
    shown = _modules(given["modules"], table)
    tiles = tiles or (len(shown) if len(shown) > 1 else 4)
    print(f"{export.path}: playing {rounds * tiles} episode{'s' * (rounds * tiles > 1)}", flush=True)
    recording = playback.record(loaded, jax.random.key(seed), np.resize(shown, rounds * tiles))
    print(_verdict(table.names, recording), flush=True)
    if path is None:
        _show(loaded.env, recording, given["looks"])
    else:
        _write(path, loaded.env, recording, tiles, size, given["looks"])
        print(f"video: {path}")
    return program.DONE


def _size(text: str) -> tuple[int, int]:
    """Returns width and height in pixels from WxH."""
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(p.isdecimal() and SIDES[0] <= int(p) <= SIDES[1] for p in parts):
        raise ConfigError(f"--size {text}: must be WIDTHxHEIGHT, each from {SIDES[0]} to {SIDES[1]}, such as 640x480")
    return int(parts[0]), int(parts[1])


def _check_drawing(world: str, given: dict[str, Any]) -> None:
    """Refuses what cannot be drawn here: no OpenGL, no screen for the viewer, looks that are not there."""
    environment.check_envs_package()
    from envs.pictures import door

    try:
        door.check(world, given["looks"], viewer=given["viewer"])
    except ValueError as error:
        raise ConfigError(environment.name_option(error)) from None


def _modules(names: str, table: Any) -> list[int]:
    """Returns the indices of the modules asked for."""
    if names == "all":
        return [int(i) for i in np.flatnonzero(table.achievable)]
    asked = options.convert("--modules", names, tuple[str, ...])
    for name in asked:
        if name not in table.names:
            raise ConfigError(
                f"--modules {name}: the run has no such module; choose from all, {', '.join(table.names)}"
            )
    return [table.names.index(name) for name in asked]


def _verdict(names: tuple[str, ...], recording: Any) -> str:
    """Says, for example: solved at the last step: reach 2 of 2, push 1 of 2."""
    parts = []
    for module in dict.fromkeys(recording.module.tolist()):
        solved = recording.solved[-1, recording.module == module]
        parts.append(f"{printable(names[module]) if module >= 0 else 'all at once'} {solved.sum()} of {solved.size}")
    return "solved at the last step: " + ", ".join(parts)


def _show(env: "Env", recording: Any, looks: str) -> None:
    """Plays the recording in MuJoCo's viewer until its window is closed."""
    from curious_jax.show import video
    from envs.pictures import protocol, viewer

    with viewer.Window(env.layout.num_cubes, looks) as window:
        moments = itertools.product(range(len(recording.module)), range(recording.length))
        for episode, time in itertools.cycle(moments):
            if not window.is_open():
                return
            marks = [protocol.Goal(*mark) for mark in video.goals(env.modules, recording, time, episode)]
            last = time == recording.length - 1
            window.show(recording.state(time, episode), marks, PAUSE if last else window.period)


def _write(path: Any, env: "Env", recording: Any, tiles: int, size: tuple[int, int], looks: str) -> None:
    """Draws the recording into a video file and shows how far it is."""
    from rich.console import Console
    from rich.progress import track

    from curious_jax.show import video
    from envs.pictures import door, protocol

    renderer = door.renderer(env, *size, looks)
    try:
        with video.Writer(path) as file:
            pages = video.frames(renderer, env.modules, recording, tiles, protocol.Goal)
            for page in track(pages, "drawing", video.count(recording, tiles), console=Console(emoji=False)):
                file.append(page)
    finally:
        renderer.close()


if __name__ == "__main__":
    sys.exit(main())
