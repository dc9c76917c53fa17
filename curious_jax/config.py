"""Every setting of a run, in frozen dataclasses that check themselves.

Each field carries its help text and the source of its default; `python -m curious_jax.train --help` prints
them, and config.json in a run folder holds them all. SPEC numbers are those of the paper [P] or of the
authors' program [C]; ours are marked [D].
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any

ALGORITHMS = ("curious", "muvfa", "her", "mgme")
LEARNERS = ("ddpg", "td3")
PRESETS = ("auto", "cpu", "gpu", "paper")
PHYSICS = ("auto", "c", "jax", "warp")
WORLDS = ("fetch", "point")
SUBSTITUTIONS = ("default", "paper")
SELECTIONS = ("lp", "uniform")
REPLAYS = ("lp", "uniform", "own")
GOAL_REPLAYS = ("her", "none")
SWITCH = ("on", "off")
MAX_COUNT = 10**9  # of anything: int32 counters hold it


class ConfigError(ValueError):
    """A setting that cannot be used; the message is one line naming the option and the right values."""


def option(default: Any, help: str, source: str = "ours", choices: tuple[str, ...] | None = None) -> Any:
    """A dataclass field with what --help shows of it."""
    return field(default=default, metadata={"help": help, "source": source, "choices": choices})


def option_name(field_name: str) -> str:
    """num_envs -> --num-envs."""
    return "--" + field_name.replace("_", "-")


def _require(ok: bool, name: str, value: Any, wanted: str) -> None:
    if not ok:
        raise ConfigError(f"{option_name(name)} {value}: must be {wanted}")


def _positive(config: Any, *names: str, least: int = 1) -> None:
    for name in names:
        value = getattr(config, name)
        _require(_is_whole(value) and value >= least, name, value, f"a whole number of {least} or more")
        _require(value <= MAX_COUNT, name, value, f"at most {MAX_COUNT}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _between(config: Any, low: float, high: float, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _require(number and math.isfinite(value) and low <= value <= high, name, value, f"between {low:g} and {high:g}")


def _whole_between(config: Any, low: int, high: int, name: str) -> None:
    value = getattr(config, name)
    _require(_is_whole(value) and low <= value <= high, name, value, f"a whole number between {low} and {high}")


@dataclass(frozen=True)
class NetworkConfig:
    """Actor and critic (SPEC 2.8)."""

    hidden_size: int = option(256, "units per hidden layer", "C")
    hidden_layers: int = option(3, "hidden layers of actor and critic", "C")

    def __post_init__(self) -> None:
        _positive(self, "hidden_size", "hidden_layers")


@dataclass(frozen=True)
class DDPGConfig:
    """DDPG (SPEC 2.8, 2.9)."""

    actor_lr: float = option(1e-3, "Adam step size of the actor", "C")
    critic_lr: float = option(1e-3, "Adam step size of the critic", "C")
    discount: float = option(0.98, "discount γ = 1 - 1/50", "C")
    action_l2: float = option(1.0, "weight of mean(a²) in the actor's loss", "C")
    target_rate: float = option(0.02, "share of the new weights in a target average", "field notes; paper 0.05")
    target_period: str = option(
        "update", "average targets after every update or once per cycle", "C: cycle", ("update", "cycle")
    )

    def __post_init__(self) -> None:
        _between(self, 1e-8, 1.0, "actor_lr", "critic_lr")
        _between(self, 0.0, 0.9999, "discount")
        _between(self, 0.0, 1000.0, "action_l2")
        _between(self, 1e-6, 1.0, "target_rate")


@dataclass(frozen=True)
class TD3Config:
    """What TD3 adds (Fujimoto et al. 2018); step sizes, discount and targets are those of DDPGConfig."""

    target_noise: float = option(0.2, "standard deviation of the noise on the target action", "TD3 paper")
    target_noise_clip: float = option(0.5, "that noise is clipped to ± this", "TD3 paper")
    policy_delay: int = option(2, "critic updates per update of the actor and of the targets", "TD3 paper")

    def __post_init__(self) -> None:
        _between(self, 0.0, 10.0, "target_noise", "target_noise_clip")
        _positive(self, "policy_delay")


@dataclass(frozen=True)
class HindsightConfig:
    """Module and goal substitution (SPEC 2.6), and from which episodes."""

    hindsight_probability: float = option(0.8, "probability that a transition takes a later outcome as goal", "P")
    substitution: str = option(
        "default",
        "what the other transitions keep: their own module and goal, or (paper) "
        "the drawn module with its own or a fresh goal (as mgme does)",
        "C",
        SUBSTITUTIONS,
    )
    goal_replay: str = option("her", "her: hindsight goals as above; none: never (ablation)", "P", GOAL_REPLAYS)
    interest_replay: str = option(
        "on", "replay a module from the episodes that moved its outcome alone; off: from any (as her does)", "P", SWITCH
    )

    def __post_init__(self) -> None:
        _between(self, 0.0, 1.0, "hindsight_probability")

    @property
    def probability(self) -> float:
        """Of a hindsight goal: 0 without goal replay."""
        return self.hindsight_probability if self.goal_replay == "her" else 0.0


@dataclass(frozen=True)
class CurriculumConfig:
    """Self-evaluation, competence, LP and module choice (SPEC 2.1, 2.4)."""

    epsilon: float = option(0.4, "share of uniform choice in p_LP", "P")
    window: int = option(300, "self-evaluation results per competence window (l)", "P: 300")
    self_evaluation: float = option(0.1, "probability that an episode is a self-evaluation", "P")
    selection: str = option(
        "lp",
        "modules to practise: by learning progress (as curious does), or uniform (muvfa); her and mgme have no choice",
        "P",
        SELECTIONS,
    )
    replay: str = option(
        "lp",
        "modules to replay: by learning progress (curious), uniform (muvfa), or own: any episode, for the module that "
        "it was collected for (her)",
        "P",
        REPLAYS,
    )

    def __post_init__(self) -> None:
        _between(self, 0.0, 1.0, "epsilon", "self_evaluation")
        _positive(self, "window", least=2)  # 2l results are held, and progress needs 3 of them


@dataclass(frozen=True)
class ExplorationConfig:
    """Exploration noise of training episodes (SPEC 2.2)."""

    noise: float = option(0.2, "standard deviation of the Gaussian action noise", "C")
    random_action: float = option(0.3, "probability of a uniform random action, per step", "C")

    def __post_init__(self) -> None:
        _between(self, 0.0, 10.0, "noise")
        _between(self, 0.0, 1.0, "random_action")


@dataclass(frozen=True)
class NormalizerConfig:
    """Input normalisation (SPEC 2.10)."""

    normalize: bool = option(True, "normalise observations, and goals per module", "ours; paper preset off")
    std_floor: float = option(0.01, "smallest standard deviation divided by", "C")
    clip: float = option(5.0, "normalised inputs are clipped to ± this", "C")

    def __post_init__(self) -> None:
        _between(self, 1e-6, 1e3, "std_floor")
        _between(self, 0.1, 1e3, "clip")


@dataclass(frozen=True)
class PerturbationConfig:
    """A sensor that goes wrong during the run (SPEC 4, perturbation)."""

    perturb_at: int | None = option(None, "training episodes after which a cube is observed elsewhere", "P: 237,500")
    perturb_cube: int = option(2, "the cube, counted from 1", "P")
    perturb_shift: float = option(0.05, "metres by which its x is off from then on", "P")

    def __post_init__(self) -> None:
        if self.perturb_at is not None:
            _positive(self, "perturb_at", least=0)
        _positive(self, "perturb_cube")
        _between(self, -10.0, 10.0, "perturb_shift")


@dataclass(frozen=True)
class ScheduleConfig:
    """How much of everything (SPEC 2, `paper` preset: 19 workers × 2 rollouts, 25 cycles an epoch, ...)."""

    num_envs: int = option(128, "environments in parallel = episodes per cycle", "preset; paper 38")
    updates_per_cycle: int = option(192, "gradient steps per cycle", "preset; paper 100")
    batch_size: int = option(256, "transitions per gradient step (N_mb)", "preset; paper 19 x 256")
    capacity: int = option(60_000, "episodes kept in the store", "preset; paper keeps all")
    episodes: int = option(150_000, "training episodes in all (rounded up to whole cycles)", "preset; paper 300,200")
    evaluation_interval: int = option(1_000, "training episodes between evaluations", "preset; paper 950")
    evaluation_episodes: int = option(95, "episodes per evaluation, spread over achievable modules", "P: 19 x 5")

    def __post_init__(self) -> None:
        _positive(self, *(f.name for f in dataclasses.fields(self)))
        _require(
            self.capacity >= self.num_envs,
            "capacity",
            self.capacity,
            f"at least --num-envs ({self.num_envs}), one cycle of episodes",
        )

    @property
    def cycles(self) -> int:
        """Cycles of the whole run."""
        return -(-self.episodes // self.num_envs)

    @property
    def cycles_per_epoch(self) -> int:
        """Cycles between two evaluations."""
        return max(1, round(self.evaluation_interval / self.num_envs))


@dataclass(frozen=True)
class CheckpointConfig:
    """When the whole state is saved, beside at the end and on interruption."""

    checkpoint_minutes: float = option(10.0, "minutes between checkpoints of the whole state; 0: none by time", "ours")
    checkpoint_episodes: int | None = option(None, "training episodes between them, too", "ours")
    keep_checkpoints: int = option(1, "the last so many are kept", "ours")

    def __post_init__(self) -> None:
        _between(self, 0.0, 1e6, "checkpoint_minutes")
        _positive(self, *(["checkpoint_episodes"] if self.checkpoint_episodes is not None else []), "keep_checkpoints")


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
        "mgme: an expert per module, each trained one epoch (the time between evaluations) in N",
        "P",
        ALGORITHMS,
    )
    learner: str = option("ddpg", "ddpg, or td3 (twin critics, smoothed targets, delayed actor)", "P", LEARNERS)
    world: str = option("fetch", "fetch, or point (a point-mass probe that learns in seconds)", "ours", WORLDS)
    physics: str = option("auto", "physics backend; auto: c on CPU, warp on NVIDIA, jax elsewhere", "ours", PHYSICS)
    preset: str = option("auto", "settings for this machine (auto: by platform) or the paper's", "ours", PRESETS)
    seed: int = option(0, "random seed", "ours")
    num_seeds: int = option(1, "seeds trained side by side: seed ... seed + S - 1", "P: 10")
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
        for f in dataclasses.fields(self):
            choices = f.metadata.get("choices")
            _require(
                not choices or getattr(self, f.name) in choices,
                f.name,
                getattr(self, f.name),
                f"one of {', '.join(choices or ())}",
            )
        for group in GROUPS:
            for f in dataclasses.fields(getattr(self, group)):
                choices = f.metadata.get("choices")
                value = getattr(getattr(self, group), f.name)
                _require(not choices or value in choices, f.name, value, f"one of {', '.join(choices or ())}")
        _require(isinstance(self.modules, tuple), "modules", self.modules, 'a tuple of names, such as ("reach",)')
        _require(len(self.modules) > 0, "modules", "''", "at least one module, such as reach")
        for name, fixed in FIXED_SETTINGS.get(self.algorithm, {}).items():
            held = getattr(getattr(self, str(fields_by_name()[name][0])), name)
            _require(held == fixed, name, held, f"{fixed} with --algorithm {self.algorithm}; leave it out")
        _whole_between(self, 0, 100, "distractors")
        _whole_between(self, 0, 2**31 - 10**6 - 1, "seed")
        _positive(self, "num_seeds")
        if self.target_success is not None:
            _between(self, 0.0, 1.0, "target_success")
        total = len(self.modules) + self.distractors
        _require(
            self.schedule.batch_size >= total,
            "batch_size",
            self.schedule.batch_size,
            f"at least the number of modules, {total}",
        )
        achievable = len(self.modules)
        _require(
            self.schedule.evaluation_episodes >= achievable,
            "evaluation_episodes",
            self.schedule.evaluation_episodes,
            f"at least the number of achievable modules, {achievable}",
        )


GROUPS = tuple(f.name for f in dataclasses.fields(TrainConfig) if dataclasses.is_dataclass(f.default))


# Presets: settings by group and field. `cpu` is also the dataclasses' defaults.
PRESET_SETTINGS: dict[str, dict[str, Any]] = {
    "cpu": {"window": 100},
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
    _require(preset in PRESETS, "preset", preset, f"one of {', '.join(PRESETS)}")
    resolved = preset if preset != "auto" else ("gpu" if platform in ("gpu", "cuda", "tpu") else "cpu")
    algorithm = settings.get("algorithm", "curious")
    _require(algorithm in ALGORITHMS, "algorithm", algorithm, f"one of {', '.join(ALGORITHMS)}")
    merged = {**PRESET_SETTINGS[resolved], **ALGORITHM_SETTINGS[algorithm], **settings, "preset": resolved}
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
