"""Golden runs: small whole runs whose metrics are committed, so that a change of one bit in any of them is noticed.

`python tests/helpers/golden.py` runs them all and rewrites tests/golden.json; `python tests/helpers/golden.py mgme`
runs those with that word in their name. Do that only when bits change on purpose: the figures of other machines are
dropped. `python tests/helpers/golden.py --add` keeps them and adds those of this kind, of a version known to be right.
"""

import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent.parent / "golden.json"

# Small enough for a few seconds each, with every part at work: distractors, self-evaluations, two evaluations.
_POINT = (
    *("--world", "point", "--modules", "reach,push", "--distractors", "1", "--preset", "cpu", "--num-envs", "8"),
    *("--episodes", "64", "--updates-per-cycle", "3", "--batch-size", "16", "--capacity", "48", "--window", "4"),
    *("--self-evaluation", "0.5", "--evaluation-interval", "32", "--evaluation-episodes", "8"),
    *("--hidden-size", "16", "--hidden-layers", "2", "--seed", "3"),
)
_FETCH = (
    *("--modules", "reach,push", "--physics", "c", "--sleep", "off", "--preset", "cpu"),
    *("--num-envs", "4", "--episodes", "16"),
    *("--updates-per-cycle", "2", "--batch-size", "16", "--capacity", "16", "--self-evaluation", "0.5"),
    *("--evaluation-interval", "8", "--evaluation-episodes", "4", "--hidden-size", "16", "--hidden-layers", "1"),
)
_ALGORITHMS = {
    "curious": (),
    "muvfa": ("--algorithm", "muvfa"),
    "her": ("--algorithm", "her"),
    "mgme": ("--algorithm", "mgme", "--expert-epoch", "16"),
    "td3": ("--learner", "td3"),
}
RUNS: dict[str, tuple[str, ...]] = {
    **{f"point-{name}": (*_POINT, *extra) for name, extra in _ALGORITHMS.items()},
    **{f"point-{name}-two-seeds": (*_POINT, *extra, "--num-seeds", "2") for name, extra in _ALGORITHMS.items()},
    # Long enough for learning progress, which is 0 in the short runs: without this one curious could be muvfa.
    "point-learning": (*_POINT, "--episodes", "1280", "--evaluation-interval", "320"),
    "fetch-curious": _FETCH,
}
# This run is made in two halves: to half its episodes, then resumed to the end. Its figures are those of the whole run.
RESUMED = ("point-curious", "32")


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a run's metrics.jsonl without what depends on the clock."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [
        {k: v for k, v in json.loads(line).items() if k != "wall_s" and not k.startswith("perf/")} for line in lines
    ]


def digest(figures: list[dict[str, Any]]) -> str:
    """Return a hash of these rows, every digit counted, without regard to the order of their keys."""
    return hashlib.sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest()[:16]


def machine() -> str:
    """Name what the last bits of a float depend on: the processor's kind and the version of jaxlib."""
    import jaxlib

    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        cpu = next((line.split(":")[1].strip() for line in info.read_text().splitlines() if "model name" in line), cpu)
    return f"{cpu}, jaxlib {jaxlib.__version__}"


def run(name: str, folder: Path, argv: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Train the named run in a folder and return its rows."""
    from curious_jax import train

    status = train.main([*RUNS[name], *argv, "--out", str(folder)])
    assert status == 0, f"{name} ended with status {status}"
    return rows(folder)


def main(word: str = "") -> None:
    """Run the golden runs whose name holds `word` and write their figures, beside other machines' for `--add` alone."""
    known = json.loads(FILE.read_text()) if word else {}
    word, others = ("", known) if word == "--add" else (word, {})
    with tempfile.TemporaryDirectory() as scratch:
        runs = {name: run(name, Path(scratch) / name) for name in RUNS if word in name}
    assert not word or machine() in known, "a part can only be repeated on a machine that made the rest"
    rest = known[machine()] if word else {}
    found = {**others, machine(): rest | {n: {"hash": digest(r), "rows": r} for n, r in runs.items()}}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {len(runs)} runs to {FILE}")


if __name__ == "__main__":
    sys.path.insert(0, str(FILE.parent.parent))
    main(*sys.argv[1:])
