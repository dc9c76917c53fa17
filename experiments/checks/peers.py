"""Compares ours with Stable-Baselines3's DDPG + HER, on reach, on this machine.

    python -m experiments.checks.peers --out peers.json
    python -m experiments.checks.peers --seeds 0 --steps 1200 --out small.json -- --num-envs 4 --episodes 16 ...

For every seed, one after the other and each in a process of its own: ours, trained on the `reach` module with the cpu
preset until its success is confirmed at the target, and judged on FetchReach-v4; theirs, with the settings of their
documentation for HER (below), trained on FetchReach-v4 and evaluated every `--interval` steps until an evaluation
reaches the target. Progress is shown on standard error. Options behind -- go to curious_jax.train. Needs
stable-baselines3 and gymnasium-robotics.

Speeds are environment steps with learning per second of training (their first 1,000 steps, without learning, do not
count); training seconds leave compilation, start-up and evaluation out on both sides.
"""

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser, at_dashes
from curious_jax.errors import ConfigError, check_installed, option_name
from experiments.engine import evaluations

NEEDS = ("stable_baselines3", "gymnasium_robotics")
PROGRESS_S = 10.0  # between two lines of progress
ENVIRONMENT = "FetchReach-v4"
# The run of `make demo`, with the fingers locked as in FetchReach-v4.
OURS = (
    "--preset cpu --modules reach --start fetch-reach --num-envs 38 --updates-per-cycle 40 --episodes 3800 "
    "--capacity 3800 --evaluation-interval 114 --evaluation-episodes 50"
).split()
# Stable-Baselines3's example for HER on Fetch, with DDPG: γ 0.95, networks 3 × 256, batch 256, a step of learning per
# environment step after 1,000 steps, exploration noise 0.2.
THEIRS: dict[str, Any] = {
    "gamma": 0.95,
    "batch_size": 256,
    "learning_rate": 1e-3,
    "learning_starts": 1000,
    "buffer_size": 1_000_000,
}


def ours(seed: int, target: float, options: Sequence[str], folder: Path) -> dict[str, Any]:
    """Trains with curious_jax in a process of its own and judges the policy on the official environment."""
    run = folder / f"ours-{seed}"
    command = [sys.executable, "-m", "curious_jax.train", *OURS, *options, "--seed", str(seed), "--out", str(run)]
    training = subprocess.Popen([*command, "--target-success", str(target)], stdout=subprocess.DEVNULL)
    while training.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            training.wait(PROGRESS_S)
        rows, _ = evaluations.read_rows(run / "metrics.jsonl")
        say(f"ours, seed {seed}: " + progress(rows[-1] if rows else {}))
    if training.returncode:
        raise ConfigError(f"ours, seed {seed}: the training ended with exit status {training.returncode}")
    summary = json.loads((run / "summary.json").read_text())
    judge = [sys.executable, "-m", "curious_jax.evaluate", str(run), "--env", ENVIRONMENT, "--json"]
    done = subprocess.run([*judge, "--episodes", "100"], capture_output=True, text=True)
    judged = json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()
    if isinstance(judged, dict):
        judged.pop("run", None)  # a folder that will be gone
    return {
        "seed": seed,
        "status": summary["status"],
        "train_s": summary["train_s"],
        "compile_s": summary["compile_s"],
        "env_steps": summary["env_steps"],
        "env_steps_per_s": summary["env_steps"] / summary["train_s"],
        "success": summary["mean_success"],
        "judged": judged,
    }


def progress(row: dict[str, Any]) -> str:
    """The last evaluation of a training in a few words."""
    return f"{row['env_steps']:,} steps, success {row['eval/success']:.2f}" if row else "compiles"


def say(text: str) -> None:
    """Print a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def theirs(seed: int, target: float, steps: int, interval: int, episodes: int) -> dict[str, Any]:
    """Trains Stable-Baselines3's DDPG + HER; run in a process of its own (`--theirs`)."""
    import gymnasium
    import gymnasium_robotics
    import numpy as np
    from stable_baselines3 import DDPG, HerReplayBuffer
    from stable_baselines3.common.noise import NormalActionNoise

    from envs.compat import official as official_compat

    official_compat.apply()
    gymnasium.register_envs(gymnasium_robotics)
    env, test_env = gymnasium.make(ENVIRONMENT), gymnasium.make(ENVIRONMENT)
    size = len(env.action_space.sample())
    model = DDPG(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        policy_kwargs={"net_arch": [256, 256, 256]},
        action_noise=NormalActionNoise(np.zeros(size), 0.2 * np.ones(size)),
        train_freq=1,
        gradient_steps=1,
        seed=seed,
        device="cpu",
        **THEIRS,
    )

    def learn(count: int) -> float:
        """Train for some more steps; returns the seconds that took."""
        began = time.perf_counter()
        model.learn(count, reset_num_timesteps=False)
        return time.perf_counter() - began

    first_s = learn(THEIRS["learning_starts"])
    learning_s, success = 0.0, 0.0
    while model.num_timesteps < steps and success < target:
        learning_s += learn(min(interval, steps - model.num_timesteps))
        success = _success(model, test_env, episodes)
        say(f"theirs, seed {seed}: {model.num_timesteps:,} of at most {steps:,} steps, success {success:.2f}")
    return {
        "seed": seed,
        "status": "target_reached" if success >= target else "not_reached",
        "train_s": first_s + learning_s,
        "env_steps": model.num_timesteps,
        "env_steps_per_s": (model.num_timesteps - THEIRS["learning_starts"]) / learning_s,
        "success": success,
    }


def _success(model: Any, env: Any, episodes: int) -> float:
    """Measure the share of episodes that are solved at their last step."""
    solved = 0.0
    for k in range(episodes):
        obs, _ = env.reset(seed=10_000 + k)
        over = False
        while not over:
            obs, _, ended, cut, info = env.step(model.predict(obs, deterministic=True)[0])
            over = ended or cut
        solved += float(info["is_success"])
    return solved / episodes


def seconds_to_target(rows: Sequence[dict[str, Any]]) -> float | None:
    """Median training seconds over seeds. Seeds that missed the target rank last; None if the median seed did."""
    found = statistics.median(row["train_s"] if row["status"] == "target_reached" else math.inf for row in rows)
    return found if math.isfinite(found) else None


def compare(own: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over seeds, and how many times faster ours is."""
    speed = [statistics.median(row["env_steps_per_s"] for row in rows) for rows in (own, other)]
    seconds = seconds_to_target(own), seconds_to_target(other)
    missed = (sum(row["status"] != "target_reached" for row in rows) for rows in (own, other))
    return {
        "env_steps_per_s": {"ours": speed[0], "theirs": speed[1], "times": speed[0] / speed[1]},
        "train_s": {
            "ours": seconds[0],
            "theirs": seconds[1],
            "times_fewer": seconds[1] / seconds[0] if seconds[0] and seconds[1] else None,
        },
        "compile_s": {"ours": statistics.median(row["compile_s"] for row in own)},
        "seeds_that_missed_the_target": dict(zip(("ours", "theirs"), missed, strict=True)),
    }


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    parser = OneLineParser(
        usage="python -m experiments.checks.peers [OPTION VALUE ...] [-- options of curious_jax.train, for ours]",
        prog="python -m experiments.checks.peers",
        description=(__doc__ or "").split("\n")[0],
    )
    add = parser.add_argument
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], help="seeds of both [default: 0 1 2]")
    add("--target", type=float, default=0.95, help="success rate at which both stop [default: 0.95]")
    add("--steps", type=int, default=40_000, help="environment steps of theirs at most [default: 40000]")
    add("--interval", type=int, default=1000, help="environment steps of theirs between evaluations [default: 1000]")
    add("--evaluation-episodes", type=int, default=50, help="episodes of their evaluations [default: 50]")
    add("--out", type=Path, help="write everything as JSON here")
    add("--theirs", type=int, metavar="SEED", help=argparse.SUPPRESS)
    before, options = at_dashes(argv)
    given = parser.parse_args(before)
    if given.out and not given.out.absolute().parent.is_dir():
        raise ConfigError(f"--out {given.out}: there is no folder {given.out.parent}; make it first")
    if given.steps <= THEIRS["learning_starts"]:
        least = THEIRS["learning_starts"]
        raise ConfigError(f"--steps {given.steps}: must be more than {least}, from which on theirs learns")
    check_installed("experiments.checks.peers", "peers,official", *NEEDS)
    if given.theirs is not None:
        found = theirs(given.theirs, given.target, given.steps, given.interval, given.evaluation_episodes)
        print(json.dumps(found))
        return program.DONE
    sizes = ("target", "steps", "interval", "evaluation_episodes")
    own, other = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(given.seeds, 1):
            say(f"seed {seed}, {number} of {len(given.seeds)}")
            own.append(ours(seed, given.target, options, Path(folder)))
            command = [sys.executable, "-m", "experiments.checks.peers", "--theirs", str(seed)]
            command += [text for name in sizes for text in (option_name(name), str(getattr(given, name)))]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise ConfigError(f"theirs, seed {seed}: the training ended with exit status {done.returncode}")
            other.append(json.loads(done.stdout.splitlines()[-1]))
    result = compare(own, other) | {"ours": own, "theirs": other}
    if given.out:
        given.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({key: result[key] for key in result if key not in ("ours", "theirs")}, indent=2))
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
