"""The command line of the programs, made from the fields of the config.

Everything that can be wrong with it ends in one line on standard error that names the option and the right values, and
exit status 2 (program.py).
"""

import argparse
import contextlib
import dataclasses
import difflib
import errno
import json
import os
import re
import sys
import types
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import curious_jax
from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.errors import ConfigError, SettingError, option_name

GROUP_TITLES = {
    None: "the run",
    "schedule": "schedule",
    "curriculum": "curriculum (self-evaluation, competence, learning progress, choice of modules)",
    "hindsight": "replay (which modules, from which episodes, with which goals)",
    "exploration": "exploration",
    "normalizer": "input normalisation",
    "perturbation": "perturbation (a cube observed elsewhere)",
    "ddpg": "DDPG (and TD3)",
    "td3": "TD3 besides (defaults of Fujimoto et al. 2018)",
    "network": "networks",
    "checkpoint": "checkpoints, policies kept on the way, and videos",
}
YAML = (".yaml", ".yml")
NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
SWITCH = {"on": True, "off": False}
# Options that people look for, and what they are called here.
CALLED = {
    "--lr": "--actor-lr, --critic-lr",
    "--learning-rate": "--actor-lr, --critic-lr",
    "--set": "the setting's own option, such as --epsilon 0.3",
    "--no-normalize": "--normalize off",
}


def path(text: str) -> str:
    """A path as it was typed, with the home folder for ~, which the shell leaves as it is in --out=~/x.

    Raises:
      argparse.ArgumentTypeError: for none at all, as a variable that is not set gives.
    """
    if not text:
        raise argparse.ArgumentTypeError("is empty: must be a file or folder")
    return os.path.expanduser(text)


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are ConfigErrors, which programs answer with one line."""

    def __init__(self, **how: Any):
        super().__init__(**how)
        self._negative_number_matcher = NEGATIVE  # argparse's own takes -1e-2 for an option

    def error(self, message: str) -> NoReturn:
        """argparse's own errors: "argument --seed: expected one argument" and the like."""
        raise ConfigError(message.removeprefix("argument ") + "; see --help")


class Parser(OneLineParser):
    """The parser of this package's programs; every value arrives as the text that was typed."""

    def __init__(self, prog: str, description: str, usage: str = "[OPTION VALUE ...]"):
        command = f"python -m curious_jax.{prog}"
        super().__init__(prog=command, usage=f"{command} {usage}", description=description, allow_abbrev=False)
        self.add_argument(
            "--import",
            dest="imports",
            action="append",
            metavar="NAME",
            help="import this Python module first, which registers modules of your own; may be given several times",
        )
        self.add_argument(
            "--cache",
            type=path,
            metavar="DIR|none",
            help="folder that keeps compiled programs for the next start [default: $JAX_COMPILATION_CACHE_DIR, or "
            "curious_jax below $XDG_CACHE_HOME or ~/.cache]",
        )
        self.add_argument("--version", action="version", version=f"curious_jax {curious_jax.__version__}")

    def read(self, argv: Sequence[str] | None) -> dict[str, Any]:
        """The options given, by destination; an option that does not exist is refused with its nearest namesake."""
        known, unknown = self.parse_known_args(argv)
        if unknown:
            name = unknown[0].split("=")[0]
            if not name.startswith("-"):
                raise ConfigError(f"{name}: not expected here; see --help")
            raise ConfigError(f"{name}: no such option; {self._instead(name)}")
        given = vars(known)
        if given["imports"] is None:
            del given["imports"]
        else:
            names = [convert("--import", text, tuple[str, ...]) for text in given["imports"]]
            given["imports"] = tuple(dict.fromkeys(name for some in names for name in some))
            environment.import_modules(given["imports"])
        return given

    def _instead(self, name: str) -> str:
        """Suggests what to type in place of an option that does not exist."""
        here = self._option_string_actions
        called = CALLED.get(name, "")
        if called and ("--actor-lr" in here or name != "--lr"):
            return f"use {called}"
        near = difflib.get_close_matches(name, here, n=1)
        return f"did you mean {near[0]}?" if near else "see --help"


def at_dashes(argv: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Splits a command line at its first --, which argparse loses behind another option: own options, those behind."""
    words = sys.argv[1:] if argv is None else list(argv)
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def convert(name: str, text: str, kind: Any) -> Any:
    """The typed value of an option's text.

    Args:
      name: as the message should call it, e.g. --num-envs.
      kind: int, float, str, bool, tuple[str, ...], or any of them | None ("none" then means None).
    Raises:
      ConfigError: naming the option and what it takes.
    """
    if kind == int | str:  # a number, or the one word for all there are
        return configs.ALL if text.lower() == configs.ALL else _whole(name, text, f"a whole number, or {configs.ALL}")
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        if text.lower() == "none":
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if text.lower() not in SWITCH:
            raise ConfigError(f"{name} {text}: must be one of {', '.join(SWITCH)}")
        return SWITCH[text.lower()]
    if typing.get_origin(kind) is tuple:
        parts = tuple(part.strip() for part in text.split(","))
        if not all(parts):
            raise ConfigError(f"{name} '{text}': must be names separated by commas, such as reach,push")
        return parts
    if kind is int:
        return _whole(name, text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} {text}: must be a number") from None
    return text


def _whole(name: str, text: str, wanted: str = "a whole number") -> int:
    """A whole number; 1e5 is one, too."""
    for read in (int, float):
        try:
            if read(text) == int(read(text)):
                return int(read(text))
        except (ValueError, OverflowError):
            pass
    raise ConfigError(f"{name} {text}: must be {wanted}")


def number(given: dict[str, Any], name: str, low: int, high: int) -> int:
    """A program's own option as a whole number from low to high.

    Args:
      given: what `Parser.read` returned.
      name: the option's destination, e.g. seed_index.
    Raises:
      ConfigError: naming the option and its range.
    """
    value = convert(option_name(name), given[name], int)
    if not low <= value <= high:
        raise SettingError(name, value, f"{low}" if low == high else f"a whole number between {low} and {high}")
    return value


def at_least(name: str, text: str, least: int) -> int:
    """A program's own option as a whole number of `least` or more. Raises ConfigError, naming the option."""
    value = convert(name, text, int)
    if value < least:
        raise ConfigError(f"{name} {text}: must be a whole number of {least} or more")
    return value


def whole_numbers(name: str, text: str, example: str) -> tuple[int, ...]:
    """Reads whole numbers, 0 or more, with commas between them. Raises ConfigError, naming the program's own option."""
    with contextlib.suppress(ValueError):
        if min(numbers := tuple(int(part) for part in text.split(","))) >= 0:
            return numbers
    raise ConfigError(f"{name} {text}: must be whole numbers, such as {example}")


def show(value: Any) -> str:
    """A setting's value as it is typed."""
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def default(name: str) -> str:
    """The default of a setting: the value that most presets share, then those that differ, by preset."""
    own = configs.fields_by_name()[name][1].default
    values = {preset: show(held.get(name, own)) for preset, held in configs.PRESET_SETTINGS.items()}
    common = max(values.values(), key=list(values.values()).count)
    shared = [common] if list(values.values()).count(common) > 1 else []
    return ", ".join([*shared, *(f"{preset} {text}" for preset, text in values.items() if [text] != shared)])


def meaning(field: dataclasses.Field) -> str:
    """Returns a setting's help text, with its choices where the text does not name them all."""
    choices = field.metadata["choices"]
    text = field.metadata["help"]
    return text if all(choice in text for choice in choices) else f"{text} ({', '.join(choices)})"


def details(field: dataclasses.Field) -> list[str]:
    """Range and source of a setting, where it has them."""
    source = configs.SOURCES.get(field.metadata["source"])
    return [text for text in (configs.bounds(field), source and f"source: {source}") if text]


def add_settings(parser: Parser) -> None:
    """One option per field of TrainConfig and its groups, and --config."""
    groups = {key: parser.add_argument_group(title) for key, title in GROUP_TITLES.items()}
    for name, (group, field) in configs.fields_by_name().items():
        if name == "imports":  # every parser's
            continue
        where = groups.get(group) or groups.setdefault(group, parser.add_argument_group(str(group)))
        text = f"{field.metadata['help']} [{'; '.join([f'default: {default(name)}', *details(field)])}]"
        where.add_argument(
            option_name(name),
            dest=name,
            default=argparse.SUPPRESS,
            metavar=_metavar(field),
            help=text.replace("%", "%%"),
        )
    parser.add_argument(
        "--config",
        type=path,
        metavar="FILE",
        help="repeat a run from its config.json, or take settings of your own from a YAML file (.yaml); options given "
        "here win",
    )


def _metavar(field: dataclasses.Field) -> str:
    choices = ("on", "off") if field.type is bool else field.metadata["choices"]
    words = {int: "N", float: "X", tuple: "A,B,..."}
    return "|".join([word for word in (words.get(configs.kind(field)), *choices) if word])


def settings(given: dict[str, Any], apart: Collection[str] = ()) -> dict[str, Any]:
    """Flat settings for `config.make_config` from what `Parser.read` returned: those of --config, then options.

    Args:
      apart: settings that are not taken from the file, as the program chooses them; with algorithm, nothing that the
        file's algorithm brought either.
    """
    table = configs.fields_by_name()
    merged = {
        name: convert(option_name(name), text, table[name][1].type) if isinstance(text, str) else text
        for name, text in given.items()
        if name in table
    }
    if given.get("config") is None:
        return merged
    held = read_config(given["config"])
    if "window" in merged:
        held.pop("window_span", None)
    if "preset" in merged and "preset" in held:
        raise ConfigError("--preset: a --config file holds every setting already; leave one of the two out")
    if "algorithm" in held:  # else each setting of the file is its writer's own
        held = _of_algorithm(held, merged, "algorithm" in apart)
    held = _of_length(held, merged)
    held = {name: held_value for name, held_value in held.items() if name not in apart}
    imports = dict.fromkeys([*held.get("imports", ()), *merged.get("imports", ())])
    return {**held, **merged, **({"imports": tuple(imports)} if imports else {})}


def _of_algorithm(held: dict[str, Any], given: dict[str, Any], any_other: bool = False) -> dict[str, Any]:
    """A config file's settings without what its algorithm brought, when another one is (or may be) asked for."""
    old = held.get("algorithm", "curious")
    new = given.get("algorithm", old)
    if new == old and not any_other:
        return held
    brought = configs.ALGORITHM_SETTINGS[old] | configs.FIXED_SETTINGS.get(old, {})
    fixed = configs.FIXED_SETTINGS.get(new, {})
    fixed = fixed | ({"order": ()} if "estimator" in fixed else {})  # which stands beside an estimator alone
    return {name: v for name, v in held.items() if name not in fixed and (name not in brought or brought[name] != v)}


def _of_length(held: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A config file's settings without the paper preset's capacity, which follows the episodes, when those change."""
    if held.get("preset") != "paper" or not {"episodes", "num_envs"} & given.keys():
        return held
    followed = configs.whole_run(**{name: value for name, value in held.items() if name != "capacity"})
    return {name: v for name, v in held.items() if name != "capacity" or v != followed}


def read_config(file: str | Path) -> dict[str, Any]:
    """Reads the flat settings of a run's config.json, or of a YAML file (.yaml, .yml), each checked by itself.

    config.json holds all settings; a YAML file may hold some, in groups or flat, values as on the command line too.
    """
    try:
        if Path(file).exists() and not Path(file).is_file():  # a pipe would be waited for, a device read for ever
            raise OSError(errno.EINVAL, "not a regular file", str(file))
        text = Path(file).read_text()
    except OSError as error:
        raise ConfigError(f"--config {file}: cannot be read ({error.strerror}); give a run's config.json") from None
    except ValueError:  # not UTF-8
        raise ConfigError(f"--config {file}: is not text; give a run's config.json") from None
    in_yaml = Path(file).suffix.lower() in YAML
    data = _yaml(file, text) if in_yaml else _json(file, text)
    if not isinstance(data, dict) or not (in_yaml or isinstance(data.get("modules"), list)):
        raise ConfigError(f"--config {file}: is not a run's config.json")
    try:
        return configs.flatten(_typed(data) if in_yaml else data)
    except ConfigError as error:
        raise ConfigError(f"--config {file}: {error}") from None


def _json(file: str | Path, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"--config {file}: is not JSON; give a run's config.json") from None


def _yaml(file: str | Path, text: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise ConfigError(f"--config {file}: needs PyYAML: pip install pyyaml") from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where else ""
        raise ConfigError(f"--config {file}: is not YAML{line}; give a run's config.json, or settings") from None


def _typed(data: Any) -> Any:
    """Reads words that stand for numbers, switches or lists as the command line does: 1e-3, none, reach,push."""
    table = configs.fields_by_name()
    if not isinstance(data, dict):
        return data
    named = {"imports" if name == "import" else str(name): value for name, value in data.items()}  # as --import
    return {
        name: convert(option_name(name), value, table[name][1].type)
        if isinstance(value, str) and name in table
        else _typed(value)
        for name, value in named.items()
    }


def read(parser: Parser, argv: Sequence[str] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses a command line of a parser that went through `add_settings`.

    Returns:
      Flat settings for config.make_config, and the program's own options.
    """
    given = parser.read(argv)
    table = configs.fields_by_name()
    return settings(given), {k: v for k, v in given.items() if k not in table and k != "config"}
