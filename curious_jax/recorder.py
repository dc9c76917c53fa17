"""What happens at every evaluation of a run: sinks, policy exports, and signals that ask it to stop."""

from typing import Any

from curious_jax import checkpoint, fit, interruption, metrics, program, runfolder, terminal, trainer
from curious_jax.config import TrainConfig


class Recorder:
    """Takes fit's reports to the sinks and the policy exports; stops the run when a signal asks for it."""

    def __init__(self, config: TrainConfig, env: Any, folder: runfolder.RunFolder):
        name = title(config, env)
        self.view = terminal.TerminalView(name, config.schedule.cycles * config.schedule.num_envs)
        found = metrics.tensorboard(folder.path)
        self._sinks: list[metrics.Sink] = [
            metrics.JsonLines(folder),
            metrics.Curves(folder.path / runfolder.CURVES, name),
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

    def evaluated(self, report: fit.Report) -> bool:
        """fit's callback: records one evaluation; True ends the run."""
        for sink in self._sinks:
            sink.evaluation(report.metrics)
        if report.status != "diverged":  # the last good policy stays
            self._export(report)
        return self._signals.requested

    def _export(self, report: fit.Report) -> None:
        success = [row["eval/success"] for row in report.metrics]
        info = {"episodes": report.metrics[0]["episodes"], "mean_success": runfolder.plain(success)}
        policy = trainer.policy(report.state)
        checkpoint.save(self._exports / checkpoint.LAST, policy, self._config, info)
        if (mean := sum(success) / len(success)) >= self._best:
            self._best = mean
            checkpoint.save(self._exports / checkpoint.BEST, policy, self._config, info)

    def exit_status(self, status: str) -> int:
        """The program's exit status for a run's status."""
        if status == "interrupted":
            return self._signals.exit_status
        return program.DIVERGED if status == "diverged" else program.DONE


def title(config: TrainConfig, env: Any) -> str:
    """curious on fetch (c): reach, push; seed 0."""
    distractors = f" + {config.distractors} distractors" if config.distractors else ""
    seeds = f"seed {config.seed}" if config.num_seeds == 1 else f"{config.num_seeds} seeds from {config.seed}"
    physics = "" if env.physics_name == "none" else f" ({env.physics_name})"
    return f"{config.algorithm} on {config.world}{physics}: {', '.join(config.modules)}{distractors}; {seeds}"
