"""Takes the rows of metrics where they go: metrics.jsonl, curves.png, and what a run can do without.

TensorBoard and report.html are written when what they need is installed, Weights & Biases when it is asked for. A row
is a flat dict, one per evaluation and seed.
"""

import contextlib
import functools
import importlib.util
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from curious_jax import config as configs
from curious_jax.config import TrainConfig
from curious_jax.errors import ConfigError, check_installed
from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.show import curves, page
from curious_jax.show.stats import Row

TENSORBOARD, WANDB = "tensorboard", "wandb"  # folders inside the run's
COUNTERS = ("seed", "episodes", "wall_s")  # not curves of their own in TensorBoard


class Sink(Protocol):
    """Takes each evaluation's rows, one per seed, with the keys of metrics.jsonl; `register` adds one of your own."""

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Takes one evaluation."""

    def close(self) -> None:
        """Writes what is still held back."""


Maker = Callable[[Path, TrainConfig, int | None], Sink]  # the run's folder, its config, `after` -> a sink
_OWN: dict[str, Maker] = {}


def register(name: str, make: Maker) -> None:
    """Adds a metrics sink of your own to every run of `curious_jax.train` in this process; `fit` has its callback.

    A sink that fails is named in one line, and the run continues without it. It gets plain data: numbers, and None
    for those that are not finite.

    Args:
      name: as that line has it; letters, digits, - and _ only.
      make: the run's folder, its config, and the episodes from which a resumed run continues (else None) -> `Sink`.
    Raises:
      ConfigError: on a name with other characters, or of a sink that runs have already.
    """
    if not name.replace("_", "").replace("-", "").isalnum():
        raise ConfigError(f"sink {name}: use letters, digits, - and _ only")
    if name in (TENSORBOARD, WANDB):
        raise ConfigError(f"sink {name}: runs have one of that name; choose another")
    _OWN[name] = make


class JsonLines:
    """Writes metrics.jsonl: a line per row, flushed at once."""

    def __init__(self, folder: runfolder.RunFolder):
        self._folder = folder

    def evaluation(self, rows: Sequence[Row]) -> None:
        self._folder.write_rows(list(rows))

    def close(self) -> None:
        self._folder.close()


class Curves:
    """Draws curves.png as often as keeps drawing under about 2 % of the run, and at the end."""

    def __init__(self, path: Path, title: str, share: float = 0.02, earlier: Sequence[Row] = ()):
        self._path, self._title, self._share = path, title, share
        self._rows = list(earlier)  # of the run before it was resumed
        self._stale = bool(earlier)  # a killed run may not have drawn its last rows
        self._next = 0.0

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Keeps the rows, and draws when it is time."""
        self._rows.extend(runfolder.plain(list(rows)))
        self._stale = True
        if time.monotonic() >= self._next:
            self._draw()

    def _draw(self) -> None:
        start = time.monotonic()
        files.write(self._path, curves.png(self._rows, self._title))
        end = time.monotonic()
        self._next, self._stale = end + (end - start) / self._share, False

    def close(self) -> None:
        """Draws the rows that are not drawn yet."""
        if self._stale:
            self._draw()


class Optional:
    """Wraps a sink that a run can do without: when it fails, the user is told once and the run continues without it."""

    def __init__(self, name: str, sink: Sink, note: Callable[[str], None]):
        self._name, self._note = name, note
        self._sink: Sink | None = sink

    def evaluation(self, rows: Sequence[Row]) -> None:
        self._try(lambda sink: sink.evaluation(runfolder.plain(list(rows))))

    def close(self) -> None:
        self._try(lambda sink: sink.close())

    def _try(self, action: Callable[[Sink], None]) -> None:
        if self._sink is None:
            return
        try:
            action(self._sink)
        except Exception as error:  # whatever another package may raise: the run is worth more
            self._sink = None
            self._note(f"{self._name}: {say_error(error)}; the run continues without it")


def say_error(error: Exception) -> str:
    """Returns an exception in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def scalars(rows: Sequence[Row]) -> list[tuple[int, dict[str, float]]]:
    """Returns (episodes, {tag: value}) of each row, finite numbers only; several seeds as seed0/..., seed1/..."""
    result = []
    for row in runfolder.plain(list(rows)):
        prefix = f"seed{row['seed']}/" if "seed" in row else ""
        numbers = {k: v for k, v in row.items() if k not in COUNTERS and isinstance(v, (int, float))}
        result.append((row["episodes"], {prefix + k: v for k, v in numbers.items() if math.isfinite(v)}))
    return result


class Report:
    """Writes report.html at the end of the run."""

    def __init__(self, folder: Path):
        self._folder = folder

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Does nothing: the page is made of metrics.jsonl, at the end."""

    def close(self) -> None:
        """Writes the page, unless there is nothing to show."""
        rows = runfolder.read_rows(self._folder)
        if rows:
            files.write(self._folder / page.REPORT, page.build(self._folder, rows).encode())


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Hides PyTorch, where it is installed and not yet imported: tensorboardX would import it, for nothing used here.

    That takes seconds, and its MKL ends the process when the current folder is gone.
    """
    hidden = "torch" not in sys.modules
    if hidden:
        sys.modules["torch"] = None  # type: ignore[assignment]  # an import raises ImportError, as if there were none
    try:
        yield
    finally:
        if hidden:
            del sys.modules["torch"]


class TensorBoard:
    """Writes scalars against training episodes; several seeds as seed0/..., seed1/...

    They are written at once: tensorboardX's own writer hands them to a thread, which a full disk ends, and to a queue,
    which then waits for ever.

    Args:
      after: the episodes from which the run continues; later rows are hidden.
    """

    def __init__(self, folder: Path, after: int | None = None):
        with _without_torch():
            from tensorboardX import summary
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event, SessionLog

        folder.mkdir(exist_ok=True)
        self._file = EventsWriter(str(folder.resolve() / "events"))  # "s3:" at its beginning would be a protocol
        self._event = lambda episodes, tag, value: Event(
            step=episodes, wall_time=time.time(), summary=summary.scalar(tag, value)
        )
        if after is not None:
            start = SessionLog(status=SessionLog.START)
            self._file.write_event(Event(step=after + 1, wall_time=time.time(), session_log=start))

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Writes every finite number of the rows."""
        for episodes, numbers in scalars(rows):
            for tag, value in numbers.items():
                self._file.write_event(self._event(episodes, tag, value))
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class WandB:
    """Logs the same scalars and the whole config to Weights & Biases.

    A resumed run continues the run of the same id there, which the folder remembers by the names of wandb's files. The
    evaluations that it logged after its last checkpoint come again, and are logged once.
    """

    def __init__(self, folder: Path, config: TrainConfig, project: str):
        import wandb

        names = sorted(path.name for path in (folder / WANDB).glob("*run-*-*"))
        earlier = [found[1] for name in names if (found := re.fullmatch(r"(?:offline-)?run-\d+_\d+-(.+)", name))]
        self._run = wandb.init(
            project=project,
            name=folder.resolve().name,
            dir=str(folder),
            id=earlier[-1] if earlier else None,
            resume="allow" if earlier else None,
            config=configs.to_dict(config),
            settings=wandb.Settings(console="off", silent=True),
        )
        held = self._run.summary.get("episodes") if earlier else None  # what the server has; nothing offline
        self._held = held if isinstance(held, (int, float)) else -1
        self._run.define_metric("episodes")
        self._run.define_metric("*", step_metric="episodes")

    def evaluation(self, rows: Sequence[Row]) -> None:
        """Logs one evaluation, all seeds in one step."""
        found = scalars(rows)
        if found[0][0] <= self._held:
            return
        together = {tag: value for _, numbers in found for tag, value in numbers.items()}
        self._run.log({"episodes": found[0][0], **together})

    def close(self) -> None:
        self._run.finish()


def log_video(path: Path, episodes: int) -> None:
    """Logs a video of the run to Weights & Biases, where its sink has begun."""
    import wandb

    if wandb.run is not None:
        wandb.run.log({"episodes": episodes, "video": wandb.Video(str(path), format="mp4")})


def check_wandb(project: str | None) -> None:
    """Refuses --wandb, before anything is written, where it cannot work.

    Args:
      project: the value of --wandb; None when it was not given.
    Raises:
      ConfigError: when wandb is not installed, or cannot take a project of that name.
    """
    if project is None:
        return
    check_installed("--wandb", "wandb", "wandb", otherwise=", or leave the option out")
    if not re.fullmatch(r"[^/\\#?%:]{1,128}", project):
        raise ConfigError(f"--wandb {project}: a project's name has up to 128 characters, and none of / \\ # ? % :")


def makers(folder: Path, config: TrainConfig, after: int | None, project: str | None) -> dict[str, Callable[[], Sink]]:
    """Names the optional sinks that this machine has, registered ones among them, each with what makes it.

    Args:
      after: see `TensorBoard`.
      project: a Weights & Biases project, or None for none.
    """
    found: dict[str, Callable[[], Sink]] = {}
    if importlib.util.find_spec("tensorboardX") is not None:
        found[TENSORBOARD] = lambda: TensorBoard(folder / TENSORBOARD, after)
    if page.available():
        found[page.REPORT] = lambda: Report(folder)
    if project is not None:
        found[WANDB] = lambda: WandB(folder, config, project)
    own = {name: functools.partial(make, folder, config, after) for name, make in _OWN.items()}
    return {**found, **own}


def optional(
    folder: Path, config: TrainConfig, note: Callable[[str], None], after: int | None = None, project: str | None = None
) -> list[Sink]:
    """Makes the sinks that a run can do without; `note` shows the user a line about one that cannot begin."""
    sinks: list[Sink] = []
    for name, make in makers(folder, config, after, project).items():
        try:
            sinks.append(Optional(name, make(), note))
        except Exception as error:
            note(f"{name}: {say_error(error)}; the run continues without it")
    return sinks
