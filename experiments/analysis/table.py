"""Build the tidy table of an experiment, one row per condition, seed and evaluation, from the cells' folders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from curious_jax.errors import ConfigError, check_installed
from curious_jax.run import files
from curious_jax.run.rows import FRESH, RENAMED
from experiments.engine import evaluations
from experiments.engine.cells import CellState
from experiments.engine.plan import Planned

try:
    import pandas as pd
except ImportError:  # said by `require`, in one line
    pd: Any = None  # type: ignore[no-redef]

Table = Any  # a pandas.DataFrame
KEPT = (
    "eval/",
    "competence/",
    "predicted/",
    "learning_progress/",
    "p_module/",
    "invalid_episodes",
)  # of a run's metrics
COUNTERS = ("episodes", "env_steps", "updates")
STATUS = "status"  # done, diverged, damaged, failed, unfinished or missing: the state of the row's cell
REASON = "reason"  # why a cell failed; a column only where one did
TARGET = "target"  # mean success at which the run ends; a column only where one has a target
TIME = "wall_s"  # the one column that differs between two runs of the same command
DONE, DIVERGED = "done", "diverged"
ENDED = (DONE, DIVERGED)  # the states in which a seed will have no further evaluation
DIGITS = "%.6g"  # of every number in a table
SUCCESS = "eval/success"
APART = " asked for"  # ends the column of a label whose own name is another column's: episodes in a sweep over them
PACKED = "metrics.csv.gz"  # a whole table, compressed, which --report-only reads where there are no cells


def require() -> None:
    """Refuse to begin without pandas. Raises ConfigError, saying how to install it."""
    check_installed("experiments", "experiments", "pandas")
    if pd is None:
        raise ConfigError("experiments: pandas cannot be imported; install it again")


class Seeds(NamedTuple):
    """The numbers of seeds of one or more conditions."""

    asked: int
    ended: int  # done or diverged
    diverged: int

    @property
    def pending(self) -> int:
        """The number of seeds that are missing, unfinished, failed or damaged."""
        return self.asked - self.ended


def status(planned: Planned) -> tuple[str, str]:
    """Name a cell's state in one word, and why it is not done.

    One seed that diverges ends its whole group, and which one did is not known here: they count as unfinished.
    """
    if planned.state is CellState.DIVERGED and planned.cell.count > 1:
        return CellState.STARTED.value, "a seed of its group diverged; --retry-diverged runs them one by one"
    unfinished = planned.state in (CellState.MISSING, CellState.STARTED)
    return "failed" if unfinished and planned.found.reason else planned.state.value, planned.found.reason


def build(planned: Sequence[Planned], seeds: Iterable[int]) -> Table:
    """Build the table. A seed without any evaluation has one row with labels, seed and status alone."""
    wanted, rows = set(seeds), []
    for one in planned:
        state, reason = status(one)
        target = one.cell.condition.config(one.cell.first, one.cell.count).target_success
        more = {REASON: reason or None, TARGET: target}
        for seed in sorted(wanted.intersection(one.seeds)):
            head = {**columns(one.cell.condition.labels), "seed": seed, STATUS: state}
            head |= {name: value for name, value in more.items() if value is not None}
            own = evaluations.take(one.cell, one.found.config, one.found.rows, seed, one.state is CellState.DIVERGED)
            rows += [{**head, **row} for row in own] or [head]
    table = pd.DataFrame(rows)
    table = table.astype({name: "Int64" for name in COUNTERS if name in table})  # whole, where some seeds lack them
    labels = list(dict.fromkeys(key for one in planned for key in columns(one.cell.condition.labels)))
    first = [*labels, "seed", STATUS, REASON, TARGET, *COUNTERS]
    kept = [name for name in table if name.startswith(KEPT)]
    return _as_written(table[[name for name in (*first, *kept, TIME) if name in table]])


def columns(labels: Mapping[str, Any]) -> dict[str, Any]:
    """Name the column of each label; one that has the name of a column of every table stands apart."""
    return {name + APART if name in (*COUNTERS, TIME) else name: value for name, value in labels.items()}


def _as_written(table: Table) -> Table:
    """Round to the digits that `write` keeps, so that a table says the same before it is written and after.

    A competence of 27 of 30 is 0.8999999762 in float32, and 0.9 here.
    """
    rounded = {name: table[name].map(lambda value: float(DIGITS % value)) for name in table.select_dtypes("float")}
    return table.assign(**rounded)


def write(table: Table, path: Path) -> None:
    """Write the table as CSV, whole or not at all; compressed when the name ends in .gz."""
    packing = {"method": "gzip", "mtime": 0} if path.suffix == ".gz" else None  # the same bytes every time
    with files.atomic_write(path) as scratch:
        table.to_csv(scratch, index=False, float_format=DIGITS, lineterminator="\n", compression=packing)


def read(path: Path) -> Table:
    """Read a table that `write` wrote."""
    return pd.read_csv(path).rename(columns=RENAMED)


def select_rows(table: Table, labels: Mapping[str, Any]) -> Table:
    """Select the rows with these labels, evaluations or not."""
    for name, value in columns(labels).items():
        if value is None:
            table = table[table[name].isna()]
        else:
            table = table[table[name] == (float(DIGITS % value) if isinstance(value, float) else value)]
    return table


def select(table: Table, **labels: Any) -> Table:
    """Select the rows with these labels that hold an evaluation."""
    rows = select_rows(table[table["episodes"].notna()] if "episodes" in table else table.iloc[:0], labels)
    return rows.astype({"episodes": int}) if "episodes" in rows else rows


def select_finished(table: Table) -> Table:
    """Select the rows of seeds that were trained to their end."""
    return table[table[STATUS] == DONE]


def select_ended(table: Table) -> Table:
    """Select the rows of seeds that were trained to their end or diverged."""
    return table[table[STATUS].isin(ENDED)]


def count(table: Table, labels: Mapping[str, Any] | None = None) -> Seeds:
    """Count the seeds of one condition, or of all, each once per condition."""
    own = select_rows(table, labels or {})
    own = own.drop_duplicates([*own.columns[: list(own.columns).index("seed")], "seed"])
    return Seeds(len(own), len(select_ended(own)), int((own[STATUS] == DIVERGED).sum()))


def curves(table: Table, key: str) -> Table:
    """Return one metric's curves: a column per seed, a row per number of training episodes."""
    if key not in table:
        return pd.DataFrame()
    return table.pivot(index="episodes", columns="seed", values=key).dropna(how="all")


def per_seed(
    table: Table, labels: Mapping[str, Any], measure: Callable[..., float], key: str = SUCCESS, diverged: bool = False
) -> dict[int, float]:
    """Compute {seed: measure(episodes, values)} over the finished seeds of a condition that have this metric.

    Args:
      diverged: the seeds that diverged count too, with what they have until then, which may be nothing.
    """
    found = curves((select_ended if diverged else select_finished)(select(table, **labels)), key)
    own = {int(seed): found[seed].dropna() for seed in found}
    own = {seed: curve for seed, curve in own.items() if len(curve)}
    made = {seed: measure(curve.index.to_numpy(), curve.to_numpy()) for seed, curve in own.items()}
    others = _diverged_without(table, labels, made) if diverged else []
    return made | {seed: measure(np.empty(0), np.empty(0)) for seed in others}


def in_a_row(
    table: Table, labels: Mapping[str, Any], key: str, fresh: str, diverged: bool = False
) -> dict[int, tuple[Any, Any]]:
    """Return {seed: (episodes, values)} of a metric over the finished seeds of a condition that have it.

    Args:
      fresh: the same metric on the fresh episodes that follow an evaluation at the target: it stands behind that one.
      diverged: the seeds that diverged count too, with what they have until then, which may be nothing.
    """
    rows, names = (select_ended if diverged else select_finished)(select(table, **labels)), ["seed", "episodes", key]
    parts = [rows[names].assign(again=False)]
    if fresh in rows:
        parts.append(rows[["seed", "episodes", fresh]].set_axis(names, axis=1).assign(again=True))
    both = pd.concat(parts).dropna().sort_values(["seed", "episodes", "again"])
    made = {int(seed): (own["episodes"].to_numpy(), own[key].to_numpy()) for seed, own in both.groupby("seed")}
    others = _diverged_without(table, labels, made) if diverged else []
    return made | {seed: (np.empty(0), np.empty(0)) for seed in others}


def _diverged_without(table: Table, labels: Mapping[str, Any], known: Iterable[int]) -> list[int]:
    """List the seeds of a condition that diverged and have no value yet."""
    own = select_rows(table, labels)
    return sorted({int(seed) for seed in own[own[STATUS] == DIVERGED]["seed"]} - set(known))


def ends_at_target(table: Table) -> bool:
    """Tell whether seeds were trained until a target was met, so that each curve has a length of its own.

    Where one seed of a table met it, the others were trained so too.
    """
    return FRESH in table or TARGET in table


def modules(table: Table, achievable: bool = False) -> list[str]:
    """Name the modules that the table knows, or those that are evaluated."""
    prefix = SUCCESS + "/" if achievable else "p_module/"
    return [name.removeprefix(prefix) for name in table if name.startswith(prefix) and table[name].notna().any()]
