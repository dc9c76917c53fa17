"""python -m curious_jax.train: trains CURIOUS and leaves a run folder.

    python -m curious_jax.train --modules reach,push,pnp,stack
    python -m curious_jax.train --modules reach --target-success 0.95 --seed 3
    python -m curious_jax.train --config runs/some-run/config.json --seed 4

Exit status: 0 done, 2 bad input (one line on standard error, nothing written), 3 diverged,
130 or 143 interrupted and saved.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import curious_jax
from curious_jax import config as configs
from curious_jax import curves, options, program, runfolder
from curious_jax.config import TrainConfig

Row = dict[str, Any]


def parser() -> options.Parser:
    """The command line: the config's settings and --out."""
    result = options.Parser("train", "Trains CURIOUS (or M-UVFA) on modular goals and leaves a run folder.")
    result.add_argument("--out", metavar="DIR", help="the run's folder [default: runs/TIME-ALGORITHM-MODULES-SEED]")
    options.add_settings(result)
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    return program.run(lambda: _train(options.read(parser(), argv)))


def _train(arguments: options.Arguments) -> int:
    out = arguments.rest.get("out")
    runfolder.check(out)
    import jax

    from curious_jax import memory
    from curious_jax.fit import fit

    config = configs.make_config(jax.default_backend(), **arguments.settings)
    env = program.make_env(config)
    memory_line = memory.check(config, env)
    folder = runfolder.claim(config, out)
    recorder = Recorder(config, env, folder)
    recorder.view.note(f"{memory_line}\nrun folder: {folder.path}")
    try:
        with recorder:
            _, history = fit(config, env, recorder.evaluated)
    except configs.ConfigError:
        folder.discard()
        raise
    folder.write_summary(summary(config, env, history))
    print(curves.small_plot(runfolder.read_rows(folder.path)))
    print(f"{history.status}: {_success_line(history)}\ncurves: {folder.path / runfolder.CURVES}")
    return recorder.exit_status(history.status)


class Recorder:
    """Takes fit's reports to the sinks and the policy exports; stops the run when a signal asks for it."""

    def __init__(self, config: TrainConfig, env: Any, folder: runfolder.RunFolder):
        from curious_jax import interruption, metrics, terminal

        title = _title(config, env)
        self.view = terminal.TerminalView(title, config.schedule.cycles * config.schedule.num_envs)
        found = metrics.tensorboard(folder.path)
        self._sinks: list[metrics.Sink] = [
            metrics.JsonLines(folder),
            metrics.Curves(folder.path / runfolder.CURVES, title),
            *([found] if found else []),
            self.view,
        ]
        self._config, self._exports = config, folder.path / runfolder.CHECKPOINTS
        self._signals = interruption.Interruption(self.view.note)
        self._best = -1.0

    def __enter__(self) -> "Recorder":
        self._signals.__enter__()
        self.view.open()
        return self

    def __exit__(self, *error: Any) -> None:
        for sink in reversed(self._sinks):
            sink.close()
        self._signals.__exit__(*error)

    def evaluated(self, report: Any) -> bool:
        """fit's callback: records one evaluation; True ends the run."""
        from curious_jax import checkpoint, trainer

        for sink in self._sinks:
            sink.evaluation(report.metrics)
        success = [row["eval/success"] for row in report.metrics]
        info = {"episodes": report.metrics[0]["episodes"], "mean_success": runfolder.plain(success)}
        policy = trainer.policy(report.state)
        checkpoint.save(self._exports / checkpoint.LAST, policy, self._config, info)
        if np.mean(success) >= self._best:
            self._best = float(np.mean(success))
            checkpoint.save(self._exports / checkpoint.BEST, policy, self._config, info)
        return self._signals.requested

    def exit_status(self, status: str) -> int:
        """The program's exit status for a run's status."""
        if status == "interrupted":
            return self._signals.exit_status
        return program.DIVERGED if status == "diverged" else program.DONE


def _title(config: TrainConfig, env: Any) -> str:
    distractors = f" + {config.distractors} distractors" if config.distractors else ""
    seeds = f"seed {config.seed}" if config.num_seeds == 1 else f"{config.num_seeds} seeds from {config.seed}"
    physics = "" if env.physics_name == "none" else f" ({env.physics_name})"
    return f"{config.algorithm} on {config.world}{physics}: {', '.join(config.modules)}{distractors}; {seeds}"


def _success_line(history: Any) -> str:
    per_module = ", ".join(f"{name} {np.mean(rate):.3f}" for name, rate in history.success.items())
    return f"mean success {np.mean(history.mean_success):.3f} ({per_module})"


def summary(config: TrainConfig, env: Any, history: Any) -> dict[str, Any]:
    """summary.json: how the run ended, with success figures as lists when there are several seeds."""
    import jax

    keys = ("status", "mean_success", "success", "episodes", "env_steps", "updates", "wall_s", "compile_s", "train_s")
    result = {key: getattr(history, key) for key in keys}
    if config.target_success is not None:  # when each seed's target was confirmed
        result["reached"] = history.reached if config.num_seeds > 1 else history.reached[0]
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
