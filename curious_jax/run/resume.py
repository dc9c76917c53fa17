"""The way back into a run: its last checkpoint (saver.py), what may change, and the state itself."""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

import curious_jax
from curious_jax import config as configs
from curious_jax import fit
from curious_jax.cli import parser as options
from curious_jax.cli import program
from curious_jax.config import TrainConfig, option_name
from curious_jax.errors import ConfigError
from curious_jax.learner import devices, trainer
from curious_jax.run import checkpoints, memory
from curious_jax.run import folder as runfolder
from curious_jax.types import Env

FREE = (
    "episodes",
    "devices",
    "imports",
    "checkpoint_minutes",
    "checkpoint_episodes",
    "keep_checkpoints",
)  # never change a cycle
MAY_CHANGE = ("episodes", "devices", "imports")  # beside --resume


@dataclass(frozen=True)
class Found:
    """A checkpoint on disk, and the run it belongs to; `path` is the run's own when nothing was saved yet."""

    run: Path
    path: Path
    config: TrainConfig  # what config.json of the run asks for
    info: dict[str, Any]  # format, version, config, physics, key_impl, progress, best

    @property
    def saved(self) -> bool:
        """Is there a checkpoint at all?"""
        return self.path != self.run

    @property
    def episodes(self) -> int:
        """Training episodes done, per seed."""
        return self.info["progress"]["cycles"] * self.config.schedule.num_envs


class Reopened(NamedTuple):
    """A run that is about to go on."""

    found: Found
    config: TrainConfig
    env: Any
    folder: runfolder.RunFolder
    earlier: list[dict[str, Any]]  # the rows of metrics.jsonl so far
    moment: fit.Moment | None  # None where the program was killed before its first checkpoint: it begins anew
    notes: str  # what its user should know


def reopen(run: str | Path, settings: Mapping[str, Any]) -> Reopened:
    """Takes a run's folder over and loads its last checkpoint; nothing is changed before all of it is known to fit.

    Args:
      settings: flat, as given on the command line.
    Raises:
      ConfigError: when the run cannot go on, or not so.
    """
    find(run)
    folder = runfolder.reopen(run)
    try:
        found = find(run)  # now that nobody else can replace it
        config = asked(found, settings)
        env = program.make_env(config)
        memory_line = memory.check(config, env)
        moment = load(found, config, env) if found.saved else None
        checkpoints.clean(run_checkpoints(run))
        earlier = folder.go_on(config, found.episodes)
    except BaseException as error:
        folder.close()
        if isinstance(error, OSError):
            raise ConfigError(f"--resume {run}: cannot be written to ({error.strerror}); make room there") from None
        raise
    began = f"from {found.path.name}" if found.saved else "from the beginning, since nothing was saved yet"
    notes = [memory_line, f"run folder: {found.run}, {began}"]
    if found.saved and found.info["physics"] != env.physics_name:
        notes.append(f"physics was {found.info['physics']}, now {env.physics_name}: the run goes on, but not exactly")
    if found.episodes >= config.schedule.episodes:
        notes.append(f"all {config.schedule.episodes:,} episodes are done: --episodes N goes further")
    return Reopened(found, config, env, folder, earlier, moment, "\n".join(notes))


def find(run: str | Path) -> Found:
    """The last checkpoint of a run.

    Raises:
      ConfigError: when the folder is missing, is no run's, holds no checkpoint, or one that cannot be used.
    """
    run = Path(run)
    name = f"--resume {run}"
    if not os.path.isdir(run):  # unlike Path's, False for a name that is too long as well
        raise ConfigError(f"{name}: no such folder; give the folder of a run (it holds {runfolder.CONFIG})")
    if not (run / runfolder.CONFIG).is_file():
        raise ConfigError(f"{name}: is not the folder of a run (no {runfolder.CONFIG} in it)")
    kept = checkpoints.states(run_checkpoints(run))
    if not kept and not _has_results(run):
        config = configs.make_config(**options.read_config(run / runfolder.CONFIG))
        return Found(run, run, config, {"best": -1.0, "progress": {"cycles": 0}})
    if not kept:
        raise ConfigError(
            f"{name}: holds no checkpoint (no {runfolder.CHECKPOINTS}/{checkpoints.PREFIX}*); "
            f"begin it anew with --config {run / runfolder.CONFIG}"
        )
    try:
        info = json.loads((kept[-1] / checkpoints.INFO).read_text())
        if (number := info["format"]) != checkpoints.FORMAT:
            advice = "install a newer one" if number > checkpoints.FORMAT else "use the one that wrote it"
            reads = f"curious_jax {curious_jax.__version__} reads {checkpoints.FORMAT}"
            raise ConfigError(f"{kept[-1]}: has format {number} and {reads}; {advice}")
        fit.Progress(**info["progress"])
        saved = configs.from_dict(info["config"])
        config = configs.make_config(**options.read_config(run / runfolder.CONFIG))
    except ConfigError as error:
        raise ConfigError(str(error).replace("--config", "--resume", 1)) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise ConfigError(f"{kept[-1]}: {checkpoints.INFO} is missing or damaged{_instead(kept)}") from None
    found = Found(run, kept[-1], config, info)
    check_same(found.path, saved, config)
    return found


def run_checkpoints(run: str | Path) -> Path:
    """The checkpoints folder of a run."""
    return Path(run) / runfolder.CHECKPOINTS


def _has_results(run: Path) -> bool:
    """Does the folder hold figures, which beginning anew would cost?"""
    metrics = run / runfolder.METRICS
    return (run / runfolder.SUMMARY).exists() or (metrics.is_file() and metrics.stat().st_size > 0)


def _instead(kept: list[Path]) -> str:
    return f"; remove it to go on from {kept[-2].name}" if len(kept) > 1 else ""


def check_same(path: Path, saved: TrainConfig, asked: TrainConfig) -> None:
    """Refuses to go on from a checkpoint of another run.

    Raises:
      ConfigError: naming the first setting that differs and both its values.
    """
    for name in configs.fields_by_name():
        was, wanted = setting(saved, name), setting(asked, name)
        if name not in FREE and was != wanted:
            option = option_name(name)
            raise ConfigError(
                f"{option} {options.show(wanted)}: the checkpoint {path} has {options.show(was)}; "
                f"ask for that, or begin a new run"
            )


def setting(config: TrainConfig, name: str) -> Any:
    """A setting by its flat name."""
    group, _ = configs.fields_by_name()[name]
    return getattr(getattr(config, group) if group else config, name)


def asked(found: Found, settings: Mapping[str, Any]) -> TrainConfig:
    """The config to go on with: the run's, with more episodes when those are given.

    Args:
      settings: flat, as given on the command line.
    Raises:
      ConfigError: when another setting is to change, or fewer episodes are asked for than are done.
    """
    for name, value in settings.items():
        was = setting(found.config, name)
        if name not in MAY_CHANGE and value != was:
            raise ConfigError(
                f"{option_name(name)} {options.show(value)}: the run in {found.run} has {options.show(was)} "
                f"and --resume changes nothing but --episodes and --devices; leave it out, or begin a new run"
            )
    imports = tuple(dict.fromkeys([*found.config.imports, *settings.get("imports", ())]))
    config = dataclasses.replace(found.config, devices=settings.get("devices", found.config.devices), imports=imports)
    if "episodes" in settings:
        schedule = dataclasses.replace(config.schedule, episodes=settings["episodes"])
        config = dataclasses.replace(config, schedule=schedule)
        if schedule.cycles < found.info["progress"]["cycles"]:
            raise ConfigError(f"--episodes {schedule.episodes}: {found.run} has done {found.episodes}; give more")
    return config


def load(found: Found, config: TrainConfig, env: Env) -> fit.Moment:
    """The moment a checkpoint holds, on the default device, with the types and structure that a run has.

    Raises:
      ConfigError: when it belongs to another run than config's, or its files are damaged.
    """
    import orbax.checkpoint as ocp

    check_same(found.path, configs.from_dict(found.info["config"]), config)
    impl = str(jax.random.key_impl(jax.random.key(0)))
    if found.info["key_impl"] != impl:
        raise ConfigError(
            f"{found.path}: has {found.info['key_impl']} random keys and this JAX makes {impl}; "
            f"set JAX_DEFAULT_PRNG_IMPL={found.info['key_impl']}"
        )
    like = jax.eval_shape(lambda: {"state": trainer.init(config, env), "total": trainer.no_metrics(config)})
    device = devices.everywhere(config.devices) or jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def target(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        x = jax.eval_shape(jax.random.key_data, x) if checkpoints.is_key(x) else x
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device)

    try:
        with ocp.StandardCheckpointer() as checkpointer:
            tree = checkpointer.restore((found.path / checkpoints.STATE).absolute(), jax.tree.map(target, like))
    except Exception as error:  # orbax and tensorstore raise many kinds for damaged files
        instead = _instead(checkpoints.states(found.path.parent))
        raise ConfigError(f"{found.path}: cannot be read ({checkpoints.reason(error)}){instead}") from None
    tree = jax.tree.map(lambda x, as_was: jax.random.wrap_key_data(x) if checkpoints.is_key(as_was) else x, tree, like)
    return fit.Moment(tree["state"], tree["total"], fit.Progress(**found.info["progress"]))
