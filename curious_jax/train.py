"""python -m curious_jax.train: trains CURIOUS and leaves a run folder.

    python -m curious_jax.train --modules reach,push,pnp,stack
    python -m curious_jax.train --modules reach --target-success 0.95 --seed 3
    python -m curious_jax.train --config runs/some-run/config.json --seed 4
    python -m curious_jax.train --resume runs/some-run --episodes 300000

Exit status: 0 done, 2 bad input (one line on standard error, nothing written), 3 diverged, 1 when the disk or a physics
buffer failed; interrupted and saved: 130 (Ctrl-C), 143 (SIGTERM), 129 (SIGHUP: the terminal was closed), 138 (SIGUSR1),
141 (whoever read standard output has left).
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import curious_jax
from curious_jax import config as configs
from curious_jax.cli import environment, program, start
from curious_jax.cli import parser as options
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder

if TYPE_CHECKING:
    from curious_jax.types import Env


def parser() -> options.Parser:
    """The command line: the config's settings, --out and --resume."""
    result = options.Parser("train", "Trains CURIOUS (or a baseline) on modular goals and leaves a run folder.")
    result.add_argument(
        "--out", type=options.path, metavar="DIR", help="the run's folder [default: runs/TIME-ALGORITHM-MODULES-SEED]"
    )
    result.add_argument(
        "--resume",
        type=options.path,
        metavar="DIR",
        help="resume the run in DIR from its last checkpoint; --episodes, --target-success and --devices may change, "
        "no other setting",
    )
    result.add_argument(
        "--wandb",
        metavar="PROJECT",
        nargs="?",
        const="curious_jax",
        help="also log to this project of Weights & Biases [default: curious_jax]",
    )
    options.add_settings(result)
    return result


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Runs the program; returns its exit status."""
    settings, given = options.read(parser(), argv)
    out, resumed, wandb = (given.get(name) for name in ("out", "resume", "wandb"))
    if resumed is None:
        runfolder.check(out)
    elif out is not None:
        raise ConfigError(f"--out {out}: a resumed run stays in its folder; leave one of --out and --resume out")
    start.start_jax(given.get("cache"))
    import jax

    from curious_jax.run import memory
    from curious_jax.show import sinks
    from curious_jax.show.recorder import Recorder

    sinks.check_wandb(wandb)
    if resumed is not None:
        return _resume(resumed, settings, wandb)
    config = configs.make_config(jax.default_backend(), **settings)
    env = environment.make_env(config)
    _check_videos(config)
    memory_line = memory.check(config, env)
    folder = runfolder.claim(config, out)
    recorder = Recorder(config, env, folder, wandb=wandb)
    recorder.view.note(f"{memory_line}\nrun folder: {folder.path}")
    return _run(config, env, folder, recorder, wandb=wandb is not None)


def _resume(run: str, settings: dict[str, Any], wandb: str | None) -> int:
    """Continues a run from its last checkpoint."""
    from curious_jax.run import resume
    from curious_jax.show.recorder import Recorder

    found, config, env, folder, earlier, start, notes = resume.reopen(run, settings)
    recorder = Recorder(config, env, folder, earlier, found.info["best"], wandb)
    recorder.view.note(notes)
    return _run(config, env, folder, recorder, start, wandb is not None)


def _check_videos(config: TrainConfig) -> None:
    """Refuses --record-every, before anything is written, where nothing can be drawn."""
    if config.checkpoint.record_every:
        from curious_jax.show import recordings
        from envs.pictures import door

        recordings.check(config.checkpoint.record_every)
        try:
            door.check(config.world, "auto")
        except ValueError as error:
            raise ConfigError(f"--record-every: {error}") from None


def _videos(config: TrainConfig, env: "Env", folder: Path, note: Any, wandb: bool) -> Any:
    """Makes the callback that records videos."""
    from curious_jax.show import recordings, sinks
    from envs.pictures import door, protocol

    return recordings.Videos(
        config,
        env,
        folder,
        lambda: door.renderer(env, *recordings.SIZE),
        protocol.Goal,
        note,
        sinks.log_video if wandb else None,
    )


def _run(
    config: TrainConfig,
    env: "Env",
    folder: runfolder.RunFolder,
    recorder: Any,
    start: Any = None,
    wandb: bool = False,
) -> int:
    """Trains, from the beginning or a checkpoint, and prints how it ended."""
    from curious_jax.fit import begin, fit
    from curious_jax.run import checkpoints
    from curious_jax.show import curves

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(recorder)
            callbacks = [recorder.record]
            if config.checkpoint.record_every:
                videos = _videos(config, env, folder.path, recorder.view.note, wandb)
                stack.callback(videos.close)
                callbacks.append(videos)
            if start is None and config.checkpoint.keep_policies:
                start = begin(config, env)
                recorder.keep_untrained(start)
            progress = fit(config, env, callbacks, start)
            folder.write_summary(summary(config, env, progress))
    except OSError as error:
        move = program.SHORTAGES.get(error.errno or 0, "see what became of it")
        advice = f"{move}, then {checkpoints.way_on(folder.path)}"
        return program.fail(f"{folder.path}: cannot be written to ({error.strerror}); {advice}", program.FAILED)
    with contextlib.suppress(Exception):  # the run is done and saved; no picture is worth its exit status
        print(curves.small_plot(runfolder.read_rows(folder.path)))
    print(f"{progress.status}: {_success_line(progress)}\ncurves: {folder.path / runfolder.CURVES}")
    print(f"watch it with: {program.command('play', folder.path)}")
    if progress.status == "interrupted" and not recorder.problem:  # which says how, where nothing could be saved
        print(f"continue with: {program.command('train', '--resume', folder.path)}")
    if progress.status == "diverged" and config.num_seeds > 1:
        which = ", ".join(map(str, progress.diverged_seeds))
        print(
            f"seed {which} diverged, which ended all {config.num_seeds}; train the others without it: "
            f"{program.command('train', '--config', folder.path / runfolder.CONFIG)} --seed K --num-seeds S"
        )
    if recorder.problem:
        program.fail(recorder.problem, program.FAILED)
    return recorder.exit_status(progress.status)


def _success_line(progress: Any) -> str:
    import numpy as np

    per_module = ", ".join(f"{name} {np.mean(rate):.3f}" for name, rate in progress.success.items())
    return f"mean success {np.mean(progress.mean_success):.3f} ({per_module})"


def summary(config: TrainConfig, env: "Env", progress: Any) -> dict[str, Any]:
    """summary.json: how the run ended, with success figures as lists when there are several seeds."""
    import jax

    from curious_jax.learner.state import one_or_all

    keys = (
        "status",
        "mean_success",
        "success",
        "evaluated_at",
        "episodes",
        "env_steps",
        "updates",
        "wall_s",
        "compile_s",
        "train_s",
    )
    result = {key: getattr(progress, key) for key in keys}
    if config.target_success is not None:  # when each seed's target was confirmed
        result["reached"] = one_or_all(config, progress.reached)
    return runfolder.plain(
        result
        | {
            "platform": jax.default_backend(),
            "device": jax.devices()[0].device_kind,
            "physics": env.physics_name,
            "algorithm": config.algorithm,
            "modules": list(config.modules),
            "distractors": config.distractors,
            "seed": config.seed,
            "num_seeds": config.num_seeds,
            "version": curious_jax.__version__,
        }
    )


if __name__ == "__main__":
    sys.exit(main())
