"""The groups of settings, in frozen dataclasses that check themselves; config.py joins them to a whole run.

Each field carries its help text and the source of its default: the paper [P], the authors' program [C], or ours.
"""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from curious_jax.errors import ConfigError

SUBSTITUTIONS = ("default", "paper")
SELECTIONS = ("lp", "uniform")
REPLAYS = ("lp", "uniform", "own")
GOAL_REPLAYS = ("her", "none")
SWITCH = ("on", "off")
MAX_COUNT = 10**9  # of anything: int32 counters hold it
ALL = "all"  # --devices


def option(default: Any, help: str, source: str = "ours", choices: tuple[str, ...] | None = None) -> Any:
    """A dataclass field with what --help shows of it."""
    return field(default=default, metadata={"help": help, "source": source, "choices": choices})


def option_name(field_name: str) -> str:
    """num_envs -> --num-envs."""
    return "--" + field_name.replace("_", "-")


def require(ok: bool, name: str, value: Any, wanted: str) -> None:
    """Raises ConfigError unless ok, saying what --name must be."""
    if not ok:
        raise ConfigError(f"{option_name(name)} {value}: must be {wanted}")


def positive(config: Any, *names: str, least: int = 1) -> None:
    """Checks whole numbers between `least` and MAX_COUNT."""
    for name in names:
        value = getattr(config, name)
        require(is_whole(value) and value >= least, name, value, f"a whole number of {least} or more")
        require(value <= MAX_COUNT, name, value, f"at most {MAX_COUNT}")


def is_whole(value: Any) -> bool:
    """Is this an int and no bool?"""
    return isinstance(value, int) and not isinstance(value, bool)


def between(config: Any, low: float, high: float, *names: str) -> None:
    """Checks finite numbers between low and high."""
    for name in names:
        value = getattr(config, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        require(number and math.isfinite(value) and low <= value <= high, name, value, f"between {low:g} and {high:g}")


def whole_between(config: Any, low: int, high: int, name: str) -> None:
    """Checks a whole number between low and high."""
    value = getattr(config, name)
    require(is_whole(value) and low <= value <= high, name, value, f"a whole number between {low} and {high}")


def check_choices(config: Any) -> None:
    """Checks every field that has choices."""
    for f in dataclasses.fields(config):
        choices = f.metadata.get("choices")
        value = getattr(config, f.name)
        require(not choices or value in choices, f.name, value, f"one of {', '.join(choices or ())}")


@dataclass(frozen=True)
class NetworkConfig:
    """Actor and critic (SPEC 2.8)."""

    hidden_size: int = option(256, "units per hidden layer", "C")
    hidden_layers: int = option(3, "hidden layers of actor and critic", "C")

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "hidden_layers")


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
        between(self, 1e-8, 1.0, "actor_lr", "critic_lr")
        between(self, 0.0, 0.9999, "discount")
        between(self, 0.0, 1000.0, "action_l2")
        between(self, 1e-6, 1.0, "target_rate")


@dataclass(frozen=True)
class TD3Config:
    """What TD3 adds (Fujimoto et al. 2018); step sizes, discount and targets are those of DDPGConfig."""

    target_noise: float = option(0.2, "standard deviation of the noise on the target action", "TD3 paper")
    target_noise_clip: float = option(0.5, "that noise is clipped to ± this", "TD3 paper")
    policy_delay: int = option(2, "critic updates per update of the actor and of the targets", "TD3 paper")

    def __post_init__(self) -> None:
        between(self, 0.0, 10.0, "target_noise", "target_noise_clip")
        positive(self, "policy_delay")


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
        between(self, 0.0, 1.0, "hindsight_probability")

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
        between(self, 0.0, 1.0, "epsilon", "self_evaluation")
        positive(self, "window", least=2)  # 2l results are held, and progress needs 3 of them


@dataclass(frozen=True)
class ExplorationConfig:
    """Exploration noise of training episodes (SPEC 2.2)."""

    noise: float = option(0.2, "standard deviation of the Gaussian action noise", "C")
    random_action: float = option(0.3, "probability of a uniform random action, per step", "C")

    def __post_init__(self) -> None:
        between(self, 0.0, 10.0, "noise")
        between(self, 0.0, 1.0, "random_action")


@dataclass(frozen=True)
class NormalizerConfig:
    """Input normalisation (SPEC 2.10)."""

    normalize: bool = option(True, "normalise observations, and goals per module", "ours; paper preset off")
    std_floor: float = option(0.01, "smallest standard deviation divided by", "C")
    clip: float = option(5.0, "normalised inputs are clipped to ± this", "C")

    def __post_init__(self) -> None:
        between(self, 1e-6, 1e3, "std_floor")
        between(self, 0.1, 1e3, "clip")


@dataclass(frozen=True)
class PerturbationConfig:
    """A sensor that goes wrong during the run (SPEC 4, perturbation)."""

    perturb_at: int | None = option(None, "training episodes after which a cube is observed elsewhere", "P: 237,500")
    perturb_cube: int = option(2, "the cube, counted from 1", "P")
    perturb_shift: float = option(0.05, "metres by which its x is off from then on", "P")

    def __post_init__(self) -> None:
        if self.perturb_at is not None:
            positive(self, "perturb_at", least=0)
        positive(self, "perturb_cube")
        between(self, -10.0, 10.0, "perturb_shift")


@dataclass(frozen=True)
class ScheduleConfig:
    """How much of everything (SPEC 2, `paper` preset: 19 workers × 2 rollouts, 25 cycles an epoch, ...)."""

    num_envs: int = option(128, "environments in parallel = episodes per cycle", "preset; paper 38")
    updates_per_cycle: int = option(192, "gradient steps per cycle", "preset; authors' program 100")
    batch_size: int = option(256, "transitions per gradient step (N_mb)", "preset; paper 19 x 256")
    capacity: int = option(60_000, "episodes kept in the store", "preset; paper keeps all")
    episodes: int = option(150_000, "training episodes in all (rounded up to whole cycles)", "preset; paper 300,200")
    evaluation_interval: int = option(1_000, "training episodes between evaluations", "preset; paper 950")
    evaluation_episodes: int = option(95, "episodes per evaluation, spread over achievable modules", "P: 19 x 5")
    expert_epoch: int = option(
        1_000, "mgme: training episodes of one expert's turn, at least one cycle", "preset; paper 950"
    )

    def __post_init__(self) -> None:
        positive(self, *(f.name for f in dataclasses.fields(self)))
        require(
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

    @property
    def cycles_per_expert(self) -> int:
        """Cycles of one turn of an expert of MG-ME."""
        return max(1, round(self.expert_epoch / self.num_envs))


@dataclass(frozen=True)
class CheckpointConfig:
    """When the whole state is saved, beside at the end and on interruption."""

    checkpoint_minutes: float = option(10.0, "minutes between checkpoints of the whole state; 0: none by time", "ours")
    checkpoint_episodes: int | None = option(None, "training episodes between them, too", "ours")
    keep_checkpoints: int = option(1, "the last so many are kept", "ours")

    def __post_init__(self) -> None:
        between(self, 0.0, 1e6, "checkpoint_minutes")
        positive(self, *(["checkpoint_episodes"] if self.checkpoint_episodes is not None else []), "keep_checkpoints")
