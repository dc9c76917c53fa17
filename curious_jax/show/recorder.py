"""Records a run under way: sinks, policies, checkpoints, and signals that ask it to stop."""

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from curious_jax import fit
from curious_jax.cli import program
from curious_jax.config import TrainConfig
from curious_jax.learner.state import policy_params
from curious_jax.run import checkpoints, interruption, milestones, policies
from curious_jax.run import folder as runfolder
from curious_jax.show import sinks, terminal
from curious_jax.types import Status

if TYPE_CHECKING:
    from curious_jax.types import Env


class Recorder:
    """Takes fit's reports to the sinks and the policy exports, and saves; stops the run when a signal asks for it.

    Args:
      earlier: the rows of a run that is resumed; None for a new run.
      best: its best mean success so far; -1 for none.
      wandb: a Weights & Biases project to log to; None for none.
    """

    def __init__(
        self,
        config: TrainConfig,
        env: "Env",
        folder: runfolder.RunFolder,
        earlier: Sequence[sinks.Row] | None = None,
        best: float = -1.0,
        wandb: str | None = None,
    ):
        name = title(config, env)
        done = None if earlier is None else earlier[-1]["episodes"] if earlier else 0
        total = config.schedule.cycles * config.schedule.num_envs
        self.view = terminal.TerminalView(name, total, config.target_success, done or 0)
        optional = sinks.optional(folder.path, config, self.view.note, done, wandb)
        drawn = sinks.Curves(folder.path / runfolder.CURVES, name, earlier=earlier or ())
        self._sinks: list[sinks.Sink] = [
            sinks.JsonLines(folder),
            sinks.Optional(runfolder.CURVES, drawn, self.view.note),
            *optional,
            self.view,
        ]
        self._config, self._folder = config, folder
        self._signals = interruption.Interruption(self.view.note)
        self._saver = checkpoints.Saver(folder, config, env, self.view.note)
        self._best = best
        self.problem: str | None = None  # why the last checkpoint is not there

    def __enter__(self) -> "Recorder":
        self._signals.__enter__()
        self.view.open()
        return self

    def __exit__(self, *error: Any) -> None:
        with contextlib.ExitStack() as stack:  # each of them, whatever the others raise
            if error[0] is not None:  # which says more than what follows from it
                stack.enter_context(contextlib.suppress(OSError))
            stack.callback(self._signals.__exit__, *error)
            for sink in self._sinks:
                stack.callback(sink.close)
            stack.callback(self._saver.close)

    def record(self, progress: fit.Progress) -> bool:
        """Records an evaluation, and saves when it is time, at the end and on a signal (fit's callback); True stops."""
        if progress.metrics:
            self._record_evaluation(progress)
        self.view.cycle(progress.episodes, progress.train_s)
        self._folder.check_there()
        stop = self._signals.requested
        try:
            if progress.status is Status.DIVERGED:
                path = self._saver.dump(progress)
                self.view.note(f"losses or parameters are no longer finite; the state is kept in {path}")
            elif stop or progress.status is not Status.RUNNING:
                self.problem = None
                self._saver.finish(progress, self._best)
            elif self._saver.due(progress):
                self._saver.start(progress, self._best)
        except checkpoints.SaveError as error:
            self.problem = str(error)
        except Exception as error:  # no memory for the copy, no room for the dump
            self.problem = f"{self._folder.path}: the state could not be saved ({checkpoints.reason(error)})"
        if stop and progress.status is Status.RUNNING and not progress.metrics:
            self._save_policy(progress, (policies.LAST,), None)
        return stop

    def _record_evaluation(self, progress: fit.Progress) -> None:
        """Gives the rows to the sinks, and keeps the policy as the last one and perhaps as the best."""
        for sink in self._sinks:
            sink.evaluation(progress.metrics)
        if progress.status is Status.DIVERGED:  # the last good policy stays
            return
        success = [row["eval/success"] for row in progress.metrics]
        mean = sum(success) / len(success)
        names = [policies.LAST, *([policies.BEST] if mean >= self._best else [])]
        if milestones.is_due(mean, self._best, self._config.checkpoint.keep_policies):
            names.append(str(progress.episodes))
        self._best = max(self._best, mean)
        self._save_policy(progress, names, runfolder.plain(success))

    def keep_untrained(self, start: fit.Progress) -> None:
        """Keeps the policy of a run before its first cycle, the first milestone."""
        self._save_policy(start, [str(start.episodes)], None)

    def _save_policy(self, progress: fit.Progress, names: Sequence[str], success: Any) -> None:
        info = {"episodes": progress.episodes, "mean_success": success}
        folder = self._folder.path / runfolder.POLICIES
        try:
            for name in names:
                policies.save(folder / name, policy_params(progress.state), self._config, info)
        except OSError as error:  # a full disk: the run is worth more
            self.view.note(f"{folder}: the policy could not be written ({error.strerror})")

    def exit_status(self, status: Status) -> int:
        """The program's exit status for a run's status."""
        if self.problem and status is not Status.DIVERGED:
            return program.FAILED
        if status is Status.INTERRUPTED:
            return self._signals.exit_status
        return program.DIVERGED if status is Status.DIVERGED else program.DONE


def title(config: TrainConfig, env: "Env") -> str:
    """curious on fetch (c): reach, push; seed 0."""
    distractors = f" + {config.distractors} distractors" if config.distractors else ""
    seeds = f"seed {config.seed}" if config.num_seeds == 1 else f"{config.num_seeds} seeds from {config.seed}"
    physics = "" if env.physics_name == "none" else f" ({env.physics_name})"
    return f"{config.algorithm} on {config.world}{physics}: {', '.join(config.modules)}{distractors}; {seeds}"
