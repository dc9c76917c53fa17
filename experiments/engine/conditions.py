"""The notes of conditions in a folder of cells: labels, settings, and the experiment that they belong to."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from curious_jax import config as configs
from curious_jax.cli.parser import show
from curious_jax.config import option_name
from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from experiments.engine.grid import CELLS, Condition

CONDITION = "condition.json"


def claim_condition(out: Path, condition: Condition, experiment: str = "") -> None:
    """Note a condition's labels and settings, and whose it is, in its folder, unless that is noted there."""
    path = out / CELLS / condition.name / CONDITION
    if not path.is_file() or is_longer(condition.settings, files.read_object(path).get("settings") or {}):
        path.parent.mkdir(parents=True, exist_ok=True)
        runfolder.write_json(
            path, {"experiment": experiment, "labels": condition.labels, "settings": condition.settings}
        )


def check_owner(out: Path, experiment: str) -> None:
    """Refuse the folder of another experiment, whose table and summary would be written over.

    Raises:
      ConfigError: naming --out and the other experiment.
    """
    for note in _notes(out):
        if (owner := note.get("experiment")) and owner != experiment:
            raise ConfigError(f"--out {out}: holds the cells of experiments.{owner}; name another")


def _notes(out: Path) -> list[dict[str, Any]]:
    """Reads what is noted of the conditions in a folder."""
    with contextlib.suppress(OSError):  # a name that cannot be a folder's is refused later
        return [files.read_object(path) for path in sorted((out / CELLS).glob(f"*/{CONDITION}"))]
    return []


def noted_settings(out: Path) -> dict[str, Any] | None:
    """Returns the settings that are noted of a condition in this folder, any of them; None where there is none yet."""
    return next((note["settings"] for note in _notes(out) if isinstance(note.get("settings"), dict)), None)


def is_longer(asked: Mapping[str, Any], noted: Mapping[str, Any]) -> bool:
    """Say whether more training episodes are asked for than were noted, by a preset where none were named."""
    try:
        was, now = (configs.make_config(**settings).schedule.episodes for settings in (noted, asked))
    except (ConfigError, TypeError):  # which whoever reads them says
        return False
    return was < now


def check_condition(out: Path, condition: Condition, longer: bool = False) -> None:
    """Refuse settings that differ from those noted in a condition's folder.

    Args:
      longer: more training episodes than were noted may be asked for.
    Raises:
      ConfigError: naming the first setting that differs and both values, or the note when it cannot be read.
    """
    path = out / CELLS / condition.name / CONDITION
    if not path.exists():
        return
    noted, asked = files.read_object(path).get("settings"), runfolder.plain(condition.settings)
    if not isinstance(noted, dict):
        raise ConfigError(f"{path}: cannot be read; remove it (each cell is compared too), or name another --out")
    if longer and is_longer(asked, noted):
        noted, asked = ({name: one[name] for name in one if name != "episodes"} for one in (noted, asked))
    refuse_others(noted, asked, f"the cells in {path.parent} have")


def refuse_others(was: Mapping[str, Any], now: Mapping[str, Any], those: str) -> None:
    """Refuse settings that differ from those that were noted.

    Args:
      those: what has the noted ones, with its verb, such as "the cells in DIR have".
    Raises:
      ConfigError: naming the first setting that differs and both values.
    """
    for name in sorted({*was, *now}):
        before, here = (show(s[name]) if name in s else "its default" for s in (was, now))
        if before != here:
            raise ConfigError(f"{option_name(name)} {here}: {those} {before}; ask for that, or name another --out")
