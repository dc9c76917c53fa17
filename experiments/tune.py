"""Searches for the settings that reach the target in the least training time, with Optuna.

    python -m experiments.tune --modules reach,push --trials 30 --out runs/tune
    python -m experiments.tune --vary updates_per_cycle=64,192 --vary actor_lr=3e-4:3e-3:log --minutes 5 --out DIR

A trial trains with each of --seeds in turn until --target-success is reached, or for --minutes. Its score is the mean
over seeds of the minutes of training that it took; a seed that did not get there counts as --minutes times 2 minus its
mean success. Trials that are behind the median at the same time are ended early. The same command continues a search,
with --trials as before or more, and several at once share it; any other setting wants an --out of its own.
Other options are those of curious_jax.train, and the same in every trial. Needs `pip install "curious_jax[tune]"`.
"""

import contextlib
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from curious_jax import config as configs
from curious_jax import train
from curious_jax.cli import environment, program, start
from curious_jax.cli import parser as options
from curious_jax.config import option_name
from curious_jax.errors import ConfigError, check_installed
from curious_jax.run import folder as runfolder
from experiments.engine import grid
from experiments.engine.conditions import refuse_others

# What is varied unless --vary says otherwise.
SPACE = (
    "num_envs=32,64,128",
    "updates_per_cycle=48,96,192,384",
    "batch_size=128,256,512",
    "guide=0.0:0.8",
    "mirror=off,on",
    "critic_layer_norm=off,on",
    "actor_lr=3e-4:3e-3:log",
    "critic_lr=3e-4:3e-3:log",
    "target_rate=0.005:0.05:log",
    "action_l2=0.1:2.0:log",
    "noise=0.05:0.4",
    "random_action=0.05:0.4",
)
SEEDS_APART = 1_000  # between the seeds of two trials' draws; more than the length of a folder's name
ASKED = "asked"  # attribute of a study: what its trials have in common
BIN_S = 20.0  # seconds of training between two looks at a trial
SEEDS = "1000"  # seeds below are kept for what is claimed

Space = dict[str, list[Any] | tuple[float, float, bool, bool]]


def read_space(given: Sequence[str]) -> Space:
    """Reads the settings to vary: {name: its choices, or (low, high, on a log scale, whole numbers)}.

    Raises:
      ConfigError: naming what is wrong.
    """
    space: Space = {}
    fields = configs.fields_by_name()
    for text in given:
        name, _, values = text.partition("=")
        name = name.replace("-", "_")
        if name in ("seed", "num_seeds"):
            raise ConfigError(f"--vary {text}: leave it out; --seeds names the seeds of a trial")
        if name not in fields or not values:
            raise ConfigError(
                f"--vary {text}: must be NAME=A,B,... or NAME=LOW:HIGH or NAME=LOW:HIGH:log, NAME a setting"
            )
        field = fields[name][1]
        if ":" in values:
            ends = values.split(":")
            if len(ends) not in (2, 3) or (len(ends) == 3 and ends[2] != "log"):
                raise ConfigError(f"--vary {text}: a range is LOW:HIGH or LOW:HIGH:log")
            low, high = (options.convert(f"--vary {name}", end, float) for end in ends[:2])
            if not low < high or (len(ends) == 3 and low <= 0):
                raise ConfigError(f"--vary {text}: LOW must be less than HIGH, and more than 0 on a log scale")
            for end in (low, high):
                configs.check(name, field, int(end) if configs.kind(field) is int else end)
            space[name] = (low, high, len(ends) == 3, configs.kind(field) is int)
        else:
            space[name] = [options.convert(f"--vary {name}", one, field.type) for one in values.split(",")]
            for one in space[name]:
                configs.check(name, field, one)
    return space


def suggest(trial: Any, space: Space) -> dict[str, Any]:
    """Draws the settings of an Optuna trial."""
    chosen = {}
    for name, values in space.items():
        if isinstance(values, list):
            chosen[name] = trial.suggest_categorical(name, values)
        else:
            low, high, log, is_whole = values
            draw = trial.suggest_int if is_whole else trial.suggest_float
            chosen[name] = draw(name, int(low) if is_whole else low, int(high) if is_whole else high, log=log)
    return chosen


def minutes_to_target(
    settings: dict[str, Any], seed: int, minutes: float, look: Callable[[float, float], bool]
) -> tuple[float, bool]:
    """Trains one seed: (minutes that it took, or the score of one that did not get there; whether it was cut off).

    Args:
      look: (training seconds, mean success) at an evaluation -> whether to give the trial up.
    """
    import jax

    from curious_jax.fit import Progress, fit
    from curious_jax.types import Status

    config = configs.make_config(jax.default_backend(), **settings, seed=seed)
    given_up = False

    def callback(progress: Progress) -> bool:
        nonlocal given_up
        if progress.metrics and progress.status is Status.RUNNING:
            given_up = look(progress.train_s, progress.mean_success)
        return given_up or progress.train_s > 60 * minutes

    end = fit(config, environment.make_env(config), callback)
    jax.clear_caches()  # the next trial has other programs
    reached = end.reached[0]
    return (reached["train_s"] / 60 if reached else minutes * (2 - end.mean_success)), given_up


def score(trial: Any, fixed: dict[str, Any], space: Space, seeds: Sequence[int], minutes: float) -> float:
    """Runs a trial: the mean over seeds of minutes_to_target.

    Raises:
      optuna.TrialPruned: when the trial is behind, or its settings do not go together.
    """
    import optuna

    settings = {**fixed, **suggest(trial, space)}
    scores: list[float] = []
    for seed in seeds:
        before = len(scores) * int(60 * minutes / BIN_S + 1)
        bins: set[int] = set()

        def look(train_s: float, success: float, before: int = before, bins: set[int] = bins) -> bool:
            step = before + int(train_s / BIN_S)
            if step in bins:
                return False
            bins.add(step)
            trial.report(1 - success, step)
            return trial.should_prune()

        try:
            took, given_up = minutes_to_target(settings, seed, minutes, look)
        except ConfigError as error:
            trial.set_user_attr("refused", str(error))
            raise optuna.TrialPruned from None
        if given_up:
            raise optuna.TrialPruned
        scores.append(took)
    return sum(scores) / len(scores)


def open_study(out: Path) -> Any:
    """Opens the search that a folder keeps, or begins it; several processes may share it."""
    import optuna

    out.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(out / "search.log")))
    return optuna.create_study(
        storage=storage,
        study_name="search",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=2),
    )


def check_continued(study: Any, asked: dict[str, Any], out: Path) -> None:
    """Note in a study what its trials have in common, and refuse to continue it with anything else.

    Raises:
      ConfigError: naming the first option that differs and both values.
    """
    now = runfolder.plain(asked)
    was = study.user_attrs.get(ASKED)
    if was is None:
        study.set_user_attr(ASKED, now)
        return
    refuse_others(was, now, f"the search in {out} has")


def _check(fixed: dict[str, Any], space: Space, seeds: Sequence[int]) -> None:
    """Refuses settings that no trial could have: neither by themselves nor with the first value of each varied one."""
    first = {n: int(v[0]) if isinstance(v, tuple) and v[3] else v[0] for n, v in space.items()}  # v[3]: whole numbers
    try:
        grid.check([grid.Condition({"searched": "settings"}, fixed)], seeds, 1)
    except ConfigError as error:
        try:
            grid.check([grid.Condition({"searched": "settings"}, {**fixed, **first})], seeds, 1)
        except ConfigError:
            raise error from None


def _folder(text: str) -> Path:
    return Path(options.path(text))


def parser() -> options.OneLineParser:
    """Makes the parser of the search's own options; what it leaves over is curious_jax.train's."""
    made = options.OneLineParser(
        prog="python -m experiments.tune", description=(__doc__ or "").split("\n")[0], allow_abbrev=False
    )
    made.add_argument(
        "--out", type=_folder, required=True, metavar="DIR", help="where the search is kept and continued"
    )
    made.add_argument("--trials", default="30", metavar="N", help="trials in all [default: 30]")
    made.add_argument("--minutes", default="5", metavar="X", help="training minutes of one seed at most [default: 5]")
    made.add_argument("--seeds", default=SEEDS, metavar="K,...", help=f"seeds of every trial [default: {SEEDS}]")
    made.add_argument(
        "--vary", action="append", default=[], metavar="NAME=...",
        help=f"a setting and its values, A,B,... or LOW:HIGH or LOW:HIGH:log; repeatable [default: {' '.join(SPACE)}]",
    )  # fmt: skip
    return made


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    own, rest = parser().parse_known_args(argv)
    trials, minutes = options.at_least("--trials", own.trials, 1), options.convert("--minutes", own.minutes, float)
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes {own.minutes}: must be a number of minutes, more than 0")
    seeds = list(grid.parse_seeds(own.seeds))
    given = train.parser().read(rest)
    space = read_space(own.vary or [text for text in SPACE if text.partition("=")[0] not in given])
    for name in ("resume", "wandb", "num_seeds", "seed"):
        if given.get(name) is not None:
            raise ConfigError(f"{option_name(name)}: leave it out here; --seeds names the seeds of a trial")
    for name in sorted(given.keys() & space.keys()):
        raise ConfigError(f"--vary {name}: is given as {option_name(name)} too; leave one of the two out")
    fixed = {"target_success": 0.9, **options.settings(given, apart=("seed", "num_seeds"))}
    check_installed("experiments.tune", "tune", "optuna")
    _check(fixed, space, seeds)
    start.start_jax(given.get("cache"))
    study = open_study(own.out)
    check_continued(study, {**fixed, "minutes": minutes, "seeds": seeds, "vary": " ".join(own.vary or SPACE)}, own.out)

    import optuna
    from optuna.trial import TrialState

    def run_trial(trial: Any) -> float:
        # A sampler begins at its seed: each trial has its own, or a search that is continued, or has two processes,
        # would draw the same again.
        seed = len(own.out.name) + SEEDS_APART * trial.number
        study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=8)
        return score(trial, fixed, space, seeds, minutes)

    ends = (TrialState.COMPLETE, TrialState.PRUNED)
    enough = optuna.study.MaxTrialsCallback(trials, states=ends)  # whichever process ran them
    status = program.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        left = max(0, trials - len(study.get_trials(deepcopy=False, states=ends)))
        study.optimize(run_trial, n_trials=left, callbacks=[_tell, enough])
        status = program.DONE
    report(study, own.out)
    return status


def report(study: Any, out: Path) -> None:
    """Prints the best trial so far, and writes it into best.json."""
    done = [t for t in study.trials if t.value is not None]
    if not done:
        print("No trial has come to its end yet; the same command continues.")
        return
    best = {"minutes": study.best_value, "settings": study.best_params, "trials": len(study.trials)}
    (out / "best.json").write_text(json.dumps(best, indent=1) + "\n")
    print(f"best of {len(done)} whole trials: {study.best_value:.2f} minutes with {_list(study.best_params)}")


def _tell(_: Any, trial: Any) -> None:
    """Prints a line about a trial that has ended."""
    refused = trial.user_attrs.get("refused")
    left = f"refused ({refused})" if refused else "given up"
    ended = f"{trial.value:.2f} minutes" if trial.value is not None else left
    print(f"trial {trial.number}: {ended}, {_list(trial.params)}", flush=True)


def _list(settings: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in settings.items())


if __name__ == "__main__":
    sys.exit(main())
