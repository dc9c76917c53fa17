"""A whole run's settings: the groups of settings.py joined, presets, the named algorithms, and plain data.

`python -m curious_jax.train --help` prints every setting, and config.json in a run folder holds them all.
"""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from curious_jax.errors import ConfigError
from curious_jax.settings import (
    ALL,
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
    between,
    check_choices,
    is_whole,
    option,
    option_name,
    positive,
    require,
    whole_between,
)

ALGORITHMS = ("curious", "muvfa", "her", "mgme")
LEARNERS = ("ddpg", "td3")
PRESETS = ("auto", "cpu", "gpu", "paper")
PHYSICS = ("auto", "c", "jax", "warp")
WORLDS = ("fetch", "point")
STARTS = ("default", "fetch-reach", "fetch-push")


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    modules: tuple[str, ...] = option(
        ("reach", "push", "pnp", "stack"),
        "modules, comma-separated: reach, push, pnp, stack, push2, pnp3, stack2on3, ...",
        "P",
    )
    distractors: int = option(0, "out-of-reach cubes, one impossible module each", "P: 0, 4, 7")
    algorithm: str = option(
        "curious",
        "curious; muvfa: uniform module selection and replay; her: one flat goal that asks for all modules at once; "
        "mgme: an expert per module, each trained one epoch (--expert-epoch) in N",
        "P",
        ALGORITHMS,
    )
    learner: str = option("ddpg", "ddpg, or td3 (twin critics, smoothed targets, delayed actor)", "P", LEARNERS)
    world: str = option("fetch", "fetch, or point (a point-mass probe that learns in seconds)", "ours", WORLDS)
    start: str = option(
        "default",
        "where episodes start; fetch-reach and fetch-push: as FetchReach-v4 and FetchPush-v4 do, fingers locked shut, "
        "for push the gripper 12 cm lower",
        "ours",
        STARTS,
    )
    physics: str = option("auto", "physics backend; auto: c on CPU, warp on NVIDIA, jax elsewhere", "ours", PHYSICS)
    preset: str = option("auto", "settings for this machine (auto: by platform) or the paper's", "ours", PRESETS)
    seed: int = option(0, "random seed", "ours")
    num_seeds: int = option(1, "seeds trained side by side: seed ... seed + S - 1", "P: 10")
    devices: int | str = option(
        1, "local devices that share environments and batches, each with a copy of the store; all: every one", "ours"
    )
    target_success: float | None = option(
        None, "stop when mean success over achievable modules reaches this, confirmed on fresh episodes", "ours"
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
        for config in (self, *(getattr(self, group) for group in GROUPS)):
            check_choices(config)
        require(isinstance(self.modules, tuple), "modules", self.modules, 'a tuple of names, such as ("reach",)')
        require(len(self.modules) > 0, "modules", "''", "at least one module, such as reach")
        for name, fixed in FIXED_SETTINGS.get(self.algorithm, {}).items():
            held = getattr(getattr(self, str(fields_by_name()[name][0])), name)
            require(held == fixed, name, held, f"{fixed} with --algorithm {self.algorithm}; leave it out")
        whole_between(self, 0, 100, "distractors")
        whole_between(self, 0, 2**31 - 10**6 - 1, "seed")
        positive(self, "num_seeds")
        if self.devices != ALL:
            require(is_whole(self.devices), "devices", self.devices, f"a whole number of 1 or more, or {ALL}")
            positive(self, "devices")
        if self.target_success is not None:
            between(self, 0.0, 1.0, "target_success")
        total = len(self.modules) + self.distractors
        require(
            self.schedule.batch_size >= total,
            "batch_size",
            self.schedule.batch_size,
            f"at least the number of modules, {total}",
        )
        achievable = len(self.modules)
        require(
            self.schedule.evaluation_episodes >= achievable,
            "evaluation_episodes",
            self.schedule.evaluation_episodes,
            f"at least the number of achievable modules, {achievable}",
        )


GROUPS = tuple(f.name for f in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(f.default))


# Presets: settings by field; what one leaves out is at the dataclasses' defaults, which are `cpu`'s but for the window.
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
        "num_envs": 38,
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
}


# The named algorithms as settings; all name the same ones, so that changing the algorithm changes them all.
ALGORITHM_SETTINGS: dict[str, dict[str, Any]] = {
    "curious": {"selection": "lp", "replay": "lp", "interest_replay": "on", "substitution": "default"},
    "muvfa": {"selection": "uniform", "replay": "uniform", "interest_replay": "on", "substitution": "default"},
    # Every episode was collected for the flat goal, and any of them serves.
    "her": {"selection": "uniform", "replay": "own", "interest_replay": "off", "substitution": "default"},
    # `paper` substitution, so that the whole batch trains the expert on its module.
    "mgme": {"selection": "uniform", "replay": "uniform", "interest_replay": "on", "substitution": "paper"},
}
# What her and mgme leave no choice of: their architecture says which module is next.
FIXED_SETTINGS: dict[str, dict[str, Any]] = {
    "her": {"selection": "uniform", "replay": "own"},
    "mgme": {"selection": "uniform", "replay": "uniform", "substitution": "paper"},
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


def make_config(platform: str = "cpu", **settings: Any) -> TrainConfig:
    """A config from a preset and flat settings (field names, without their group).

    Args:
      platform: jax.default_backend(); decides what preset "auto" means (gpu on gpu and tpu, else cpu).
      settings: any field of TrainConfig or its groups; those named win over the algorithm's, those over the preset's.
    Raises:
      ConfigError: naming the option and the right values.
    """
    preset = settings.get("preset", "auto")
    require(preset in PRESETS, "preset", preset, f"one of {', '.join(PRESETS)}")
    resolved = preset if preset != "auto" else ("gpu" if platform in ("gpu", "cuda", "tpu") else "cpu")
    algorithm = settings.get("algorithm", "curious")
    require(algorithm in ALGORITHMS, "algorithm", algorithm, f"one of {', '.join(ALGORITHMS)}")
    merged = {**PRESET_SETTINGS[resolved], **ALGORITHM_SETTINGS[algorithm], **settings, "preset": resolved}
    if resolved == "paper" and "capacity" not in settings:
        merged["capacity"] = _all_episodes(merged["episodes"], merged["num_envs"], merged["capacity"])
    table = fields_by_name()
    top: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {g: {} for g in GROUPS}
    for name, value in merged.items():
        if name not in table:
            raise ConfigError(f"{option_name(name)}: no such setting; see --help for all of them")
        group, _ = table[name]
        (groups[group] if group else top)[name] = value
    types: dict[str, Any] = {f.name: type(f.default) for f in dataclasses.fields(TrainConfig) if f.name in GROUPS}
    return TrainConfig(**top, **{g: types[g](**values) for g, values in groups.items()})


def _all_episodes(episodes: Any, num_envs: Any, default: int) -> int:
    """Return the episodes of a whole run in whole cycles; the default where the settings are refused anyway."""
    usable = is_whole(episodes) and is_whole(num_envs) and min(episodes, num_envs) > 0
    return -(-episodes // num_envs) * num_envs if usable else default


def to_dict(config: TrainConfig) -> dict[str, Any]:
    """The config as nested plain data, ready for JSON."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def from_dict(data: dict[str, Any]) -> TrainConfig:
    """The inverse of to_dict.

    Raises:
      ConfigError: on a setting that does not exist or cannot be used.
    """
    flat: dict[str, Any] = {}
    for name, value in data.items():
        if name in GROUPS and isinstance(value, dict):
            flat.update(value)
        else:
            flat[name] = value
    if isinstance(flat.get("modules"), list):
        flat["modules"] = tuple(flat["modules"])
    return make_config(**flat)
