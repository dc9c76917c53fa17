"""Checks whether a run slows down or takes more memory as it gets longer.

    python -m experiments.checks.steadiness runs/some-long-run
    python -m experiments.checks.steadiness runs/new --early 10000 --late 100000 -- --modules reach,push --seed 1

With options for curious_jax.train behind --, trains into RUN first and notes the process's memory (Linux) every ten
seconds in RUN/memory.jsonl. Reads the run's metrics.jsonl and, where it is there, memory.jsonl. A cycle's time at a
number of episodes is the median over the evaluations within a tenth of it. The run is steady when its late cycles take
at most a tenth longer than its early ones, and memory has grown by less than a hundredth since the store was full (or
since the early point, if that comes later). Exit status 1 if not.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from curious_jax.cli import program
from curious_jax.cli.parser import OneLineParser, at_dashes
from curious_jax.errors import ConfigError

SLOWER, GROWN = 1.10, 1.01


def train(run: Path, options: Sequence[str], every: float = 10.0) -> int:
    """Trains into RUN as a process of its own, noting what memory it holds; returns its exit status."""
    child = subprocess.Popen([sys.executable, "-m", "curious_jax.train", *options, "--out", str(run)])
    while child.poll() is None:
        time.sleep(every)
        rows, held = read(run / "metrics.jsonl"), resident(child.pid)
        if rows and held:
            with (run / "memory.jsonl").open("a") as file:
                file.write(json.dumps({"episodes": rows[-1]["episodes"], "bytes": held}) + "\n")
    return child.returncode


def resident(pid: int) -> int | None:
    """Bytes of memory that a process holds; None when nothing tells."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), None)
    except OSError:
        return None


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a .jsonl file, a last one that is not whole left out; none when there is no file."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def judge(
    rows: Sequence[dict[str, Any]], memory: Sequence[dict[str, Any]], config: dict[str, Any], early: int, late: int
) -> dict[str, Any]:
    """The figures of a run.

    Args:
      rows, memory: metrics.jsonl's and memory.jsonl's.
      config: config.json's.
      early, late: training episodes.
    Raises:
      ValueError: when the run has no evaluation near one of them.
    """
    schedule = config["schedule"]
    steps = rows[-1]["env_steps"] // rows[-1]["episodes"]

    def near(episodes: int, rows: Sequence[dict[str, Any]] = rows) -> list[dict[str, Any]]:
        found = [row for row in rows if abs(row["episodes"] - episodes) <= episodes / 10]
        if not found:
            raise ValueError(f"no evaluation near {episodes:,} episodes; the run has {rows[-1]['episodes']:,}")
        return found

    def cycle_s(episodes: int) -> float:
        speed = statistics.median(row["perf/env_steps_per_s"] for row in near(episodes))
        return config["num_seeds"] * schedule["num_envs"] * steps / speed

    def held(episodes: int) -> float | None:
        return statistics.median(row["bytes"] for row in near(episodes, memory)) if memory else None

    first, last = cycle_s(early), cycle_s(late)
    full = max(early, min(late, schedule["capacity"]))
    memory_early, memory_late = held(full), held(late)
    result = {
        "early_episodes": early,
        "late_episodes": late,
        "early_cycle_s": first,
        "late_cycle_s": last,
        "late_over_early": last / first,
        "memory_full_store_bytes": memory_early,
        "memory_late_bytes": memory_late,
    }
    grown = memory_late / memory_early if memory_early and memory_late else None
    return result | {"steady": last / first <= SLOWER and (grown is None or grown <= GROWN)}


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    parser = OneLineParser(
        prog="python -m experiments.checks.steadiness",
        usage="python -m experiments.checks.steadiness RUN [--early N] [--late N] [-- options of curious_jax.train]",
        description=(__doc__ or "").split("\n")[0],
        epilog="With options behind --, a run of them is trained first, into RUN.",
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN", help="the folder of a run")
    add("--early", type=int, default=10_000, metavar="N", help="episodes where it is measured first [default: 10000]")
    add("--late", type=int, default=100_000, metavar="N", help="episodes where it is measured again [default: 100000]")
    own, options = at_dashes(argv)
    given = parser.parse_args(own)
    if options and (status := train(given.run, options)):
        return status
    try:
        config = json.loads((given.run / "config.json").read_text())
        rows, memory = read(given.run / "metrics.jsonl"), read(given.run / "memory.jsonl")
        result = judge(rows, memory, config, given.early, given.late)
    except OSError as error:
        raise ConfigError(f"{error.filename}: {error.strerror}; give the folder of a run") from None
    except KeyError as error:
        lacks = f"{given.run}: config.json or metrics.jsonl lacks {error}; give the folder of a run"
        raise ConfigError(lacks) from None
    except (ValueError, IndexError, TypeError) as error:
        raise ConfigError(f"{given.run}: {error}") from None
    print(json.dumps(result, indent=2))
    return 0 if result["steady"] else 1


if __name__ == "__main__":
    sys.exit(main())
