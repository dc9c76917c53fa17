"""The command line of the programs, made from the config dataclasses' fields.

Everything that can be wrong with it ends in one line on standard error that names the option and the right
values, and exit status 2 (program.py).
"""

import argparse
import dataclasses
import difflib
import json
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import curious_jax
from curious_jax import config as configs
from curious_jax.errors import ConfigError
from curious_jax.settings import ALL, option_name

GROUP_TITLES = {
    None: "the run",
    "schedule": "schedule",
    "curriculum": "curriculum (self-evaluation, competence, learning progress, choice of modules)",
    "hindsight": "replay (module and goal substitution, interesting episodes)",
    "exploration": "exploration",
    "normalizer": "input normalisation",
    "perturbation": "perturbation (a cube observed elsewhere)",
    "ddpg": "DDPG (and TD3)",
    "td3": "TD3, besides",
    "network": "networks",
    "checkpoint": "checkpoints",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ConfigErrors; every value arrives as the text that was typed."""

    def __init__(self, prog: str, description: str, usage: str = "[OPTION VALUE ...]"):
        command = f"python -m curious_jax.{prog}"
        super().__init__(prog=command, usage=f"{command} {usage}", description=description, allow_abbrev=False)
        self.add_argument(
            "--cache",
            metavar="DIR|none",
            help="where compiled programs are kept for the next start [default: $JAX_COMPILATION_CACHE_DIR, or "
            "curious_jax below $XDG_CACHE_HOME or ~/.cache]",
        )
        self.add_argument("--version", action="version", version=f"curious_jax {curious_jax.__version__}")

    def error(self, message: str) -> NoReturn:
        """argparse's own errors: "argument --seed: expected one argument" and the like."""
        raise ConfigError(message.removeprefix("argument ") + "; see --help")

    def read(self, argv: Sequence[str] | None) -> dict[str, Any]:
        """The options given, by destination; an option that does not exist is refused with its nearest namesake."""
        known, unknown = self.parse_known_args(argv)
        if unknown:
            name = unknown[0].split("=")[0]
            if not name.startswith("-"):
                raise ConfigError(f"{name}: not expected here; see --help")
            near = difflib.get_close_matches(name, self._option_string_actions, n=1)
            raise ConfigError(f"{name}: no such option; " + (f"did you mean {near[0]}?" if near else "see --help"))
        return vars(known)


def convert(name: str, text: str, kind: Any) -> Any:
    """The typed value of an option's text.

    Args:
      name: as the message should call it, e.g. --num-envs.
      kind: int, float, str, bool, tuple[str, ...], or any of them | None ("none" then means None).
    Raises:
      ConfigError: naming the option and what it takes.
    """
    if kind == int | str:  # a number, or the one word for all there are
        return ALL if text.lower() == ALL else _whole_number(name, text, f"a whole number, or {ALL}")
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        if text.lower() == "none":
            return None
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name} {text}: must be true or false")
        return text.lower() == "true"
    if typing.get_origin(kind) is tuple:
        return _split(name, text)
    if kind is int:
        return _whole_number(name, text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} {text}: must be a number") from None
    return text


def _split(name: str, text: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in text.split(","))
    if not all(parts):
        raise ConfigError(f"{name} '{text}': must be names separated by commas, such as reach,push")
    return parts


def _whole_number(name: str, text: str, wanted: str = "a whole number") -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)  # 1e5 is a whole number too
        if number == int(number):
            return int(number)
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
    option = option_name(name)
    value = convert(option, given[name], int)
    if not low <= value <= high:
        allowed = f"{low}" if low == high else f"a whole number between {low} and {high}"
        raise ConfigError(f"{option} {value}: must be {allowed}")
    return value


def _defaults(name: str) -> str:
    """The default of a setting, per preset where they differ."""
    values = {}
    for preset in configs.PRESET_SETTINGS:
        config = configs.make_config(preset=preset)
        group, _ = configs.fields_by_name()[name]
        values[preset] = getattr(getattr(config, group) if group else config, name)
    if name == "preset":
        return "auto"
    shown = {preset: show(value) for preset, value in values.items()}
    if len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return ", ".join(f"{preset} {value}" for preset, value in shown.items())


def show(value: Any) -> str:
    """A setting's value as it is typed."""
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _help(name: str, field: dataclasses.Field) -> str:
    text = f"{field.metadata['help']} [default: {_defaults(name)}; source: {field.metadata['source']}]"
    return text.replace("%", "%%")


def add_settings(parser: Parser) -> None:
    """One flag per field of TrainConfig and its groups, and --set group.field=value for the same."""
    parser.epilog = "Sources: P the paper, C the authors' program; preset auto is gpu on an accelerator, else cpu."
    groups = {key: parser.add_argument_group(title) for key, title in GROUP_TITLES.items()}
    table = configs.fields_by_name()
    for name, (group, field) in table.items():
        where = groups.get(group) or groups.setdefault(group, parser.add_argument_group(str(group)))
        kwargs: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": _help(name, field)}
        if field.type is bool:
            where.add_argument(option_name(name), action=argparse.BooleanOptionalAction, **kwargs)
        else:
            choices = field.metadata.get("choices")
            kwargs["metavar"] = "|".join(choices) if choices else _metavar(field.type)
            where.add_argument(option_name(name), **kwargs)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="GROUP.FIELD=VALUE",
        help="any setting by its place in config.json, e.g. --set ddpg.discount=0.95",
    )
    parser.add_argument("--config", metavar="FILE", help="repeat a run from its config.json; options given here win")


def _metavar(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return "A,B,..."
    return {int: "N", str: "NAME", int | str: "N|all"}.get(kind, "X")


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """Flat settings for `config.make_config` from what `Parser.read` returned: --config, then --set, then flags."""
    table = configs.fields_by_name()
    flags = {name: _typed(name, value) for name, value in given.items() if name in table}
    merged = dict(flags)
    for text in given["set"]:
        name, value = _parse_set(text)
        if name in merged:
            raise ConfigError(f"--set {text}: {name} is given twice; give it once")
        merged[name] = value
    if given.get("config") is None:
        return merged
    if "preset" in merged:
        raise ConfigError("--preset: a --config file holds every setting already; leave one of the two out")
    return {**_of_algorithm(read_config(given["config"]), merged), **merged}


def _of_algorithm(held: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """A config file's settings without those that its algorithm brought, when another algorithm is asked for."""
    old = held.get("algorithm", "curious")
    if given.get("algorithm", old) == old:
        return held
    brought = configs.ALGORITHM_SETTINGS.get(old, {})
    return {name: value for name, value in held.items() if name not in brought or brought[name] != value}


def _typed(name: str, value: Any) -> Any:
    _, field = configs.fields_by_name()[name]
    return convert(option_name(name), value, field.type) if isinstance(value, str) else value


def _parse_set(text: str) -> tuple[str, Any]:
    """ "ddpg.discount=0.95" -> ("discount", 0.95)."""
    path, equals, value = text.partition("=")
    group, _, name = path.rpartition(".")
    table = configs.fields_by_name()
    if not equals or name not in table or (table[name][0] or "") != group:
        places = {n: f"{g}.{n}" if g else n for n, (g, _) in table.items()}
        near = [places[n] for n in difflib.get_close_matches(name, places, n=1)]
        hint = f"write {near[0]}=VALUE" if near else "write GROUP.FIELD=VALUE as in config.json"
        raise ConfigError(f"--set {text}: no such setting; {hint}")
    return name, convert(f"--set {path}", value, table[name][1].type)


def read_config(path: str | Path) -> dict[str, Any]:
    """The flat settings of a config.json, each checked for its type."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as error:
        raise ConfigError(f"--config {path}: cannot be read ({error.strerror}); give a run's config.json") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"--config {path}: is not JSON; give a run's config.json") from None
    if not isinstance(data, dict) or not isinstance(data.get("modules"), list):
        raise ConfigError(f"--config {path}: is not a run's config.json")
    flat: dict[str, Any] = {}
    for name, value in data.items():
        flat.update(value if name in configs.GROUPS and isinstance(value, dict) else {name: value})
    table = configs.fields_by_name()
    for name, value in flat.items():
        if name not in table:
            raise ConfigError(f"--config {path}: {name} is no setting of curious_jax {curious_jax.__version__}")
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        flat[name] = convert(f"--config {path}: {name}", text, table[name][1].type)
    return flat


@dataclass(frozen=True)
class Arguments:
    """What `train` and `benchmark` read from their command line."""

    settings: dict[str, Any]  # flat, for config.make_config
    rest: dict[str, Any]  # the program's own options


def read(parser: Parser, argv: Sequence[str] | None) -> Arguments:
    """Parses a command line of a parser that went through `add_settings`."""
    given = parser.read(argv)
    table = configs.fields_by_name()
    return Arguments(settings(given), {k: v for k, v in given.items() if k not in table and k not in ("set", "config")})
