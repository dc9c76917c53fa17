"""What the experiments' commands share: their options, and the way from a grid to table, figure and summary."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from curious_jax import train
from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from experiments.analysis import table
from experiments.analysis.table import Row
from experiments.engine import cells, grid, plan
from experiments.engine.cells import Stage
from experiments.engine.grid import Condition

TABLE, SUMMARY = "table.csv", "summary.md"
ENGINES = ("local", "ray")
OWN = {"seed": "--seeds 0-9", "num_seeds": "--group N"}  # of train's options, what they are called here


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments, or a sweep."""

    name: str  # python -m experiments.NAME
    heading: str
    conditions: Callable[[argparse.Namespace, dict[str, Any]], list[Condition]]  # own options, settings -> grid
    draw: Callable[[Sequence[Row], Sequence[Condition], Path], None]  # writes PATH.png and PATH.pdf
    findings: Callable[[Sequence[Row], Sequence[Condition]], list[str]]
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by world: settings that train's replace
    fixed: Mapping[str, str] = field(default_factory=dict)  # settings that are the grid's: what to use instead
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    settings: Callable[[Sequence[str]], dict[str, Any]] | None = None  # reads the other options; None: as train does


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ConfigErrors."""

    def error(self, message: str) -> NoReturn:
        """One line, as everywhere."""
        raise ConfigError(message.removeprefix("argument ") + "; see --help")


def parser(experiment: Experiment) -> Parser:
    """The options that all experiments have, and this one's."""
    command = f"python -m experiments.{experiment.name}"
    result = Parser(
        prog=command,
        usage=f"{command} [OPTION VALUE ...] [any option of python -m curious_jax.train]",
        description=experiment.heading,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--seeds", default="0-9", metavar="0-9", help="seeds, such as 0-9 or 0,3,5-7 [default: 0-9]")
    add(
        "--group", metavar="N", help="seeds per process, side by side in one program [default: 10 on the probe, else 1]"
    )
    add("--out", metavar="DIR", help="folder of cells, table and figure [default: runs/NAME-WORLD]; run again to go on")
    add("--jobs", default="1", metavar="N", help="processes at once, each on its share of the cores [default: 1]")
    add("--devices", default="", metavar="0,1,...", help="GPUs, one process at a time on each")
    add("--retries", default="2", metavar="N", help="further tries of a cell that failed [default: 2]")
    add("--retry-diverged", action="store_true", help="put diverged cells aside and run their seeds one by one")
    add("--keep-states", action="store_true", help="keep the whole checkpoints of cells that are done, too")
    add("--shard", default="0/1", metavar="I/N", help="run every N-th cell from the I-th on, for job arrays")
    add("--engine", default="local", metavar="local|ray", help="where cells run [default: local]")
    add("--ray-address", metavar="ADDRESS", help="a Ray cluster's address [default: a new one on this machine]")
    add("--cpus", default="1", metavar="N", help="cores per cell, with Ray [default: 1]")
    add("--gpus", default="0", metavar="X", help="GPUs per cell, with Ray [default: 0]")
    add("--report-only", action="store_true", help="run nothing; table, figure and summary of what is there")
    experiment.options(result)
    return result


def main(experiment: Experiment, argv: Sequence[str] | None = None) -> int:
    """The program; its exit status: 0 all done, 1 some cells failed, 2 bad input, 130 or 143 interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        return program.run(lambda: _main(experiment, arguments))
    except OSError as error:  # a full disk, a folder taken away
        return program.fail(f"{error.filename or '--out'}: {error.strerror or error}", program.FAILED)


def _main(experiment: Experiment, argv: Sequence[str]) -> int:
    own, rest = parser(experiment).parse_known_args(argv)
    settings = _settings(experiment, rest)
    conditions = experiment.conditions(own, settings)
    seeds = grid.parse_seeds(own.seeds)
    world = settings.get("world", "fetch")
    group = _whole("--group", own.group or ("10" if world == "point" else "1"), 1)
    numbers = {name: _whole(f"--{name}", getattr(own, name), least) for name, least in
               (("jobs", 1), ("retries", 0), ("cpus", 1))}  # fmt: skip
    index, number = grid.parse_shard(own.shard)
    if own.engine not in ENGINES:
        raise ConfigError(f"--engine {own.engine}: must be one of {', '.join(ENGINES)}")
    if own.engine == "ray":
        from experiments.engine import ray_engine

        ray_engine.load()
    grid.check(conditions, seeds, group)
    runfolder.check_name(own.out)
    out = Path(own.out or f"runs/{experiment.name}-{world}")
    _claim(out, conditions)

    planned = plan.plan(conditions, seeds, group, out)
    if own.retry_diverged and plan.retry_diverged(planned, out):
        planned = plan.plan(conditions, seeds, 1, out)
    mine = grid.shard([one.cell for one in planned], index, number)
    open_cells = {str(one.cell) for one in planned if one.stage in (Stage.MISSING, Stage.STARTED)}
    todo = [] if own.report_only else [cell for cell in mine if str(cell) in open_cells]
    say(f"{len(planned)} cells in {out}, {len(todo)} to run here")
    outcomes, stopped = _run(own, numbers, todo, out)

    planned = plan.plan(conditions, seeds, group, out)
    rows = table.build(planned, seeds, out)
    shown = [text for text in argv if text != "--report-only"]
    command = shlex.join(["python", "-m", f"experiments.{experiment.name}", *shown])
    write_results(experiment, rows, conditions, out, command)
    if stopped:
        say("stopped; the same command goes on")
        return 128 + stopped
    failed = {outcome.cell for outcome in outcomes if not outcome.ok}
    failed |= {str(one.cell) for one in planned if one.stage is Stage.DIVERGED}
    if failed:
        return program.fail(f"{len(failed)} cells failed; {out / SUMMARY} names them", program.FAILED)
    return program.DONE


def say(text: str) -> None:
    """One line on standard output, at once."""
    print(text, flush=True)


def _settings(experiment: Experiment, rest: Sequence[str]) -> dict[str, Any]:
    """The flat settings of train that were given, over the experiment's defaults for the world."""
    if experiment.settings is not None:
        given = experiment.settings(rest)
    else:
        read = options.read(train.parser(), rest)
        given = read.settings
        if read.rest.get("resume"):
            raise ConfigError("--resume: the same command with the same --out goes on; leave it out")
    for name, instead in {**OWN, **experiment.fixed}.items():
        if name in given:
            raise ConfigError(f"{grid.as_option(name, 0)[0]}: use {instead} here")
    world = given.get("world", "fetch")
    return {**experiment.defaults.get(world, {}), **given}


def _whole(name: str, text: str, least: int) -> int:
    value = options.convert(name, text, int)
    if value < least:
        raise ConfigError(f"{name} {text}: must be a whole number of {least} or more")
    return value


def _claim(out: Path, conditions: Sequence[Condition]) -> None:
    """Makes the folder and notes the conditions in it; nothing is written when one of them is there with others."""
    for place in (out, *out.parents):
        if place.exists():
            if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
                raise ConfigError(f"--out {out}: {place} is no folder that can be written to; name another")
            break
    for condition in conditions:
        cells.write_condition(out, condition, dry=True)
    for condition in conditions:
        cells.write_condition(out, condition)


def _run(
    own: argparse.Namespace, numbers: Mapping[str, int], todo: Sequence[grid.Cell], out: Path
) -> tuple[list[cells.Outcome], int]:
    if not todo:
        return [], 0
    if own.engine == "ray":
        from experiments.engine import ray_engine

        gpus = options.convert("--gpus", own.gpus, float)
        return ray_engine.run(
            todo, out, numbers["retries"], own.keep_states, numbers["cpus"], gpus, own.ray_address, say
        )
    from experiments.engine import runner

    devices = [device.strip() for device in own.devices.split(",") if device.strip()]
    return runner.run(todo, out, numbers["jobs"], numbers["retries"], own.keep_states, devices, say)


def write_results(
    experiment: Experiment, rows: Sequence[Row], conditions: Sequence[Condition], out: Path, command: str
) -> None:
    """table.csv, NAME.png, NAME.pdf and summary.md, from the table's rows alone."""
    from experiments.analysis import summary as report

    table.write(rows, out / TABLE)
    experiment.draw(rows, conditions, out / experiment.name)
    text = report.document(experiment.heading, command, rows, conditions, experiment.findings(rows, conditions))
    scratch = out / f".{SUMMARY}.{os.getpid()}"
    scratch.write_text(text)
    os.replace(scratch, out / SUMMARY)
    say(f"table: {out / TABLE}\nfigure: {out / experiment.name}.png\nsummary: {out / SUMMARY}")
