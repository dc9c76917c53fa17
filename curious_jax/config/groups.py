"""Holds the settings of a run's parts, a group a part."""

from dataclasses import dataclass

from curious_jax.config.fields import (
    ESTIMATORS,
    GOAL_REPLAYS,
    GOALS,
    REPLAYS,
    SELECTIONS,
    SUBSTITUTIONS,
    Settings,
    option,
    require,
)


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
    policy_average: float = option(
        1.0,
        "how far the policy that is evaluated, kept and played moves towards the actor in each cycle; 1: it is the "
        "actor. Episodes of training are always played by the actor",
        "",
        1e-4,
        1,
    )
    packed: bool = option(
        False,
        "update with all weights in one matrix, in fewer kernels, for GPUs: the same up to float32's precision; TD3 "
        "and layer normalisation keep the plain update, and so do several devices",
    )
    eigen: bool = option(
        False,
        "on CPUs matrix products by Eigen, on all cores; off: as XLA chooses, which keeps small ones on one core",
    )


@dataclass(frozen=True)
class TD3Config(Settings):
    """Settings that TD3 adds (Fujimoto et al. 2018, whose defaults these are); the rest is DDPGConfig's."""

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
    window: int = option(
        300,
        "self-evaluation results per competence window (l; the paper: 300), in place of a preset's span",
        "",
        2,
    )
    window_span: int | None = option(
        None,
        "training episodes that a competence window spans, in place of --window: l follows the number of modules",
    )
    self_evaluation: float = option(0.1, "probability that an episode is a self-evaluation", "P", 0, 1)
    selection: str = option(
        "lp",
        "modules to practise: by learning progress (as curious does) or uniform (muvfa); her and mgme have no choice",
        "P",
        choices=SELECTIONS,
    )
    estimator: str = option(
        "competence",
        "what lp goes by, for selection and replay: competence (the paper's |C - C before|), ema, learnability, bayes, "
        "plr, model, uniform, or order: one module after the other",
        "P",
        choices=ESTIMATORS,
        open=True,
    )
    order: tuple[str, ...] = option(
        (), "modules in the order of --estimator order; unless given: as in --modules, then the distractors"
    )
    goals: str = option(
        "uniform",
        "goals within a module, for exploring episodes: uniform, alp-gmm, riac, mega, vds or learnability",
        "P",
        choices=GOALS,
        open=True,
    )


@dataclass(frozen=True)
class ExplorationConfig(Settings):
    """Exploration noise of training episodes."""

    noise: float = option(0.2, "standard deviation of the Gaussian action noise", "C", 0, 10)
    random_action: float = option(0.3, "probability of a uniform random action, per step", "C", 0, 1)
    random_steps: float = option(
        1.0,
        "steps that a random action lasts on average (temporally extended exploration, Dabney et al. 2021); 1: each is "
        "drawn afresh, as the authors' program does",
        "C",
        1,
        1000,
    )
    random_gripper: float = option(
        0.0,
        "share of exploring steps in which the gripper alone gets a random command: all the way closed, or open",
        "",
        0,
        1,
    )
    random_gripper_steps: float = option(10.0, "steps that such a command lasts on average", "", 1, 1000)
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
    perturb_shift: float = option(0.05, "metres by which its observed x is off from then on", "P", -8, 8)


@dataclass(frozen=True)
class ScheduleConfig(Settings):
    """Sizes: environments, updates, episodes, replay buffer, evaluations."""

    num_envs: int = option(128, "environments in parallel = episodes per cycle")
    updates_per_cycle: int = option(192, "gradient steps per cycle")
    batch_size: int = option(256, "transitions per gradient step (N_mb; the paper: 19 workers x 256)")
    capacity: int = option(60_000, "episodes kept in the replay buffer (the paper keeps all)")
    episodes: int = option(150_000, "training episodes in all, rounded up to whole cycles")
    evaluation_interval: int = option(1_000, "training episodes between evaluations, rounded to whole cycles")
    evaluation_episodes: int = option(95, "episodes per evaluation, spread over achievable modules", "P")
    cvar_goals: int | None = option(
        None,
        "at the end, try this many goals of each module ten times each, try the tenth of them that did worst ten times "
        "more, and report the success of those (eval/cvar); none: do not",
        "",
        10,
        10_000,
    )
    expert_epoch: int = option(1_000, "mgme: training episodes of one expert's turn, at least one cycle")

    def __post_init__(self) -> None:
        super().__post_init__()
        enough = f"at least num_envs={self.num_envs}, one cycle of episodes; raise it, or lower the latter"
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
    """Settings of when the whole state is saved (it always is at the end), of policies kept, and of videos."""

    checkpoint_minutes: float = option(10.0, "minutes between checkpoints; 0: none by time", "", 0, 1e6)
    checkpoint_episodes: int | None = option(None, "also save after this many training episodes")
    keep_checkpoints: int = option(1, "number of checkpoints to keep")
    keep_policies: int = option(
        0,
        "policies to keep on the way, for play --progress: the untrained one, and the first at which mean success "
        "reaches 1/N, 2/N, ..., (N - 1)/N; 0: none",
        "",
        0,
        100,
    )
    record_every: int = option(
        0, "make a video every N evaluations, RUN/videos/EPISODES.mp4 (needs the extra play); 0: none", "", 0
    )
