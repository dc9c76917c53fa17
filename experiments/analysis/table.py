"""Build the tidy table of an experiment, one row per condition, seed and evaluation, from the cells' folders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from curious_jax.errors import ConfigError
from curious_jax.run import files
from curious_jax.run.rows import FRESH, RENAMED
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
TIME = "wall_s"  # the one column that differs between two runs of the same command
DONE = "done"
DIGITS = "%.6g"  # of every number in a table
SUCCESS = "eval/success"
APART = " asked for"  # ends the column of a label whose own name is another column's: episodes in a sweep over them
PACKED = "metrics.csv.gz"  # a whole table, compressed, which --report-only reads where there are no cells


def require() -> None:
    """Refuse to begin without pandas. Raises ConfigError, saying how to install it."""
    if pd is None:
        raise ConfigError('experiments: need pandas; pip install "curious_jax[experiments]"')


def status(planned: Planned) -> str:
    """Name a cell's state in one word."""
    unfinished = planned.state in (CellState.MISSING, CellState.STARTED)
    return "failed" if unfinished and planned.found.reason else planned.state.value


def build(planned: Sequence[Planned], seeds: Iterable[int]) -> Table:
    """Build the table. A seed without any evaluation has one row with labels, seed and status alone."""
    wanted, rows = set(seeds), []
    for one in planned:
        for seed in sorted(wanted.intersection(one.cell.seeds)):
            head = {**_columns(one.cell.condition.labels), "seed": seed, STATUS: status(one)}
            if one.found.reason:
                head[REASON] = one.found.reason
            own = [row for row in one.found.rows if row.get("seed", one.cell.first) == seed]
            rows += [{**head, **row} for row in own] or [head]
    table = pd.DataFrame(rows)
    table = table.astype({name: "Int64" for name in COUNTERS if name in table})  # whole, where some seeds lack them
    labels = list(dict.fromkeys(key for one in planned for key in _columns(one.cell.condition.labels)))
    first = [*labels, "seed", STATUS, REASON, *COUNTERS]
    kept = [name for name in table if name.startswith(KEPT)]
    return _as_written(table[[name for name in (*first, *kept, TIME) if name in table]])


def _columns(labels: Mapping[str, Any]) -> dict[str, Any]:
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


def labelled(table: Table, labels: Mapping[str, Any]) -> Table:
    """Select the rows with these labels, evaluations or not."""
    for name, value in _columns(labels).items():
        if value is None:
            table = table[table[name].isna()]
        else:
            table = table[table[name] == (float(DIGITS % value) if isinstance(value, float) else value)]
    return table


def select(table: Table, **labels: Any) -> Table:
    """Select the rows with these labels that hold an evaluation."""
    rows = labelled(table[table["episodes"].notna()] if "episodes" in table else table.iloc[:0], labels)
    return rows.astype({"episodes": int}) if "episodes" in rows else rows


def finished(table: Table) -> Table:
    """Select the rows of seeds that were trained to their end, which are all that tests may look at."""
    return table[table[STATUS] == DONE]


def curves(table: Table, key: str) -> Table:
    """Return one metric's curves: a column per seed, a row per number of training episodes."""
    if key not in table:
        return pd.DataFrame()
    return table.pivot(index="episodes", columns="seed", values=key).dropna(how="all")


def per_seed(
    table: Table, labels: Mapping[str, Any], measure: Callable[..., float], key: str = SUCCESS
) -> dict[int, float]:
    """{seed: measure(episodes, values)} over the finished seeds of a condition that have this metric."""
    found = curves(finished(select(table, **labels)), key)
    own = {seed: found[seed].dropna() for seed in found}
    return {int(s): measure(curve.index.to_numpy(), curve.to_numpy()) for s, curve in own.items() if len(curve)}


def in_a_row(table: Table, labels: Mapping[str, Any], key: str, fresh: str) -> dict[int, tuple[Any, Any]]:
    """{seed: (episodes, values)} of a metric over the finished seeds of a condition that have it.

    Args:
      fresh: the same metric on the fresh episodes that follow an evaluation at the target: it stands behind that one.
    """
    rows, columns = finished(select(table, **labels)), ["seed", "episodes", key]
    parts = [rows[columns].assign(again=False)]
    if fresh in rows:
        parts.append(rows[["seed", "episodes", fresh]].set_axis(columns, axis=1).assign(again=True))
    both = pd.concat(parts).dropna().sort_values(["seed", "episodes", "again"])
    return {int(seed): (own["episodes"].to_numpy(), own[key].to_numpy()) for seed, own in both.groupby("seed")}


def ends_at_target(table: Table) -> bool:
    """Tell whether seeds were trained until a target was met, so that each curve has a length of its own.

    Where one seed of a table met it, the others were trained so too.
    """
    return FRESH in table


def modules(table: Table, achievable: bool = False) -> list[str]:
    """Name the modules that the table knows, or those that are evaluated."""
    prefix = SUCCESS + "/" if achievable else "p_module/"
    return [name.removeprefix(prefix) for name in table if name.startswith(prefix) and table[name].notna().any()]
