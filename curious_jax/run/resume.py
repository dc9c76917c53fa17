"""Takes a run up again: its last whole checkpoint (checkpoints.py), what may change, and the state itself.

`reopen` takes these steps in this order, and changes nothing in the folder before all of them have passed:

    step                  gives                                     refuses
    find                  the last checkpoint that is whole         no run's folder; results without a whole checkpoint;
                                                                    a config.json of another run than the checkpoint
    merge_settings        the config to continue with               any new setting but MAY_CHANGE; fewer episodes than
                                                                    are done
    make_env, memory      the environments                          what cannot be built, or does not fit
    load                  the progress, with the state, under       damaged arrays, keys of another kind, once more a
                          the new config (fit's with_config)        setting that a cycle depends on, and a name and a
                                                                    state that contradict one another

Settings of fit's FREE may differ between config.json and its checkpoint: they shape no state. MAY_CHANGE names what a
user may type beside --resume.
"""

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import curious_jax
from curious_jax import config as configs
from curious_jax import fit
from curious_jax.cli import environment
from curious_jax.cli import parser as options
from curious_jax.config import TrainConfig, option_name
from curious_jax.errors import ConfigError
from curious_jax.fit.progress import FREE, SAVED, Progress, find_difference, with_config
from curious_jax.learner import devices, trainer
from curious_jax.learner.state import TrainState, no_metrics
from curious_jax.run import checkpoints, files, manifest, memory, milestones, writer
from curious_jax.run import folder as runfolder
from curious_jax.types import Env

MAY_CHANGE = ("episodes", "target_success", "devices", "imports")  # beside --resume
NOTHING = {"best": -1.0, "progress": {"cycles": 0}, "metrics": None}  # before the first checkpoint


@dataclass(frozen=True)
class Found:
    """A checkpoint on disk, and the run it belongs to; `path` is the run's own when nothing was saved yet."""

    run: Path
    path: Path
    config: TrainConfig  # what config.json of the run asks for
    info: dict[str, Any]  # format, version, config, physics, key_impl, progress, metrics, best
    damaged: dict[Path, str] = dataclasses.field(default_factory=dict)  # later checkpoints, and what is wrong with them

    @property
    def saved(self) -> bool:
        """Tells whether there is a checkpoint at all."""
        return self.path != self.run

    @property
    def episodes(self) -> int:
        """Training episodes done, per seed."""
        return self.info["progress"]["cycles"] * self.config.schedule.num_envs

    def met(self, target: float) -> bool:
        """Tells whether every seed had reached this target."""
        same = self.saved and self.info["config"].get("target_success") == target
        return same and all(self.info["progress"]["reached"])


class Reopened(NamedTuple):
    """A run that is about to continue."""

    found: Found
    config: TrainConfig
    env: Env
    folder: runfolder.RunFolder
    earlier: list[dict[str, Any]]  # the rows of metrics.jsonl so far
    start: Progress | None  # None where the program was killed before its first checkpoint: it starts again
    notes: str  # what its user should know


def reopen(run: str | Path, settings: Mapping[str, Any]) -> Reopened:
    """Takes a run's folder over and loads its last whole checkpoint; nothing changes before all of it is known to fit.

    Args:
      settings: flat, as given on the command line.
    Raises:
      ConfigError: when the run cannot continue, or not so.
    """
    check_folder(run)
    folder = runfolder.reopen(run)
    try:
        found = find(run)
        config = merge_settings(found, settings)
        env = environment.make_env(config)
        memory_line = memory.check(config, env)
        start = load(found, config, env) if found.saved else None
        earlier, size = folder.rows(found.episodes, found.info.get("metrics"))
        for path in found.damaged:
            files.remove(path)
        writer.clean(run_checkpoints(run))
        folder.go_on(config, size)
        milestones.remove_later(Path(run), found.episodes)
    except BaseException as error:
        folder.close()
        if isinstance(error, OSError):
            raise ConfigError(f"--resume {run}: cannot be written to ({error.strerror}); make room there") from None
        raise
    notes = [memory_line, *_notes(found, config, env, len(earlier))]
    return Reopened(found, config, env, folder, earlier, start, "\n".join(notes))


def _notes(found: Found, config: TrainConfig, env: Env, rows: int) -> list[str]:
    """Lists what is worth knowing about the way a run continues."""
    began = f"from checkpoint {found.path.name}" if found.saved else "from the beginning, since nothing was saved yet"
    notes = [f"run folder: {found.run}, {began}"]
    notes += [f"checkpoint {path.name} is damaged ({why}) and goes" for path, why in found.damaged.items()]
    mark = found.info.get("metrics")
    if mark and mark["bytes"] and not rows:
        notes.append(f"{runfolder.METRICS} was empty: the rows up to {found.episodes:,} episodes are lost")
    if found.saved:
        notes += _other_settings(found)
    if found.saved and found.info["physics"] != env.physics_name:
        notes.append(f"physics was {found.info['physics']}, now {env.physics_name}: the run continues, but not exactly")
    schedule = config.schedule
    longer = found.saved and schedule.episodes > configs.from_dict(found.info["config"]).schedule.episodes
    if longer and config.preset == "paper" and schedule.cycles * schedule.num_envs > schedule.capacity:
        kept = f"the replay buffer keeps the last {schedule.capacity:,} episodes, as this run began"
        notes.append(f"{kept}; the paper keeps all, as a new run of --preset paper --episodes {schedule.episodes} does")
    if found.episodes >= config.schedule.episodes:
        notes.append(f"all {config.schedule.episodes:,} episodes are done: --episodes N goes further")
    if config.target_success is not None and found.met(config.target_success):
        notes.append(f"the target of {config.target_success:g} was reached: --target-success X, or none, goes further")
    return notes


def _other_settings(found: Found) -> list[str]:
    """Says which settings config.json has changed since the checkpoint, those that may change."""
    saved = configs.from_dict(found.info["config"])
    pairs = [(name, configs.value(found.config, name), configs.value(saved, name)) for name in FREE]
    return [
        f"{runfolder.CONFIG} asks for {option_name(name)} {options.show(now)}, "
        f"the checkpoint was made with {options.show(was)}"
        for name, now, was in pairs
        if now != was
    ]


def check_folder(run: str | Path) -> None:
    """Refuses a folder that is no run's. Raises ConfigError, naming --resume."""
    run = Path(run)
    if not os.path.isdir(run):  # unlike Path's, False for a name that is too long as well
        near = runfolder.nearest(run)
        raise ConfigError(
            f"--resume {run}: no such folder; {near}give the folder of a run (it holds {runfolder.CONFIG})"
        )
    if not os.path.isfile(run / runfolder.CONFIG):
        what = f"is not the folder of a run (no {runfolder.CONFIG} in it)"
        raise ConfigError(f"--resume {run}: {what}; {runfolder.POLICY_ALONE}")


def find(run: str | Path) -> Found:
    """Finds the last checkpoint of a run that is what was written.

    Raises:
      ConfigError: when the folder is missing, is no run's, holds no checkpoint, or none that can be used.
    """
    check_folder(run)
    run = Path(run)
    runfolder.check_regular(run)
    try:
        config = configs.make_config(**options.read_config(run / runfolder.CONFIG))
    except ConfigError as error:
        raise ConfigError(str(error).replace("--config", "--resume", 1)) from None
    kept = checkpoints.states(run_checkpoints(run))
    if not kept and not runfolder.has_results(run):
        return Found(run, run, config, NOTHING)
    if not kept:
        raise ConfigError(
            f"--resume {run}: holds no checkpoint (no {runfolder.CHECKPOINTS}/STEP); "
            f"start again {checkpoints.from_config(run)}"
        )
    damaged: dict[Path, str] = {}
    for path in reversed(kept):
        try:
            info = read_info(path)
        except manifest.Damaged as error:
            damaged[path] = str(error)
            continue
        found = Found(run, path, config, info, damaged)
        check_same(path, configs.from_dict(info["config"]), config)
        return found
    path, why = next(iter(damaged.items()))
    raise ConfigError(
        f"{path}: the checkpoint is damaged ({why}) and there is no other; start again {checkpoints.from_config(run)}"
    )


def read_info(path: Path) -> dict[str, Any]:
    """Reads what a checkpoint says of itself, once its files are known to be those that were written.

    Raises:
      ConfigError: when another version wrote it.
      Damaged: when it is not what was written, or does not say what it must.
    """
    old = checkpoints.is_old(path)
    if not old:
        manifest.verify(path, writer.PARTS)
    name = checkpoints.OLD_INFO if old else f"{writer.INFO}/metadata"
    wanted = checkpoints.OLD_FORMAT if old else checkpoints.FORMAT
    try:
        info = json.loads(files.read_text(path / name))
        if (number := info["format"]) != wanted:
            advice = "install a newer one" if number > wanted else "use the one that wrote it"
            reads = f"curious_jax {curious_jax.__version__} reads {checkpoints.FORMAT}"
            raise ConfigError(f"{path}: has format {number} and {reads}; {advice}")
        cycles = info["progress"]["cycles"]
        if set(info["progress"]) != set(SAVED) or type(cycles) is not int or cycles < 0:
            raise TypeError
        configs.from_dict(info["config"])
        info["best"] = float(info["best"])
        for key in ("physics", "key_impl"):
            info[key] = str(info[key])
    except ConfigError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise manifest.Damaged(f"{name} is missing or damaged") from None
    return info


def run_checkpoints(run: str | Path) -> Path:
    """The checkpoints folder of a run."""
    return Path(run) / runfolder.CHECKPOINTS


def check_same(path: Path, saved: TrainConfig, asked: TrainConfig) -> None:
    """Refuses to continue from a checkpoint of another run.

    Raises:
      ConfigError: naming the first setting that differs and both its values.
    """
    if (name := find_difference(saved, asked)) is not None:
        was, wanted = (options.show(configs.value(one, name)) for one in (saved, asked))
        raise ConfigError(
            f"{option_name(name)} {wanted}: the checkpoint {path} has {was}; ask for that, or begin a new run"
        )


def merge_settings(found: Found, settings: Mapping[str, Any]) -> TrainConfig:
    """The config to continue with: the run's, with more episodes, another target or other devices when those are given.

    Args:
      settings: flat, as given on the command line.
    Raises:
      ConfigError: when another setting is to change, or fewer episodes are asked for than are done.
    """
    for name, value in settings.items():
        was = configs.value(found.config, name)
        if name not in MAY_CHANGE and value != was:
            raise ConfigError(
                f"{option_name(name)} {options.show(value)}: the run in {found.run} has {options.show(was)} "
                "and --resume changes nothing but --episodes, --target-success and --devices; leave it out, or begin a "
                "new run"
            )
    imports = tuple(dict.fromkeys([*found.config.imports, *settings.get("imports", ())]))
    given = {name: settings[name] for name in ("target_success", "devices") if name in settings}
    config = dataclasses.replace(found.config, imports=imports, **given)
    if "episodes" in settings:
        schedule = dataclasses.replace(config.schedule, episodes=settings["episodes"])
        fails = config.perturbation.perturb_at
        if fails is not None and schedule.episodes < fails:
            raise ConfigError(f"--episodes {schedule.episodes}: the sensor fails after {fails}; give as many or more")
        config = dataclasses.replace(config, schedule=schedule)
        if schedule.cycles < found.info["progress"]["cycles"]:
            raise ConfigError(f"--episodes {schedule.episodes}: {found.run} has done {found.episodes}; give more")
    return config


def load(found: Found, config: TrainConfig, env: Env) -> Progress:
    """Reads the progress that a checkpoint holds, onto the default device, with the types and structure that a run has.

    Raises:
      ConfigError: when it belongs to another run than config's, or its files are damaged.
    """
    check_same(found.path, configs.from_dict(found.info["config"]), config)
    impl = str(jax.random.key_impl(jax.random.key(0)))
    if found.info["key_impl"] != impl:
        raise ConfigError(
            f"{found.path}: has {found.info['key_impl']} random keys and this JAX makes {impl}; "
            f"set JAX_DEFAULT_PRNG_IMPL={found.info['key_impl']}"
        )
    like = jax.eval_shape(lambda: checkpoints.tree(trainer.init(config, env), no_metrics(config)))
    device = devices.everywhere(config.devices) or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    old = checkpoints.is_old(found.path)  # which kept random keys as their bits

    def target(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        x = jax.eval_shape(jax.random.key_data, x) if old and is_key(x) else x
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device)

    try:
        tree = writer.read(found.path / writer.STATE, jax.tree.map(target, like))
    except Exception as error:  # orbax and tensorstore raise many kinds for damaged files
        raise ConfigError(
            f"{found.path}: cannot be read ({checkpoints.reason(error)}); remove it to continue from one before it, "
            f"or start again {checkpoints.from_config(found.run)}"
        ) from None
    if old:
        tree = jax.tree.map(lambda x, as_was: jax.random.wrap_key_data(x) if is_key(as_was) else x, tree, like)
    saved = configs.from_dict(found.info["config"])
    progress = fit.resume(saved, env, TrainState(**tree["state"]), tree["total"], found.info["progress"])
    progress = with_config(progress, config)
    same = np.all(np.asarray(progress.state.cycle) == progress.cycles)
    if not same or progress.env_steps != checkpoints.step(found.path):
        raise ConfigError(f"{found.path}: its name, its state and its {writer.INFO} contradict one another")
    return progress


def is_key(x: Any) -> bool:
    """Tells whether a leaf is a typed random key."""
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
