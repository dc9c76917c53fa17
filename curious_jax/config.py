"""Every setting of a run, with its range, choices and source; presets, worlds and named algorithms; plain data.

`python -m curious_jax.train --help` prints every setting, and config.json in a run folder holds them all.
"""

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curious_jax.errors import ConfigError, SettingError, option_name

__all__ = ["ConfigError", "SettingError", "option_name", "TrainConfig", "make_config"]

ALGORITHMS = ("curious", "muvfa", "her", "mgme")
LEARNERS = ("ddpg", "td3")
PRESETS = ("auto", "cpu", "gpu", "paper", "point")
PHYSICS = ("auto", "c", "jax", "warp")
WORLDS = ("fetch", "point")
STARTS = ("default", "fetch-reach", "fetch-push")
SUBSTITUTIONS = ("own", "drawn")
SELECTIONS = ("lp", "uniform")
REPLAYS = ("lp", "uniform", "own")
GOAL_REPLAYS = ("her", "none")
MAX_COUNT = 10**9  # of anything: int32 counters hold it
ALL = "all"  # devices
# Values that config.json of earlier versions holds, and what they are called now.
OLD_VALUES: dict[str, dict[str, Any]] = {
    "substitution": {"default": "own", "paper": "drawn"},
    "interest_replay": {"on": True, "off": False},
}
SOURCES = {"P": "paper", "C": "authors' program"}


def option(
    default: Any,
    help: str,
    source: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with what `--help` shows of it and what a value is checked against.

    Args:
      source: of the default: P the paper, C the authors' program, empty for ours.
      low, high: the range of a number, both included; a whole number without them is from 1 to MAX_COUNT.
      choices: the words that it may be.
    """
    return field(
        default=default, metadata={"help": help, "source": source, "low": low, "high": high, "choices": choices}
    )


def kind(f: dataclasses.Field) -> Any:
    """The type of a setting's value: bool, int, float, str or tuple; None and words beside a number are left out."""
    kinds = [k for k in typing.get_args(f.type) or (f.type,) if k is not type(None)]
    return tuple if typing.get_origin(f.type) is tuple else kinds[0]


def bounds(f: dataclasses.Field) -> str:
    """The range of a number in words, such as "between 0 and 1"; empty for other settings."""
    if kind(f) not in (int, float):
        return ""
    low, high = (str(x) if isinstance(x, int) else f"{x:g}" for x in _range(f))
    return f"{low} or more" if high == str(MAX_COUNT) else f"between {low} and {high}"


def allowed(f: dataclasses.Field) -> str:
    """What a setting may be, in words."""
    words = {
        bool: "True or False",
        int: ("a whole number of " if bounds(f).endswith("more") else "a whole number ") + bounds(f),
        float: bounds(f),
        str: "one of " + ", ".join(f.metadata["choices"]),
        tuple: 'a tuple of names, such as ("reach",)',
    }
    others = f.metadata["choices"] if kind(f) is not str else ()
    return ", or ".join([words[kind(f)], *others, *(["none"] if _optional(f) else [])])


def fits(f: dataclasses.Field, value: Any) -> bool:
    """Is this value of the right type, and within the setting's range or choices?"""
    if value is None:
        return _optional(f)
    if isinstance(value, str):
        return value in f.metadata["choices"]
    if kind(f) is tuple:
        return isinstance(value, tuple) and all(isinstance(name, str) and name for name in value)
    if kind(f) is bool or isinstance(value, bool):
        return kind(f) is bool and isinstance(value, bool)
    low, high = _range(f)
    number = isinstance(value, int) or (kind(f) is float and isinstance(value, float) and math.isfinite(value))
    return number and kind(f) in (int, float) and low <= value <= high


def _range(f: dataclasses.Field) -> tuple[float, float]:
    low, high = f.metadata["low"], f.metadata["high"]
    return 1 if low is None else low, MAX_COUNT if high is None else high


def _optional(f: dataclasses.Field) -> bool:
    return type(None) in typing.get_args(f.type)


def require(ok: bool, name: str, value: Any, wanted: str) -> None:
    """Raises SettingError unless ok, saying what the setting must be."""
    if not ok:
        raise SettingError(name, value, wanted)


def check(name: str, f: dataclasses.Field, value: Any) -> None:
    """Raises SettingError when a value is of the wrong type, out of range or none of the choices."""
    wanted, now = allowed(f), OLD_VALUES.get(name, {}).get(value) if isinstance(value, str) else None
    if isinstance(now, str):
        wanted += f" ({value} is now {now})"
    if kind(f) is int and isinstance(value, int) and value > MAX_COUNT:
        wanted += f", at most {MAX_COUNT}"
    require(fits(f, value), name, value, wanted)


@dataclass(frozen=True)
class Settings:
    """A group of settings that checks each of its fields."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if "help" in f.metadata:
                check(f.name, f, getattr(self, f.name))


@dataclass(frozen=True)
class NetworkConfig(Settings):
    """Actor and critic."""

    hidden_size: int = option(256, "units per hidden layer", "C")
    hidden_layers: int = option(3, "hidden layers of actor and critic", "C")
    critic_layer_norm: bool = option(False, "layer normalisation before each ReLU of the critic")
    actor_layer_norm: bool = option(False, "layer normalisation before each ReLU of the actor")


@dataclass(frozen=True)
class DDPGConfig(Settings):
    """DDPG."""

    actor_lr: float = option(1e-3, "Adam step size of the actor", "C", 1e-8, 1)
    critic_lr: float = option(1e-3, "Adam step size of the critic", "C", 1e-8, 1)
    discount: float = option(0.98, "discount γ = 1 - 1/50", "C", 0, 0.9999)
    action_l2: float = option(1.0, "weight of mean(a²) in the actor's loss", "C", 0, 1000)
    target_rate: float = option(0.02, "share of the new weights in a target average", "", 1e-6, 1)
    target_period: str = option(
        "update", "average the targets after every update or once per cycle", choices=("update", "cycle")
    )


@dataclass(frozen=True)
class TD3Config(Settings):
    """What TD3 adds (Fujimoto et al. 2018, whose defaults these are); the rest is DDPGConfig's."""

    target_noise: float = option(0.2, "standard deviation of the noise on the target action", "", 0, 10)
    target_noise_clip: float = option(0.5, "the noise is clipped to ± this", "", 0, 10)
    policy_delay: int = option(2, "critic updates per update of the actor and of the targets")


@dataclass(frozen=True)
class HindsightConfig(Settings):
    """Modules to replay, the episodes to replay them from, and substitution of modules and goals."""

    hindsight_probability: float = option(
        0.8, "probability that a transition takes a later outcome of its episode as its goal", "P", 0, 1
    )
    substitution: str = option(
        "own",
        "module and goal of the other transitions: own keeps both as they were collected; drawn takes the module "
        "that was drawn for replay, with the episode's goal for it or a fresh one (as mgme does)",
        "C",
        choices=SUBSTITUTIONS,
    )
    goal_replay: str = option(
        "her", "her: hindsight goals as above; none: no hindsight goals (ablation)", "P", choices=GOAL_REPLAYS
    )
    interest_replay: bool = option(
        True, "replay a module only from episodes that moved its outcome; off: from any episode (as her does)", "P"
    )
    replay: str = option(
        "lp",
        "modules to replay: by learning progress (as curious does), uniform (muvfa), or own: any episode, for the "
        "module that it was collected for (her)",
        "P",
        choices=REPLAYS,
    )

    mirror: bool = option(False, "replace half of the replayed transitions by their mirror images, left for right")

    @property
    def probability(self) -> float:
        """Probability of a hindsight goal: 0 without goal replay."""
        return self.hindsight_probability if self.goal_replay == "her" else 0.0


@dataclass(frozen=True)
class CurriculumConfig(Settings):
    """Self-evaluation, competence, learning progress and choice of modules (Section 3, "Module and Goal Selection")."""

    epsilon: float = option(0.4, "share of uniform choice in p_LP", "P", 0, 1)
    # 2l results are held, and progress needs 3 of them.
    window: int = option(300, "self-evaluation results per competence window (l; the paper: 300)", "", 2)
    window_span: int | None = option(
        None,
        "training episodes that a competence window spans, so that l follows the number of modules; none: --window",
    )
    self_evaluation: float = option(0.1, "probability that an episode is a self-evaluation", "P", 0, 1)
    selection: str = option(
        "lp",
        "modules to practise: by learning progress (as curious does) or uniform (muvfa); her and mgme have no choice",
        "P",
        choices=SELECTIONS,
    )


@dataclass(frozen=True)
class ExplorationConfig(Settings):
    """Exploration noise of training episodes."""

    noise: float = option(0.2, "standard deviation of the Gaussian action noise", "C", 0, 10)
    random_action: float = option(0.3, "probability of a uniform random action, per step", "C", 0, 1)
    guide: float = option(
        0.0, "probability per exploring step that a module's guide acts in its place (reach for push, ...)", "", 0, 1
    )


@dataclass(frozen=True)
class NormalizerConfig(Settings):
    """Input normalisation."""

    normalize: bool = option(True, "normalise observations, and goals per module")
    std_floor: float = option(0.01, "smallest standard deviation divided by", "C", 1e-6, 1e3)
    clip: float = option(5.0, "normalised inputs are clipped to ± this", "C", 0.1, 1e3)


@dataclass(frozen=True)
class PerturbationConfig(Settings):
    """A sensor that goes wrong during the run (Section 4, "Resilience to Forgetting and Sensor Failures")."""

    perturb_at: int | None = option(
        None, "training episodes after which a cube is observed elsewhere (the paper: 237,500)", "", 0
    )
    perturb_cube: int = option(2, "the cube, counted from 1", "P")
    perturb_shift: float = option(0.05, "metres by which its observed x is off from then on", "P", -10, 10)


@dataclass(frozen=True)
class ScheduleConfig(Settings):
    """How much of everything."""

    num_envs: int = option(128, "environments in parallel = episodes per cycle")
    updates_per_cycle: int = option(192, "gradient steps per cycle")
    batch_size: int = option(256, "transitions per gradient step (N_mb; the paper: 19 workers x 256)")
    capacity: int = option(60_000, "episodes kept in the store (the paper keeps all)")
    episodes: int = option(150_000, "training episodes in all, rounded up to whole cycles")
    evaluation_interval: int = option(1_000, "training episodes between evaluations")
    evaluation_episodes: int = option(95, "episodes per evaluation, spread over achievable modules", "P")
    expert_epoch: int = option(1_000, "mgme: training episodes of one expert's turn, at least one cycle")

    def __post_init__(self) -> None:
        super().__post_init__()
        enough = f"at least num_envs={self.num_envs}, one cycle of episodes"
        require(self.capacity >= self.num_envs, "capacity", self.capacity, enough)

    @property
    def cycles(self) -> int:
        """Cycles of the whole run."""
        return -(-self.episodes // self.num_envs)

    @property
    def cycles_per_epoch(self) -> int:
        """Cycles between two evaluations."""
        return max(1, round(self.evaluation_interval / self.num_envs))

    @property
    def cycles_per_expert(self) -> int:
        """Cycles of one turn of an expert of MG-ME."""
        return max(1, round(self.expert_epoch / self.num_envs))


@dataclass(frozen=True)
class CheckpointConfig(Settings):
    """When the whole state is saved, beside at the end and on interruption."""

    checkpoint_minutes: float = option(10.0, "minutes between checkpoints; 0: none by time", "", 0, 1e6)
    checkpoint_episodes: int | None = option(None, "also save after this many training episodes")
    keep_checkpoints: int = option(1, "number of checkpoints to keep")


@dataclass(frozen=True)
class TrainConfig(Settings):
    """A whole run."""

    modules: tuple[str, ...] = option(
        ("reach", "push", "pnp", "stack"),
        "modules, comma-separated: reach, push, pnp, stack, push2, pnp3, stack2on3, ... (point world: reach, push, "
        "drag, push2, ...; reach,push unless given)",
        "P",
    )
    imports: tuple[str, ...] = option((), "Python modules to import first, which register modules of your own")
    distractors: int = option(0, "out-of-reach cubes, one impossible module each (the paper: 0, 4, 7)", "", 0, 100)
    algorithm: str = option(
        "curious",
        "curious; muvfa: uniform module selection and replay; her: one flat goal that asks for all modules at once; "
        "mgme: an expert per module, each trained one epoch (--expert-epoch) in N",
        "P",
        choices=ALGORITHMS,
    )
    learner: str = option("ddpg", "ddpg, or td3 (twin critics, smoothed targets, delayed actor)", "P", choices=LEARNERS)
    world: str = option("fetch", "fetch, or point (a point-mass probe that learns in seconds)", choices=WORLDS)
    start: str = option(
        "default",
        "where episodes start; fetch-reach and fetch-push: as FetchReach-v4 and FetchPush-v4 do, fingers locked shut, "
        "for push the gripper 12 cm lower",
        choices=STARTS,
    )
    physics: str = option("auto", "physics backend; auto: c on CPU, warp on NVIDIA, jax elsewhere", choices=PHYSICS)
    preset: str = option(
        "auto", "settings for this machine, the paper's, or the point world's; auto: by world and machine",
        choices=PRESETS,
    )  # fmt: skip
    seed: int = option(0, "random seed", "", 0, 2**31 - 10**6 - 1)
    num_seeds: int = option(1, "seeds trained side by side: seed ... seed + S - 1")
    devices: int | str = option(
        1,
        "local devices that share environments and batches, each with a copy of the store; all: every device",
        choices=(ALL,),
    )
    target_success: float | None = option(
        None,
        "stop when mean success over achievable modules reaches this, confirmed on fresh episodes",
        "",
        0,
        1,
    )
    network: NetworkConfig = NetworkConfig()
    ddpg: DDPGConfig = DDPGConfig()
    td3: TD3Config = TD3Config()
    hindsight: HindsightConfig = HindsightConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    exploration: ExplorationConfig = ExplorationConfig()
    normalizer: NormalizerConfig = NormalizerConfig()
    perturbation: PerturbationConfig = PerturbationConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    def __post_init__(self) -> None:
        super().__post_init__()
        require(len(self.modules) > 0, "modules", "", "at least one module, such as reach")
        for name, fixed in FIXED_SETTINGS.get(self.algorithm, {}).items():
            held = value(self, name)
            require(held == fixed, name, held, f"{fixed} with algorithm={self.algorithm}; leave it out")
        schedule, achievable = self.schedule, len(self.modules)
        total = achievable + self.distractors
        enough = f"at least the number of modules, {total}"
        require(schedule.batch_size >= total, "batch_size", schedule.batch_size, enough)
        enough = f"at least the number of achievable modules, {achievable}"
        require(schedule.evaluation_episodes >= achievable, "evaluation_episodes", schedule.evaluation_episodes, enough)
        begins = self.perturbation.perturb_at
        within = f"at most episodes={schedule.episodes}, the length of the run"
        require(begins is None or begins <= schedule.episodes, "perturb_at", begins, within)


GROUPS = tuple(f.name for f in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(f.default))


# Presets: settings by field; what one leaves out is at the dataclasses' defaults.
PRESET_SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"window": 40},
    "gpu": {
        "num_envs": 2048,
        "updates_per_cycle": 2000,
        "batch_size": 4096,
        "target_rate": 0.005,
        "capacity": 100_000,
        "episodes": 300_000,
        "evaluation_interval": 10_240,
        "evaluation_episodes": 400,
    },
    "paper": {
        "num_envs": 38,  # 19 workers x 2 rollouts
        "updates_per_cycle": 100,
        "batch_size": 19 * 256,
        "target_rate": 0.05,
        "target_period": "cycle",
        "normalize": False,
        "episodes": 316 * 950,
        "capacity": 316 * 950,
        "evaluation_interval": 950,
        "evaluation_episodes": 95,
        "expert_epoch": 950,
    },
    "point": {
        "num_envs": 32,
        "updates_per_cycle": 80,
        "batch_size": 128,
        "hidden_size": 128,
        "hidden_layers": 2,
        "actor_lr": 3e-3,
        "critic_lr": 3e-3,
        "self_evaluation": 0.3,
        "window": 30,
        "capacity": 8000,
        "episodes": 3000,
        "evaluation_interval": 256,
        "evaluation_episodes": 100,
    },
}

# What a world brings, below what is given.
WORLD_SETTINGS: dict[str, dict[str, Any]] = {"fetch": {}, "point": {"modules": ("reach", "push")}}

# The named algorithms as settings; all name the same ones, so that changing the algorithm changes them all.
ALGORITHM_SETTINGS: dict[str, dict[str, Any]] = {
    "curious": {"selection": "lp", "replay": "lp", "interest_replay": True, "substitution": "own"},
    "muvfa": {"selection": "uniform", "replay": "uniform", "interest_replay": True, "substitution": "own"},
    # Every episode was collected for the flat goal, and any of them serves.
    "her": {"selection": "uniform", "replay": "own", "interest_replay": False, "substitution": "own"},
    # With the drawn module the whole batch trains the expert on its module.
    "mgme": {"selection": "uniform", "replay": "uniform", "interest_replay": True, "substitution": "drawn"},
}
# What her and mgme leave no choice of: their architecture says which module is next.
FIXED_SETTINGS: dict[str, dict[str, Any]] = {
    "her": {"selection": "uniform", "replay": "own", "guide": 0.0},
    "mgme": {"selection": "uniform", "replay": "uniform", "substitution": "drawn"},
}


def fields_by_name() -> dict[str, tuple[str | None, dataclasses.Field]]:
    """Field name -> (group or None, field), over TrainConfig and its groups; names are unique."""
    result: dict[str, tuple[str | None, dataclasses.Field]] = {}
    for f in dataclasses.fields(TrainConfig):
        if f.name in GROUPS:
            default: Any = f.default
            for g in dataclasses.fields(default):
                assert g.name not in result, g.name
                result[g.name] = (f.name, g)
        else:
            result[f.name] = (None, f)
    return result


def value(config: TrainConfig, name: str) -> Any:
    """A setting by its field name, without its group."""
    group, _ = fields_by_name()[name]
    return getattr(getattr(config, group) if group else config, name)


def make_config(platform: str = "cpu", **settings: Any) -> TrainConfig:
    """A config from flat settings (field names, without their group), over what preset, world and algorithm bring.

    Args:
      platform: jax.default_backend(); decides what preset "auto" means in the fetch world (gpu on gpu and tpu, else
        cpu). In the point world "auto" is "point".
      settings: any field of TrainConfig or its groups; those named win over the algorithm's, those over the world's
        and the preset's.
    Raises:
      SettingError: naming the argument and the right values.
    """
    table = fields_by_name()
    for name in settings:
        if name not in table:
            raise ConfigError(f"{name}: no such setting; curious_jax.config.fields_by_name() has them all")
    chosen = {name: settings.get(name, table[name][1].default) for name in ("preset", "world", "algorithm")}
    for name, word in chosen.items():
        check(name, table[name][1], word)
    preset, world, algorithm = chosen.values()
    if preset == "auto":
        preset = "point" if world == "point" else "gpu" if platform in ("gpu", "cuda", "tpu") else "cpu"
    merged = {**PRESET_SETTINGS[preset], **WORLD_SETTINGS[world], **ALGORITHM_SETTINGS[algorithm], **settings}
    if preset == "paper" and "capacity" not in settings:
        merged["capacity"] = _all_episodes(merged["episodes"], merged["num_envs"], merged["capacity"])
    top: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {g: {} for g in GROUPS}
    for name, given in {**merged, "preset": preset}.items():
        group, f = table[name]
        (groups[group] if group else top)[name] = _coerced(f, given)
    types: dict[str, Any] = {f.name: type(f.default) for f in dataclasses.fields(TrainConfig) if f.name in GROUPS}
    return TrainConfig(**top, **{g: types[g](**values) for g, values in groups.items()})


def _all_episodes(episodes: Any, num_envs: Any, default: int) -> int:
    """Return the episodes of a whole run in whole cycles; the default where the settings are refused anyway."""
    usable = all(isinstance(n, int) and n > 0 for n in (episodes, num_envs))
    return -(-episodes // num_envs) * num_envs if usable else default


def _coerced(f: dataclasses.Field, given: Any) -> Any:
    """Lists become tuples, and whole numbers floats where the setting is one; so 1 and 1.0 make one config."""
    if kind(f) is tuple and isinstance(given, list):
        return tuple(given)
    whole = isinstance(given, int) and not isinstance(given, bool)
    return float(given) if kind(f) is float and whole and abs(given) < 2**53 else given


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """The config as nested plain data, ready for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(data: Mapping[str, Any]) -> TrainConfig:
    """The inverse of to_dict; data of earlier versions is read, too.

    Raises:
      ConfigError: on a setting that does not exist or cannot be used.
    """
    return make_config(**flat(data))


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings for `make_config` from plain data, nested as to_dict makes it or flat, each checked by itself.

    Raises:
      ConfigError: on a setting that does not exist or cannot be used.
    """
    table = fields_by_name()
    result: dict[str, Any] = {}
    for name, held in data.items():
        result.update(held if name in GROUPS and isinstance(held, Mapping) else {name: held})
    for name, held in result.items():
        if name not in table:
            raise ConfigError(f"{name} is no setting")
        old = OLD_VALUES.get(name, {})
        result[name] = old[held] if isinstance(held, str) and held in old else _coerced(table[name][1], held)
        check(name, table[name][1], result[name])
    return result
