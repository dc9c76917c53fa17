"""Every setting of a run, with its range, choices and source; presets, worlds and named algorithms; plain data.

`python -m curious_jax.train --help` prints every setting, and config.json in a run folder holds them all.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from curious_jax.config.fields import (
    ALGORITHMS,
    ALL,
    LEARNERS,
    OLD_VALUES,
    PHYSICS,
    PRESETS,
    STARTS,
    WORLDS,
    Settings,
    check,
    kind,
    option,
    require,
)
from curious_jax.config.fields import SOURCES as SOURCES
from curious_jax.config.fields import bounds as bounds
from curious_jax.config.fields import fits as fits
from curious_jax.config.groups import (
    CheckpointConfig,
    CurriculumConfig,
    DDPGConfig,
    ExplorationConfig,
    HindsightConfig,
    NetworkConfig,
    NormalizerConfig,
    PerturbationConfig,
    ScheduleConfig,
    TD3Config,
)
from curious_jax.errors import ConfigError
from curious_jax.errors import SettingError as SettingError
from curious_jax.errors import option_name as option_name

LAST_SEED = 2**31 - 10**6 - 1


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
        "for push the gripper 12 cm lower; mixed: each episode draws one of the three, pnp and stack keep the default",
        choices=STARTS,
    )
    physics: str = option("auto", "physics backend; auto: c on CPU, warp on NVIDIA, jax elsewhere", choices=PHYSICS)
    sleep: bool = option(False, "C physics leaves out cubes that rest where nothing can touch them")
    preset: str = option(
        "auto",
        "settings for this machine, fast (modules guide one another: fewer episodes, not the paper's algorithm), wide "
        "(fast in wide cycles, for a GPU), the paper's, or the point world's; auto: by world and machine",
        choices=PRESETS,
    )  # fmt: skip
    seed: int = option(0, "random seed", "", 0, LAST_SEED)
    num_seeds: int = option(1, "seeds trained side by side: seed ... seed + S - 1")
    devices: int | str = option(
        1,
        "local devices that share environments and batches, each with a copy of the replay buffer; all: every device",
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
        self._check_curriculum()
        schedule, achievable = self.schedule, len(self.modules)
        total = achievable + self.distractors
        enough = f"at least the number of modules, {total}"
        require(schedule.batch_size >= total, "batch_size", schedule.batch_size, enough)
        enough = f"at least the number of achievable modules, {achievable}"
        require(schedule.evaluation_episodes >= achievable, "evaluation_episodes", schedule.evaluation_episodes, enough)
        begins = self.perturbation.perturb_at
        within = f"at most episodes={schedule.episodes}, the length of the run"
        require(begins is None or begins <= schedule.episodes, "perturb_at", begins, within)
        last = self.seed + self.num_seeds - 1
        within = f"at most {LAST_SEED - self.num_seeds + 1} with num_seeds={self.num_seeds}"
        require(last <= LAST_SEED, "seed", self.seed, within)

    def _check_curriculum(self) -> None:
        """Refuses an estimator that nothing asks, and an order that nothing follows."""
        curriculum = self.curriculum
        asked = "lp" in (curriculum.selection, self.hindsight.replay)
        wanted = "competence where neither selection nor replay is by learning progress (lp); leave it out"
        require(asked or curriculum.estimator == "competence", "estimator", curriculum.estimator, wanted)
        order = curriculum.order
        require(
            not order or curriculum.estimator == "order", "order", ",".join(order), "left out without estimator=order"
        )
        known = (*self.modules, *(f"distractor{k + 1}" for k in range(self.distractors)))
        found, planned = ([canonical(name) for name in names] for names in (known, order))
        for name, own in zip(order, planned, strict=True):
            require(own in found and planned.count(own) == 1, "order", name, f"each once, among {', '.join(known)}")


# Two names of one module, as a user may type them; a module's own, in tables and metrics, is the shorter.
SECOND_NAMES = {"push1": "push", "pnp1": "pnp", "drag1": "drag", "stack1on2": "stack"}


def canonical(name: str) -> str:
    """Returns a module's own name: push for push1."""
    return SECOND_NAMES.get(name, name)


GROUPS = tuple(f.name for f in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(f.default))


# Presets: settings by field; what one leaves out is at the dataclasses' defaults.
PRESET_SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"window": 40, "sleep": True},
    # The modules guide one another, the gripper closes and opens at random, values look 20 steps ahead, and small
    # networks learn five times as often from an episode: not the paper's algorithm.
    "fast": {
        "guide": 0.5,
        "random_gripper": 0.5,
        "num_envs": 32,
        "updates_per_cycle": 256,
        "batch_size": 128,
        "hidden_size": 128,
        "discount": 0.95,
        "target_rate": 0.05,
        "policy_average": 0.2,
        "eigen": True,
        "window": 40,
        "window_span": 400,
        "sleep": True,
    },
    "gpu": {
        "num_envs": 2048,
        "updates_per_cycle": 2000,
        "batch_size": 4096,
        "target_rate": 0.005,
        "packed": True,
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
# For GPUs: fast, with as many updates an episode, in cycles of 32 times the episodes. A competence window spans a whole
# cycle, and an average over such cycles would be of policies long left behind.
PRESET_SETTINGS["wide"] = PRESET_SETTINGS["fast"] | {
    "num_envs": 1024,
    "updates_per_cycle": 8192,
    "policy_average": 1.0,
    "window_span": 1024,
    "packed": True,
}

# What a platform brings, over the preset: a TPU does not launch kernels, and packed moves more bytes there.
PLATFORM_SETTINGS: dict[str, dict[str, Any]] = {"tpu": {"packed": False}}

# Settings that every config.json of a whole run holds, of whatever version; few files of some settings name them all.
_HELD_BY_RUNS = frozenset({
    *("modules", "distractors", "algorithm", "world", "seed", "hidden_size", "hidden_layers", "discount", "batch_size"),
    *("target_rate", "window", "self_evaluation", "num_envs", "updates_per_cycle", "capacity", "episodes"),
})  # fmt: skip

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
    "her": {"selection": "uniform", "replay": "own", "guide": 0.0, "estimator": "competence", "goals": "uniform"},
    "mgme": {
        **{"selection": "uniform", "replay": "uniform", "substitution": "drawn"},
        **{"estimator": "competence", "goals": "uniform"},
    },
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
    merged = _merge(platform, settings)
    if merged["preset"] == "paper" and "capacity" not in settings:
        merged["capacity"] = whole_run(platform, **settings)
    top: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {g: {} for g in GROUPS}
    for name, given in merged.items():
        group, f = table[name]
        (groups[group] if group else top)[name] = _coerced(f, given)
    types: dict[str, Any] = {f.name: type(f.default) for f in dataclasses.fields(TrainConfig) if f.name in GROUPS}
    return TrainConfig(**top, **{g: types[g](**values) for g, values in groups.items()})


def _merge(platform: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Lays settings over what preset, world and algorithm bring; "auto" becomes the preset that it means."""
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
    brought = {**PRESET_SETTINGS[preset], **PLATFORM_SETTINGS.get(platform, {})}
    if "window" in settings:  # which a span would replace
        brought["window_span"] = None
    merged = {**brought, **WORLD_SETTINGS[world], **ALGORITHM_SETTINGS[algorithm]}
    return {**merged, **FIXED_SETTINGS.get(algorithm, {}), **settings, "preset": preset}


def whole_run(platform: str = "cpu", **settings: Any) -> int:
    """Counts the episodes of a whole run in whole cycles, of settings that need not make a config yet.

    Where `episodes` or `num_envs` is refused anyway it is the capacity that a preset brings.
    """
    table, merged = fields_by_name(), _merge(platform, settings)
    names = ("episodes", "num_envs", "capacity")
    episodes, num_envs, default = (merged.get(name, table[name][1].default) for name in names)
    usable = all(isinstance(n, int) and n > 0 for n in (episodes, num_envs))
    return -(-episodes // num_envs) * num_envs if usable else default


def _coerced(f: dataclasses.Field, given: Any) -> Any:
    """Lists become tuples, NumPy's numbers Python's, and whole numbers floats where the setting is one.

    So 1, 1.0 and np.float32(1) make one config.
    """
    if getattr(given, "shape", None) == () and hasattr(given, "item"):
        given = given.item()
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
    return make_config(**flatten(data))


def flatten(data: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings for `make_config` from plain data, nested as to_dict makes it or flat, each checked by itself.

    A whole run's config.json (`is_whole`) that lacks a setting is older than that setting, which is then off, as it
    was, whatever the preset of that name brings today.

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
    return (_presets_off() if is_whole(result) else {}) | result


def is_whole(names: Iterable[str]) -> bool:
    """Tells whether settings of these names are a whole run's: its preset has been laid out in them."""
    return _HELD_BY_RUNS <= set(names)


def _presets_off() -> dict[str, Any]:
    """Gives every setting that some preset or platform brings as it is where none does."""
    brought = {name for those in (PRESET_SETTINGS, PLATFORM_SETTINGS) for own in those.values() for name in own}
    return {name: fields_by_name()[name][1].default for name in sorted(brought)}
