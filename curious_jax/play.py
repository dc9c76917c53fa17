"""python -m curious_jax.play RUN: shows a run's policy, as a video or in MuJoCo's viewer.

    python -m curious_jax.play runs/some-run --video out.mp4
    python -m curious_jax.play pretrained/four-modules --modules stack --episodes 9 --video stack.gif
    python -m curious_jax.play runs/some-run --progress --video learning.mp4

Works without a screen. Episodes are as --seed draws them; none is picked.
"""

import argparse
import itertools
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curious_jax import config as configs
from curious_jax.cli import environment, program
from curious_jax.cli import parser as options
from curious_jax.errors import ConfigError
from curious_jax.run import files, trained
from curious_jax.show.stats import printable

if TYPE_CHECKING:
    from curious_jax.run.acting import TrainedPolicy
    from curious_jax.show import browser
    from curious_jax.types import Env

SIDES, MAX_TILES, MAX_ROUNDS = (64, 1920), 64, 1000  # pixels, episodes side by side, one after the other

PROGRESS = "progress.mp4"  # the film's name unless told

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
    add("--progress", action="store_true", help="show the learning: the same episodes by each policy that the run "
        "kept on its way (train --keep-policies), and the growing curve of success below")  # fmt: skip
    add("--modules", default="all", metavar="A,B,...", help="modules to show [default: all that can be achieved]")
    add("--module", dest="modules", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # its earlier name
    add("--episodes", metavar="N", help="episodes side by side [default: one per module, four of a single one]")
    add("--rounds", metavar="N", help="number of rounds to play, one after the other [default: 2]")
    add("--seed", default="0", metavar="K", help="seed of goals and starts [default: 0]")
    add("--size", metavar="WxH", help="pixels of one episode's picture [default: 640x480, for .gif 320x240]")
    add("--looks", default="auto", metavar="auto|plain|mesh", help="mesh: the Fetch's own shapes, from "
        "gymnasium-robotics; plain: simple ones; auto: mesh when it is installed [default: auto]")  # fmt: skip
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    given = parser().read(argv)
    _check_progress(given)
    given["rounds"] = given["rounds"] or "2"
    rounds, seed = options.number(given, "rounds", 1, MAX_ROUNDS), options.number(given, "seed", 0, 2**31 - 1)
    tiles = None if given["episodes"] is None else options.number(given, "episodes", 1, MAX_TILES)
    if given["viewer"] and given["video"] is not None:
        raise ConfigError("--viewer: makes no video; leave one of --viewer and --video out")
    export, index = trained.find(given)
    from curious_jax.show import video

    name = PROGRESS if given["progress"] else "video.mp4"
    path = None if given["viewer"] else video.check(given["video"] or str(files.place(Path(given["run"]), name)))
    size = None if given["size"] is None else _size(given["size"])
    _check_drawing(export.config.world, given)

    import jax

    from curious_jax.run import policies
    from curious_jax.show import playback

    if path is not None and given["progress"]:
        return _film(path, given, index, jax.random.key(seed), tiles, size)
    size = size or ((320, 240) if path and path.suffix.lower() == ".gif" else (640, 480))
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
        from envs.pictures import door, protocol

        renderer = door.renderer(loaded.env, *size, given["looks"])
        pages = video.frames(renderer, table, recording, tiles, protocol.Goal)
        _write(path, renderer, pages, video.count(recording, tiles))
    return program.DONE


def show_policy(policy: "TrainedPolicy | str | Path", height: int = 640) -> "browser.Frame":
    """Shows a policy in a notebook's cell: the arm moves in the browser, and mouse or finger push it and set its goals.

    MuJoCo and the policy run in the page (docs/browser.md), which has to be built first, by `make web` in a clone, with
    node and npm. No server is asked, so that it works on Colab, too, once it is built there.

    Args:
      policy: what `load_policy` gave, or what it takes: the folder of a run or of a policy, or a policy's name.
      height: of the frame, in pixels.
    Returns:
      An object that a notebook shows as a frame. Its `html` is the page alone, to be written into a file.
    Raises:
      ConfigError: when the page is not built, or cannot play the policy: it plays the arm's policies of curious and
        muvfa, without distractors, layer normalisation or a sensor that is off (`--perturb-at`).
    """
    environment.check_envs_package()
    from curious_jax.run import policies
    from curious_jax.show import browser, curves
    from envs.pictures import page_world

    browser.check()
    if isinstance(policy, (str, Path)):
        name, loaded = str(policy), policies.load(policy)
    else:
        name = "the policy"
        loaded = policies.Loaded(policy.config, policy.env, policy.params, policy.offset, policy.episodes)
    try:
        world = page_world.describe(loaded.env, loaded.config.start, curves.colour)
    except ValueError as error:
        raise ConfigError(f"{name}: {getattr(error, 'message', error)}") from None
    return browser.Frame(browser.page(browser.data(world, [browser.describe_policy(loaded, name)])), height)


def _check_progress(given: dict[str, Any]) -> None:
    """Refuses options that have no meaning in a film of the learning."""
    for name, free in (("viewer", False), ("rounds", None), ("checkpoint", "last")):
        if given["progress"] and given[name] != free:
            raise ConfigError(f"--{name}: --progress shows one round of every policy kept, as a video; leave it out")


def _film(path: Path, given: dict[str, Any], index: int, key: Any, tiles: int | None, size: Any) -> int:
    """Writes the film of a run's learning."""
    from curious_jax.run import policies
    from curious_jax.show import film, playback
    from envs.pictures import door, protocol

    run = Path(given["run"])
    stages = film.stages(run, index)
    rows = film.rows(run, stages[-1].policy.config.seed + index)
    loaded = [policies.load(stage.policy, seed_index=index, physics=given["physics"]) for stage in stages]
    env, shown = loaded[-1].env, _modules(given["modules"], loaded[-1].env.modules)
    shown = np.resize(shown, tiles or len(shown)).tolist()
    print(f"{run}: playing {len(shown)} episode{'s' * (len(shown) > 1)} at {len(stages)} stages", flush=True)
    record = playback.recorder(loaded[-1], shown)
    recordings = [record(one, key) for one in loaded]
    width, height = size or film.tile_size(len(stages), path.suffix.lower())
    renderer = door.renderer(env, width, height, given["looks"])
    pages = film.frames(renderer, env.modules, stages, recordings, rows, protocol.Goal)
    _write(path, renderer, pages, film.count(recordings))
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
    asked = [configs.canonical(name) for name in options.convert("--modules", names, tuple[str, ...])]
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


def _write(path: Path, renderer: Any, pages: Iterable[np.ndarray], number: int) -> None:
    """Writes pictures into a video file, shows how far it is, and frees what drew them."""
    from rich.console import Console
    from rich.progress import track

    from curious_jax.show import video

    try:
        with video.Writer(path) as file:
            for page in track(pages, "drawing", number, console=Console(emoji=False)):
                file.append(page)
    finally:
        renderer.close()
    print(f"video: {path}")


if __name__ == "__main__":
    sys.exit(main())
