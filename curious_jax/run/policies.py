"""Light policy exports: what `evaluate` needs of a run, and nothing else.

    checkpoints/last/ and checkpoints/best/
      export.json   format version, the program's version, episodes and success at the time, the whole config
      policy/       actor parameters and normaliser statistics (orbax)

Arrays are written from host memory, so that an export from a GPU opens on a machine with one CPU.
"""

import dataclasses
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

import curious_jax
from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder

FORMAT = 1
LAST, BEST = "last", "best"
INFO, POLICY = "export.json", "policy"
PRETRAINED = "pretrained"  # a folder of a clone, with exports in it
_COMMITTED = "commit_success.txt"


@dataclass(frozen=True)
class Export:
    """An export found on disk; `restore` reads its policy."""

    path: Path
    config: TrainConfig
    info: dict[str, Any]  # format, version, episodes, mean_success, config


def save(folder: str | Path, policy: Any, config: TrainConfig, info: dict[str, Any]) -> None:
    """Writes an export under a name that may be taken already; the old one goes when the new one is complete.

    Args:
      folder: e.g. RUN/checkpoints/last.
      policy: any pytree of arrays.
      info: plain data to keep beside it (episodes, mean_success).
    """
    import orbax.checkpoint as ocp

    folder = Path(folder).absolute()
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for scratch in (new, old):
        shutil.rmtree(scratch, ignore_errors=True)
    new.mkdir(parents=True)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(new / POLICY, jax.device_get(policy))
        checkpointer.wait_until_finished()  # leaving earlier would lose it without a word
    committed = new / POLICY / _COMMITTED
    if committed.exists():  # orbax writes into it where the folder stands on this machine, and reads none of it
        committed.write_text("")
    about = {"format": FORMAT, "version": curious_jax.__version__, **info, "config": configs.to_dict(config)}
    runfolder.write_json(new / INFO, about)
    if folder.exists():
        os.rename(folder, old)
    os.rename(new, folder)
    shutil.rmtree(old, ignore_errors=True)


def find(run: str | Path, name: str = LAST) -> Export:
    """The export of a run folder.

    Args:
      run: a run folder, an export's own folder, or pretrained/NAME, which is found from any folder.
      name: last or best.
    Raises:
      ConfigError: when the folder is missing, is no run's, holds no export yet, or one that cannot be read.
    """
    run = _pretrained(Path(run))
    if not os.path.isdir(run):  # unlike Path's, False for a name that is too long as well
        raise ConfigError(f"{run}: no such folder; give the folder of a run (it holds {runfolder.CONFIG})")
    folder = run if (run / INFO).is_file() else run / runfolder.CHECKPOINTS / name
    if not folder.is_dir():  # the moment between save's two renames
        folder = folder.with_name(f".{folder.name}.old")
    if not folder.is_dir():
        if not (run / runfolder.CONFIG).is_file():
            raise ConfigError(f"{run}: is not the folder of a run (no {runfolder.CONFIG} in it)")
        raise ConfigError(f"{run}: holds no policy yet (no {runfolder.CHECKPOINTS}/{name}); let it evaluate once")
    try:
        info = json.loads((folder / INFO).read_text())
        number = info["format"]
        if number != FORMAT:
            raise ConfigError(f"{folder}: has format {number}; curious_jax {curious_jax.__version__} reads {FORMAT}")
        config = dataclasses.replace(configs.from_dict(info["config"]), devices=1)  # one acts, wherever it was trained
        return Export(folder, config, info)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{folder}: {INFO} is missing or damaged") from None


def _pretrained(run: Path) -> Path:
    """pretrained/NAME of the clone that this program runs from, when there is none in the current folder.

    Raises:
      ConfigError: when there is no such policy; it names those there are, or says where they are to be had.
    """
    if os.path.isdir(run) or run.is_absolute() or len(run.parts) != 2 or run.parts[0] != PRETRAINED:
        return run
    shelf = Path(curious_jax.__file__).parent.parent / PRETRAINED
    if (shelf / run.name).is_dir():
        return shelf / run.name
    names = sorted(path.parent.name for path in shelf.glob(f"*/{INFO}"))
    if names:
        raise ConfigError(f"{run}: no such policy; there are {', '.join(names)}")
    raise ConfigError(
        f"{run}: pretrained policies come with a clone of curious_jax's repository, not with the installed package; "
        f"clone it, and give the path to its {run}"
    )


def restore(export: Export, like: Any) -> Any:
    """The policy of an export, as arrays on the default device.

    Args:
      like: a pytree of that structure with shapes and types (jax.eval_shape's result).
    Raises:
      ConfigError: when the files are damaged or belong to another network.
    """
    import orbax.checkpoint as ocp

    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    target = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), like)
    try:
        with ocp.StandardCheckpointer() as checkpointer:
            return checkpointer.restore((export.path / POLICY).absolute(), target)
    except Exception as error:  # orbax and tensorstore raise many kinds for damaged files
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ConfigError(f"{export.path}: the policy cannot be read ({reason})") from None
