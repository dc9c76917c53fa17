"""The command of every experiment: from its options over the grid of cells to table, figure and summary."""

import argparse
import contextlib
import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curious_jax import train
from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.config import make_config, option_name, whole_run
from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.show import sinks
from experiments.analysis import table
from experiments.analysis.statistics import MASTERED
from experiments.engine import cells, conditions, evaluations, grid, plan, runner
from experiments.engine.cells import CellState, Inspections
from experiments.engine.grid import Cell, Condition
from experiments.engine.plan import Planned
from experiments.engine.runner import CellResult, Effort
from experiments.engine.watch import Watch

TABLE, SUMMARY = "table.csv", "summary.md"
ENGINES = ("local", "ray")
OWN = {"seed": "--seeds 0-9", "num_seeds": "--group N"}  # of train's options, what they are called here
AXES = "axes"  # key under which an experiment's own `settings` keeps those that vary: [{name: value}, ...]
MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # errors that another --out would not mend


@dataclass(frozen=True)
class Experiment:
    """One of the paper's experiments, or a sweep."""

    name: str  # python -m experiments.NAME
    heading: str
    conditions: Callable[[argparse.Namespace, dict[str, Any]], list[Condition]]  # own options, settings -> grid
    draw: Callable[[Any, Sequence[Condition], Path], None]  # writes PATH.png and PATH.pdf
    findings: Callable[[Any, Sequence[Condition]], list[str]]
    defaults: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by world: settings that train's replace
    fixed: Mapping[str, str] = field(default_factory=dict)  # settings that are the grid's: what to use instead
    options: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    # Reads the settings from train's options as they were typed; None: as train does.
    settings: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    help: str = ""  # how the options make the grid
    keeps_all: bool = False  # the store holds every episode of a run, unless --capacity says otherwise


@dataclass(frozen=True)
class Request:
    """A command line's request, checked."""

    experiment: str  # its name
    conditions: Sequence[Condition]
    seeds: tuple[int, ...]
    group: int  # seeds per cell
    out: Path
    shard: tuple[int, int]
    effort: Effort
    jobs: int
    devices: list[str]
    ray: tuple[int, float, str | None] | None  # cores and GPUs per cell, address; None: cells run on this machine
    retry_diverged: bool
    report_only: bool


def parser(experiment: Experiment) -> options.OneLineParser:
    """The options that all experiments have, and this one's."""
    command = f"python -m experiments.{experiment.name}"
    result = options.OneLineParser(
        prog=command,
        usage=f"{command} [OPTION VALUE ...] [any option of python -m curious_jax.train]",
        description=f"{experiment.heading}\n\n{experiment.help}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("--seeds", default="0-9", metavar="0-9", help="seeds, such as 0-9 or 0,3,5-7 [default: 0-9]")
    add("--group", metavar="N", help="seeds per process, trained side by side [default: 10 on the point world, else 1]")
    add("--out", type=options.path, metavar="DIR", help="folder of cells, table and figure; the same command resumes "
        "what is in it [default: runs/NAME-WORLD]")  # fmt: skip
    add("--jobs", default="1", metavar="N", help="processes at once, on a share of the cores each [default: 1]")
    add(
        "--devices",
        default="",
        metavar="0,1,...",
        help="GPUs by number (not how many), each with one process at a time",
    )
    add("--retries", default="2", metavar="N", help="further tries of a cell that failed [default: 2]")
    add("--retry-diverged", action="store_true", help="put diverged cells aside and run their seeds one by one, once")
    add("--keep-states", action="store_true", help="keep the whole checkpoints of cells that are done, too")
    add("--shard", default="0/1", metavar="I/N", help="run every N-th cell from the I-th on, for job arrays")
    add("--engine", default="local", metavar="local|ray", help="where cells run [default: local]")
    add("--ray-address", metavar="ADDRESS", help="a Ray cluster's address [default: a new one on this machine]")
    add("--cpus", default="1", metavar="N", help="cores per cell, with Ray [default: 1]")
    add("--gpus", default="0", metavar="X", help="GPUs per cell, with Ray [default: 0]")
    add("--report-only", action="store_true", help="run nothing; write table, figure and summary of what is there")
    experiment.options(result)
    return result


def main(experiment: Experiment, argv: Sequence[str] | None = None) -> int:
    """The program; its exit status: 0 all done, 1 some cells failed, 2 bad input, 128 + signal interrupted."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        return program.run(lambda: _main(experiment, arguments))
    except OSError as error:  # a full disk, a folder taken away
        return program.fail(f"{error.filename or '--out'}: {error.strerror or error}", program.FAILED)


def _main(experiment: Experiment, argv: Sequence[str]) -> int:
    request = read(experiment, argv)
    seen = Inspections()
    todo = prepare(request, seen)
    results, signal = run(request, todo)
    shown = [text for text in argv if text != "--report-only"]
    command = shlex.join(["python", "-m", f"experiments.{experiment.name}", *shown])
    planned = report(experiment, request, command, seen)
    if signal:
        print("stopped; the same command resumes it", flush=True)
        return 128 + signal
    failed = {result.cell for result in results if not result.done}
    failed |= {str(one.cell) for one in planned if one.state in (CellState.DIVERGED, CellState.DAMAGED)}
    if failed:
        return program.fail(f"{len(failed)} cells failed; {request.out / SUMMARY} names them", program.FAILED)
    return program.DONE


def read(experiment: Experiment, argv: Sequence[str]) -> Request:
    """Read and check a command line; nothing is written. Raises ConfigError, naming the option."""
    own, rest = parser(experiment).parse_known_args(argv)
    table.require()
    runfolder.check_name(own.out)
    typed = train.parser().read(rest)
    settings = _settings(experiment, typed, own.out)
    world = settings.get("world", "fetch")
    request = Request(
        experiment=experiment.name,
        conditions=experiment.conditions(own, settings),
        seeds=grid.parse_seeds(own.seeds),
        group=options.at_least("--group", own.group or ("10" if world == "point" else "1"), 1),
        out=_folder(experiment, world, own.out),
        shard=grid.parse_shard(own.shard),
        effort=Effort(options.at_least("--retries", own.retries, 0), own.keep_states, _passed_on(typed)),
        jobs=options.at_least("--jobs", own.jobs, 1),
        devices=_gpus(own.devices),
        ray=_ray(own),
        retry_diverged=own.retry_diverged,
        report_only=own.report_only,
    )
    grid.check(request.conditions, request.seeds, request.group)
    return request


def _gpus(text: str) -> list[str]:
    """Reads the GPUs that trainings are put on. Raises ConfigError for what names none, such as the `all` of train."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    for part in found:
        if not re.fullmatch(r"\d{1,4}|(GPU|MIG)-[\w/-]+", part):
            raise ConfigError(f"--devices {part}: must be GPUs by number, as nvidia-smi lists them, such as 0,1")
    return found


def _settings(experiment: Experiment, typed: dict[str, Any], out: str | None) -> dict[str, Any]:
    """The flat settings of train that were given, over the experiment's defaults for the world.

    Args:
      typed: options of train as they were typed, by name.
      out: the folder that was named, whose cells keep the capacity that they began with.
    """
    if typed.get("resume") is not None:
        raise ConfigError("--resume: the same command with the same --out resumes; leave it out")
    for name, instead in {**OWN, **experiment.fixed}.items():
        if name in typed:
            raise ConfigError(f"{option_name(name)}: use {instead} here")
    if experiment.settings is not None:
        given = experiment.settings(typed)
    else:
        fixed = {*experiment.fixed, *(["order"] if "estimator" in experiment.fixed else [])}  # which stands beside it
        given = options.settings(typed, apart={*OWN, *fixed})
    found = {**experiment.defaults.get(given.get("world", "fetch"), {}), **given}
    for one in (found, *found.get(AXES, ())):
        _check_target(one.get("target_success"))
    if "capacity" in given or not experiment.keeps_all:
        return found
    folder = _folder(experiment, found.get("world", "fetch"), out)
    conditions.check_owner(folder, experiment.name)
    noted = conditions.noted_settings(folder)
    whole = max(whole_run(platform, **found) for platform in ("cpu", "gpu"))
    if noted is None:
        return {**found, "capacity": whole}
    if "capacity" not in noted:
        return found
    kept = noted["capacity"]
    if conditions.is_longer(found, noted) and kept < whole:
        raise ConfigError(
            f"--episodes {found['episodes']}: the replay buffer of the cells in {folder} keeps {kept} episodes and "
            f"would drop the oldest; name another --out, or accept that with --capacity {kept}"
        )
    return {**found, "capacity": kept}


def _passed_on(typed: dict[str, Any]) -> tuple[str, ...]:
    """Reads the options of train that are no settings and go to every training: --cache and --wandb."""
    cache, wandb = typed.get("cache"), typed.get("wandb")
    sinks.check_wandb(wandb)
    kept = [] if cache is None else ["--cache", str(cache if str(cache) == "none" else Path(cache).absolute())]
    return (*kept, *([] if wandb is None else ["--wandb", wandb]))


def _folder(experiment: Experiment, world: str, out: str | None) -> Path:
    """Returns the experiment's folder, that which was named or its own."""
    return Path(out if out is not None else f"runs/{experiment.name}-{world}")


def _check_target(target: float | None) -> None:
    """Refuse a target below mastery: seeds that end there would count as never mastering. Raises ConfigError."""
    if target is not None and target < MASTERED:
        raise ConfigError(f"--target-success {target:g}: must be {MASTERED:g}, which is mastery here, or more, or none")


def _ray(own: argparse.Namespace) -> tuple[int, float, str | None] | None:
    """Reads what is asked of Ray; None when Ray is not asked for."""
    if own.engine not in ENGINES:
        raise ConfigError(f"--engine {own.engine}: must be one of {', '.join(ENGINES)}")
    if own.engine != "ray":
        return None
    from experiments.engine import ray_engine

    ray_engine.load()
    return options.at_least("--cpus", own.cpus, 1), options.convert("--gpus", own.gpus, float), own.ray_address


def prepare(request: Request, seen: Inspections | None = None) -> list[Cell]:
    """Claim the folder and note the conditions in it; returns the cells to run here, in this order.

    Args:
      seen: keeps what is found of the cells.
    Raises:
      ConfigError: when the folder cannot be used, or holds cells with other settings; nothing is written then.
    """
    out, report_only = request.out, request.report_only
    seen = Inspections() if seen is None else seen
    if report_only and (out / table.PACKED).is_file():
        return []
    try:
        conditions.check_owner(out, request.experiment)
        for condition in request.conditions:
            conditions.check_condition(out, condition, longer=not report_only)
        planned = _plan(request, seen)
        if report_only and not any(cells.has_begun(one.cell.folder(out)) for one in planned):
            raise ConfigError(f"--report-only: {out} holds none of these cells; leave it out to run them")
        _check_writable(out)
        for condition in () if report_only else request.conditions:
            conditions.claim_condition(out, condition, request.experiment)
    except OSError as error:
        if error.errno in MACHINE:
            raise
        raise ConfigError(f"--out {str(out)[:100]}: cannot be a folder ({error.strerror}); name another") from None
    if request.retry_diverged and not report_only:
        planned = _separate_diverged(request, planned, seen)
    for one in planned:
        if one.state is CellState.DAMAGED:
            print(f"{one.cell}: damaged: {one.found.reason}", flush=True)
        elif one.state in plan.ENDED and not report_only:
            _note_end(request, one)
    mine = grid.shard([one.cell for one in planned], *request.shard)
    ended = {str(one.cell) for one in planned if one.state in plan.ENDED}
    todo = [cell for cell in mine if str(cell) not in ended and not report_only]
    todo.sort(key=lambda cell: cell.first)  # all conditions of a seed, then the next seed: a part is a comparison too
    print(f"{len(planned)} cells in {out}, {len(todo)} to run here", flush=True)
    return todo


def _check_writable(out: Path) -> None:
    """Refuse a folder that cannot be made or written to. Raises ConfigError, naming --out."""
    place = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise ConfigError(f"--out {out}: {place} is no folder that can be written to; name another")


def _note_end(request: Request, one: Planned) -> None:
    """Note the end of a cell that no process has noted: its training outlived the process that ran it.

    Its whole checkpoints stay: what that process was to keep is not known here.
    """
    folder = one.cell.folder(request.out)
    if cells.is_noted(folder, one.state):
        return
    with contextlib.suppress(FileNotFoundError), cells.hold(folder) as lock:  # another shard may put it aside
        if lock is None or cells.inspect(one.cell, request.out).state is not one.state:
            return
        cells.note_end(folder, one.state)


def _plan(request: Request, seen: Inspections, refuse: bool = True) -> list[Planned]:
    """Plan the cells that are asked for."""
    return plan.plan(request.conditions, request.seeds, request.group, request.out, refuse, seen)


def _separate_diverged(request: Request, planned: Sequence[Planned], seen: Inspections) -> list[Planned]:
    """Put diverged cells aside; a new plan, of this command and of every later one, has their seeds one by one.

    A seed that was run by itself in this way and diverged again stays, so that the same command comes to an end.
    """
    for one in planned:
        again = one.cell.count == 1 and one.cell.first in plan.alone(one.cell.condition, request.out)
        if one.state is CellState.DIVERGED and not again:
            with contextlib.suppress(FileNotFoundError):  # another shard put it aside just now
                cells.put_aside(one.cell.folder(request.out), CellState.DIVERGED.value)
    return _plan(request, seen)


def run(request: Request, todo: Sequence[Cell]) -> tuple[list[CellResult], int]:
    """Run the cells; (a result per cell that was begun, the signal that stopped it or 0)."""
    if not todo:
        return [], 0
    with Watch(todo, request.out) as watch:
        if request.ray:
            from experiments.engine import ray_engine

            return ray_engine.run(todo, request.out, request.effort, watch, *request.ray)
        return runner.run(todo, request.out, request.effort, watch, request.jobs, request.devices)


def report(experiment: Experiment, request: Request, command: str, seen: Inspections) -> list[Planned]:
    """Read the cells and write what they say, one process of a folder at a time; returns what it read.

    A process that waits for its turn reads the cells after it, so that the last to write has seen the most.
    """
    with cells.reporting(request.out):
        planned = _plan(request, seen, refuse=False)
        write_results(experiment, request, planned, command)
    return planned


def write_results(experiment: Experiment, request: Request, planned: Sequence[Planned], command: str) -> None:
    """Write table.csv, NAME.png, NAME.pdf and summary.md, the last three from the table's rows alone.

    --report-only takes the rows from the folder's metrics.csv.gz, where there is one, in place of cells.
    """
    from curious_jax.show import curves
    from experiments.analysis import summary

    out, asked = request.out, request.conditions
    packed = out / table.PACKED
    kept = request.report_only and packed.is_file()
    rows = _kept(packed, request) if kept else table.build(planned, request.seeds)
    table.write(rows, out / TABLE)
    with curves.own_style(math=True):
        experiment.draw(rows, asked, out / experiment.name)
    text = summary.document(experiment.heading, command, rows, asked, experiment.findings(rows, asked))
    files.write(out / SUMMARY, text.encode())
    print(f"table: {out / TABLE}\nfigure: {out / experiment.name}.png\nsummary: {out / SUMMARY}", flush=True)


def _kept(packed: Path, request: Request) -> Any:
    """Read the rows of the seeds that are asked for from metrics.csv.gz.

    Raises:
      ConfigError: when it is another experiment's, lacks a seed, or its runs had another length than is asked for.
    """
    rows = table.read(packed)
    labels = {name for condition in request.conditions for name in table.columns(condition.labels)}
    if missing := labels - set(rows.columns[: list(rows.columns).index("seed")]):
        raise ConfigError(f"--report-only: {packed} has no column {sorted(missing)[0]}; it is another experiment's")
    if lacking := set(request.seeds) - set(rows["seed"]):
        raise ConfigError(f"--seeds: {packed} lacks {min(lacking)}; its summary.md begins with the command of its runs")
    rows = rows[rows["seed"].isin(request.seeds)]
    for condition in request.conditions:
        # As the machine that ran it took it: preset auto is another one on a GPU.
        configs = [make_config(platform, **condition.settings) for platform in ("cpu", "gpu")]
        lengths, target = [evaluations.list_due(config)[-1] for config in configs], configs[0].target_success
        own, asked = table.select(rows, **condition.labels), lengths[0]
        last = int(own["episodes"].max()) if len(own) and own["episodes"].notna().any() else asked
        if last > max(lengths) or (target is None and len(table.select_finished(own)) and last not in lengths):
            raise ConfigError(
                f"--episodes: {packed} has evaluations up to {last} and {asked} is asked for; give the options that "
                "made it (its summary.md begins with them)"
            )
    return rows
