"""Trained policies on disk: what it takes to act, and nothing else.

    policies/last/, policies/best/ and policies/EPISODES/ of a run, and every folder that `export` makes
      policy.npz      actor parameters and normaliser statistics, as NumPy arrays by their paths
      policy.json     format version, the program's version, episodes and success at the time, the whole config
      manifest.json   a SHA-256 of both

They are written with NumPy: they are small, and orbax in the same process is busy with checkpoints (writer.py).
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import curious_jax
from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError, first_line
from curious_jax.learner import perturbation, trainer
from curious_jax.learner.state import PolicyParams, policy_params
from curious_jax.run import files, formats, hub, manifest, milestones, writer, zoo
from curious_jax.run import folder as runfolder
from curious_jax.types import Env

FORMAT = 2
LAST, BEST = "last", "best"
ARRAYS, INFO = "policy.npz", "policy.json"
PARTS = (ARRAYS, INFO)
OLD_FORMAT, OLD_ARRAYS, OLD_INFO = 1, "policy", "export.json"  # of an earlier version: by orbax, no manifest
UNSEEN = {".DS_Store", ".directory", hub.COMMIT}  # files that others leave in a policy's folder
HELD = {*PARTS, manifest.MANIFEST, hub.CARD, hub.README, OLD_ARRAYS, OLD_INFO}  # what a folder of a policy may hold


@dataclass(frozen=True)
class SavedPolicy:
    """A policy found on disk; `load` reads it."""

    path: Path
    config: TrainConfig
    info: dict[str, Any]  # format, version, episodes, mean_success, config


class Loaded(NamedTuple):
    """A trained policy and the world it was trained in."""

    config: TrainConfig  # of this one seed
    env: Env
    params: PolicyParams
    offset: jax.Array | None  # [O], what the sensors are off by (perturbation.py)
    episodes: int  # that it was trained for


def save(
    folder: str | Path, policy: Any, config: TrainConfig, info: dict[str, Any], pages: Mapping[str, str] | None = None
) -> None:
    """Writes a policy under a name that may be taken already; the old one goes when the new one is on the disk.

    Args:
      folder: e.g. RUN/policies/last.
      policy: any pytree of arrays.
      info: plain data to keep beside it (episodes, mean_success).
      pages: texts for people and other programs, by the name of their file; `load` does not read them.
    Raises:
      OSError: when it cannot be written; what was there stays.
    """
    folder = Path(folder).absolute()
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    files.recover(old)
    shutil.rmtree(new, ignore_errors=True)
    about = {"format": FORMAT, "version": curious_jax.__version__, **info, "config": configs.to_dict(config)}
    try:
        new.mkdir(parents=True)
        leaves, _ = jax.tree_util.tree_flatten_with_path(jax.device_get(policy))
        np.savez(new / ARRAYS, **{jax.tree_util.keystr(path): leaf for path, leaf in leaves})
        (new / INFO).write_text(json.dumps(runfolder.plain(about), indent=2) + "\n")
        for name, text in (pages or {}).items():
            (new / name).write_text(text, encoding="utf-8")
        manifest.seal(new, PARTS)
        if folder.exists():
            os.rename(folder, old)
        os.rename(new, folder)
        files.sync(folder.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        files.recover(old)


def check_place(folder: str | Path) -> None:
    """Refuses a place that holds anything but a policy, before `save` puts another one there.

    Raises:
      ConfigError: naming the place.
    """
    place = Path(folder).absolute()
    if not os.path.lexists(place):
        return
    if place.is_symlink() or not place.is_dir():
        raise ConfigError(f"{folder}: is {'a link' if place.is_symlink() else 'no folder'}; name a new folder")
    held = {path.name for path in place.iterdir() if path.name not in UNSEEN or path.is_dir()}
    if held and not (held & {INFO, OLD_INFO} and held <= HELD):
        raise ConfigError(f"{folder}: holds other things than a policy; name a new folder, or one in it")


def find(run: str | Path, name: str | int = LAST) -> SavedPolicy:
    """Finds a policy and checks that it is what was written.

    Args:
      run: a run folder, a policy's own folder, the NAME of a policy that comes with the package (zoo.py), or
        hub:OWNER/NAME (hub.py).
      name: last or best, or the training episodes of a policy that was kept on the way (milestones.py).
    Raises:
      ConfigError: when the folder is missing, is no run's, holds no policy yet, or one that cannot be read.
    """
    asked, run, name = str(run), zoo.find(Path(run)), str(name)
    if not os.path.isdir(run):  # unlike Path's, False for a name that is too long as well
        raise ConfigError(
            f"{run}: no such folder; {runfolder.nearest(run, zoo.names())}give the folder of a run (it holds "
            f"{runfolder.CONFIG}), or the name of a policy that comes with curious_jax: {zoo.say_names()}"
        )
    folder, old = run, False
    try:
        folder = _folder(run, name)
        old = not os.path.lexists(folder / INFO) and os.path.lexists(folder / OLD_INFO)
        if not old:
            manifest.verify(folder, PARTS)
        info = json.loads(files.read_text(folder / (OLD_INFO if old else INFO)))
        number, wanted = info["format"], OLD_FORMAT if old else FORMAT
        if number != wanted:
            raise ConfigError(f"{folder}: has format {number}; curious_jax {curious_jax.__version__} reads {FORMAT}")
        if type(info["episodes"]) is not int:
            raise TypeError
        config = dataclasses.replace(configs.from_dict(info["config"]), devices=1)  # one acts, wherever it was trained
        if hub.is_name(asked):
            hub.check_imports(asked, config.imports)
        return SavedPolicy(folder, config, info)
    except ConfigError:
        raise
    except manifest.Damaged as error:
        raise ConfigError(f"{folder}: the policy is damaged ({error}); take another copy of it") from None
    except OSError as error:
        raise ConfigError(f"{error.filename or run}: cannot be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(f"{folder}: {OLD_INFO if old else INFO} is damaged; take another copy of it") from None


def load(
    policy: str | Path | SavedPolicy, name: str | int = LAST, seed_index: int = 0, physics: str | None = None
) -> Loaded:
    """Loads a trained policy with the world it was trained in.

    `loaded = load("runs/mine")`, then `loaded.params` are the parameters of the function that
    `setup(loaded.config, loaded.env)` makes, and `loaded.config.modules` what it can be asked for.

    Args:
      policy: a run's folder, a policy's own folder, the NAME of one that comes with the package, hub:OWNER/NAME, or
        what `find` found.
      name: which of a run's policies: last, best, or the training episodes of one that was kept on the way.
      seed_index: which seed of a run with several.
      physics: another backend than the run's; None for the same.
    Returns:
      The config of this one seed, its environment, the policy's parameters on the default device, the offset of the
      sensors (None where there is no perturbation), and the episodes of training.
    Raises:
      ConfigError: in one line, when there is no such policy, it is damaged, or the physics is not here.
    """
    saved = policy if isinstance(policy, SavedPolicy) else find(policy, name)
    config, seeds = saved.config, saved.config.num_seeds
    if not 0 <= seed_index < seeds:
        raise ConfigError(f"seed_index={seed_index}: must be from 0 to {seeds - 1}")
    config = dataclasses.replace(config, num_seeds=1, seed=config.seed + seed_index, physics=physics or config.physics)
    env = environment.make_env(config, to_act=True)
    one = jax.eval_shape(lambda: policy_params(trainer.init(config, env)))
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct((seeds, *x.shape), x.dtype), one) if seeds > 1 else one
    params = _restore(saved, like)
    if seeds > 1:
        params = jax.tree.map(lambda leaf: leaf[seed_index], params)
    episodes = saved.info["episodes"]
    return Loaded(config, env, params, perturbation.offset(config.perturbation, env, episodes), episodes)


def _restore(saved: SavedPolicy, like: Any) -> Any:
    """The parameters of a saved policy, as arrays on the default device.

    Args:
      like: a pytree of that structure with shapes and types (jax.eval_shape's result).
    Raises:
      ConfigError: when the files are damaged or belong to another network.
    """
    try:
        if saved.info["format"] == OLD_FORMAT:
            return _restore_old(saved.path / OLD_ARRAYS, like)
        with files.open_regular(saved.path / ARRAYS) as file, np.load(file, allow_pickle=False) as arrays:
            paths, structure = jax.tree_util.tree_flatten_with_path(like)
            names = [jax.tree_util.keystr(path) for path, _ in paths]
            if sorted(names) != sorted(arrays.files):
                raise ValueError("it belongs to another network")
            leaves = [arrays[name] for name in names]
        for name, leaf, (_, wanted) in zip(names, leaves, paths, strict=True):
            if (leaf.shape, leaf.dtype) != (wanted.shape, wanted.dtype):
                raise ValueError(f"{name} is {leaf.dtype}{leaf.shape} and not {wanted.dtype}{wanted.shape}")
        return jax.tree.unflatten(structure, jax.device_put(leaves))
    except Exception as error:  # NumPy's and orbax's are of many kinds
        raise ConfigError(f"{saved.path}: the policy cannot be read ({first_line(error)})") from None


def _restore_old(path: Path, like: Any) -> Any:
    """Reads a policy that an earlier version wrote with orbax."""
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like)
    return writer.read(path, target)


def _folder(run: Path, name: str) -> Path:
    """The folder of a run's policy, wherever this version or an earlier one put it.

    Raises:
      ConfigError: when there is none.
    """
    if os.path.lexists(run / INFO) or os.path.lexists(run / OLD_INFO):
        return run
    # Earlier versions kept policies among the checkpoints; today's checkpoints are named by numbers.
    places = (runfolder.POLICIES,) if name.isdecimal() else (runfolder.POLICIES, runfolder.CHECKPOINTS)
    for place in places:
        for found in (run / place / name, run / place / f".{name}.old"):  # the latter between save's two renames
            if found.is_dir():
                return found
    if any((run / file).is_file() for file in formats.FILES.values()):
        raise ConfigError(
            f"{run}: holds a policy for programs without JAX; give the run, or an export of --format folder"
        )
    if not (run / runfolder.CONFIG).is_file():
        raise ConfigError(f"{run}: is not the folder of a run (no {runfolder.CONFIG} in it)")
    if name.isdecimal():
        there = ", ".join(map(str, milestones.find(run))) or "none (train with --keep-policies N)"
        raise ConfigError(f"{run}: no policy was kept after {name} episodes; there is {there}")
    raise ConfigError(f"{run}: holds no policy yet (no {runfolder.POLICIES}/{name}); let it evaluate once")
