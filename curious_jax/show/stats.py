"""Computes what curves and reports show: series over episodes, and intervals. Needs NumPy and SciPy alone."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curious_jax.run.rows import FRESH

Row = dict[str, Any]
CONFIDENCE = 0.95


def printable(text: str) -> str:
    """Returns a text without control characters: an escape sequence in a name must not reach the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def module_names(rows: Sequence[Row]) -> list[str]:
    """Returns the modules of metrics rows, in their order."""
    return [key.removeprefix("p_module/") for key in (rows[0] if rows else {}) if key.startswith("p_module/")]


def series(rows: Sequence[Row], key: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns (episodes [P], values [P, S]) of one key; NaN where a seed has no value there."""
    seeds = sorted({row.get("seed", 0) for row in rows})
    episodes = sorted({row["episodes"] for row in rows})
    values = np.full((len(episodes), len(seeds)), np.nan)
    place = {number: index for index, number in enumerate(episodes)}
    for row in rows:
        value = row.get(key)
        if value is not None:
            values[place[row["episodes"]], seeds.index(row.get("seed", 0))] = value
    return np.array(episodes), values


def mean_success(row: Row) -> float:
    """Returns the mean success of a row: on fresh episodes, where a target was tried again, else of the evaluation."""
    return float(row[FRESH if FRESH in row else "eval/success"])


def success(row: Row, name: str) -> tuple[float, int] | None:
    """Returns (rate, episodes) of a module, as mean_success; None for a module that is not evaluated.

    An evaluation that met the target is one that chance favoured; the fresh episodes, of which there are more, are not.
    """
    for kind, number in ((FRESH, f"{FRESH}_n"), ("eval/success", "eval/n")):
        rate, n = row.get(f"{kind}/{name}"), row.get(f"{number}/{name}")
        if isinstance(rate, (int, float)) and isinstance(n, (int, float)) and 1 <= n < 2**53:
            return min(max(float(rate), 0.0), 1.0), int(n)
    return None


@functools.cache  # a long run's curves ask for the same few thousands of times
def wilson(successes: int, episodes: int) -> tuple[float, float]:
    """Returns the 95 % Wilson interval of a success rate."""
    from scipy import stats  # a second to import, which --help need not wait for

    interval = stats.binomtest(successes, episodes).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return float(interval.low), float(interval.high)


def rate_over_seeds(rates: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the mean of success rates, the seed being the unit (Student's t), within [0, 1]."""
    from scipy import stats

    mean, error = float(np.mean(rates)), float(stats.sem(rates))
    reach = error * float(stats.t.ppf((1 + CONFIDENCE) / 2, len(rates) - 1))
    return max(mean - reach, 0.0), min(mean + reach, 1.0)
