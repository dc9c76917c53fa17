"""Measures a GPU in one visit of nine minutes, the figures that tell most first, so that a cut visit still tells them.

    python -m experiments.checks.gpu_visit OUT
    python -m experiments.checks.gpu_visit OUT --limit 540 --seeds 0,1,2 --settings="--num-envs 1024"

In this order: does warp physics agree with C MuJoCo; updates a second, with TF32 and with command buffers and without;
physics steps a second by number of worlds; four modules to a mean success of 0.9 with the preset gpu; ten seeds beside
one; the four modules with wide; more seeds; where a cycle's time goes. Each part is a process of its own with a log,
OUT/NAME.log, and gets what is left of the time. OUT/gpu.json and OUT/gpu.md are written again after each part: what was
measured, beside what was aimed at and the floors that `benchmark --compile-for` counts. Exit status 1 if a part failed,
or no part was measured.
"""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from curious_jax.cli import markdown, program
from curious_jax.cli.parser import OneLineParser, whole_numbers
from curious_jax.errors import ConfigError
from curious_jax.measure import warp_launches

LEAST = 10.0  # seconds that a part needs to be worth a start
TF32 = {"on": "tensorfloat32", "off": "float32"}
# Which commands XLA records into CUDA graphs, over what it does by itself: none, and whole loops too.
BUFFERS = {"as XLA chooses": None, "off": "", "loops too": "+WHILE,+CONDITIONAL"}
VARIANTS = (("on", "as XLA chooses"), ("off", "as XLA chooses"), ("on", "off"), ("on", "loops too"))
# What --compile-for knows, and the name of that very card: a PCIe or NVL one has another bandwidth.
TARGETS = {"h100": r"H100 80GB HBM3\b", "h200": r"\bH200\b(?! NVL)", "a100": r"A100-SXM4-80GB\b"}
FLOORS = ("updates", "warp")  # programs of --compile-for


@dataclasses.dataclass(frozen=True)
class Part:
    """One measurement: a command that leaves a file in OUT."""

    name: str
    seconds: float  # at most
    command: tuple[str, ...]  # of Python, behind -m
    env: dict[str, str] = dataclasses.field(default_factory=dict)
    leaves: Path | None = None  # with this file a part that ran out of time is no failure
    needed: bool = True  # the visit has failed if it has


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of what a visit measures; the default is for a GPU, a rehearsal takes less."""

    physics: str = "warp"
    parity_worlds: int = 64
    worlds: tuple[int, ...] = (2048, 4096, 8192, 16_384, 32_768)
    batch_size: int = 4096
    many_seeds: int = 10
    seeds: tuple[int, ...] = (0, 1, 2)
    seconds: float = 2.0  # that each speed is measured for
    train_seconds: float = 180.0
    patience: float = 1.0  # how many times its limit a part may take, for slower machines than a GPU
    settings: tuple[str, ...] = ()  # options of train, for all parts but parity


def plan(out: Path, sizes: Sizes, device: str = "") -> list[Part]:
    """Lists the parts in their order; floors are counted for a device that --compile-for knows."""
    common = ("--physics", sizes.physics, *sizes.settings)
    bench = ("curious_jax.benchmark", "--seconds", str(sizes.seconds), "--preset", "gpu", *common)

    def suite(name: str, seconds: float, rows: str, env: dict[str, str] | None = None) -> Part:
        return Part(
            name, seconds, (*bench, "--suite", str(out / name), "--rows", rows), env or {}, out / name / "suite.json"
        )

    def training(preset: str, seed: int) -> Part:
        arguments = ("--preset", preset, "--target-success", "0.9", "--seed", str(seed))
        folder = out / f"train-{preset}-{seed}"
        command = ("curious_jax.train", *arguments, *common, "--out", str(folder))
        return Part(folder.name, sizes.train_seconds, command, leaves=folder / "summary.json")

    def update(tf32: str, buffers: str, seconds: float) -> Part:
        env = {"JAX_DEFAULT_MATMUL_PRECISION": TF32[tf32]}
        if (kinds := BUFFERS[buffers]) is not None:
            given = os.environ.get("XLA_FLAGS", "")
            env["XLA_FLAGS"] = f"{given} --xla_gpu_enable_command_buffer={kinds}".strip()
        return suite(_name(tf32, buffers), seconds, f"updates={sizes.batch_size}", env)

    worlds = ",".join(str(number) for number in sizes.worlds)
    parity = ("experiments.checks.parity", "--physics", sizes.physics, "--worlds", str(sizes.parity_worlds))
    first, *more = sizes.seeds
    known = [name for name, card in TARGETS.items() if re.search(card, device)][:1]
    floor = ("curious_jax.benchmark", "--json", "--compile-for")
    parts = [
        # On a new machine Warp's kernels are built in it, which takes minutes.
        Part("parity", 240, (*parity, "--out", str(out / "parity.json"))),
        *(update(*variant, seconds) for variant, seconds in zip(VARIANTS, (75, 40, 40, 40), strict=True)),
        suite("physics", 120, f"rollouts={worlds}"),
        training("gpu", first),
        suite("seeds", 90, f"cycles=1,{sizes.many_seeds}"),
        training("wide", first),
        *(training(preset, seed) for seed in more for preset in ("gpu", "wide")),
        *(
            Part(f"floors-{kind}", 60, (*floor, target, "--programs", kind), needed=False)
            for target in known
            for kind in FLOORS
        ),
        Part("profile", 150, (*bench, "--profile", str(out / "profile"))),
    ]
    return [dataclasses.replace(part, seconds=sizes.patience * part.seconds) for part in parts]


def visit(
    out: Path, parts: Sequence[Part], limit: float, report: Callable[[list[dict[str, Any]]], None]
) -> list[dict[str, Any]]:
    """Runs the parts one after another within `limit` seconds; returns how each went.

    Args:
      report: gets what is known after each part.
    """
    start, went = time.monotonic(), []
    for part in parts:
        left = min(part.seconds, limit - (time.monotonic() - start))
        went.append({"part": part.name, "status": "no time left", "seconds": 0.0, "needed": part.needed})
        if left >= LEAST:
            before = time.monotonic()
            status = run(part, out / f"{part.name}.log", left)
            went[-1] |= {"status": status, "seconds": round(time.monotonic() - before, 1)}
        print(f"{part.name}: {went[-1]['status']} after {went[-1]['seconds']:.0f} s", flush=True)
        report(went)
    return went


def run(part: Part, log: Path, seconds: float) -> str:
    """Runs one part: done, cut (its time was up, and it left something) or failed."""
    env = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | part.env  # Warp needs memory, too
    if _device():  # else a JAX without CUDA would measure the CPU in its place
        env.setdefault("JAX_PLATFORMS", "cuda,cpu")
    with log.open("w") as file:
        child = subprocess.Popen([sys.executable, "-m", *part.command], stdout=file, stderr=subprocess.STDOUT, env=env)
        try:
            status = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.terminate()  # a training saves, and says what it reached
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            left = part.leaves is not None and part.leaves.exists()
            return "cut" if left else f"failed: its time was up, see {log.name}"
    return "done" if status == 0 else f"failed: exit status {status}, see {log.name}"


def gather(out: Path, went: list[dict[str, Any]]) -> dict[str, Any]:
    """Reads what the parts left: plain data."""
    parity = _read(out / "parity.json")
    updates = [
        {"tf32": tf32, "command_buffers": buffers} | row
        for tf32, buffers in VARIANTS
        for row in _read(out / _name(tf32, buffers) / "suite.json").get("updates", [])
    ]
    physics, seeds = _read(out / "physics" / "suite.json"), _read(out / "seeds" / "suite.json")
    trained = [
        {"preset": folder.name.split("-")[1], **_read(folder / "summary.json")}
        for folder in sorted(out.glob("train-*/"))
    ]
    result = {
        "device": next((part["device"] for part in (physics, seeds) if "device" in part), None),
        "jax": next((part["jax"] for part in (physics, seeds) if "jax" in part), None),
        "parts": went,
        "parity": parity,
        "updates": updates,
        "physics": physics.get("rollouts", []),
        "training": [run for run in trained if "status" in run],
        "seeds": seeds.get("cycles", []),
        "floors": {kind: _read(out / f"floors-{kind}.log") for kind in FLOORS},
    }
    return result | {"goals": goals(result)}


def goals(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Sets what was measured beside what is aimed at on an H100 or H200; None where it was not measured."""
    speed = {row["num_envs"]: row.get("physics_steps_per_s") for row in result["physics"]}
    updates = [row["updates_per_s"] for row in result["updates"] if "updates_per_s" in row]
    each = [run["reached"] for run in result["training"] if run.get("reached")]  # with several seeds a list of them
    reached = [one["train_s"] for held in each for one in (held if isinstance(held, list) else [held]) if one]
    cycles = [row["cycle_s"] for row in result["seeds"] if "cycle_s" in row]
    found = [
        ("physics steps/s with 4,096 worlds, at least", 3e6, speed.get(4096)),
        ("physics steps/s with 16,384 worlds, at least", 8e6, speed.get(16_384)),
        ("updates/s, the fastest way, at least", 5000, max(updates, default=None)),
        ("seconds of training to 0.9, the fastest run, at most", 120, min(reached, default=None)),
        ("cycle of ten seeds, in cycles of one, at most", 5, cycles[1] / cycles[0] if len(cycles) == 2 else None),
    ]
    return [{"goal": text, "wanted": wanted, "measured": measured} for text, wanted, measured in found]


def table(result: dict[str, Any]) -> str:
    """Writes the figures as Markdown."""
    lines = [f"# {result['gpu'] or result['device'] or 'A GPU visit'}", ""]
    lines.append(_rows(("goal", "wanted", "measured"), result["goals"]))
    if result["parity"]:
        lines += ["", f"Warp physics and C MuJoCo agree: {'yes' if result['parity']['agrees'] else 'NO'}."]
    for title, key, columns in (
        ("Updates", "updates", ("tf32", "command_buffers", "batch_size", "updates_per_s", "tflop_per_s", "compile_s")),
        ("Physics", "physics", ("num_envs", "physics_steps_per_s", "control_step_ms", "compile_s")),
        ("Seeds at once", "seeds", ("num_seeds", "cycle_s", "train_env_steps_per_s", "updates_per_s", "compile_s")),
    ):
        if result[key]:
            lines += ["", f"## {title}", "", _rows((*columns, "error"), result[key])]
    if result["training"]:
        names = ("preset", "seed", "status", "episodes", "mean_success", "train_s", "compile_s", "wall_s")
        lines += ["", "## Training to 0.9", "", _rows(names, result["training"])]
    update = result["floors"]["updates"].get("programs", {}).get("updates", {}).get("update")
    if update:
        floor = {name.removesuffix("_floor_s"): s for name, s in update.items() if name.endswith("_floor_s")}
        shown = ", ".join(f"{1e6 * s:.0f} µs by its {name} floor" for name, s in floor.items() if s is not None)
        lines += ["", f"By --compile-for an update is {update['launches']:.0f} launches: {shown}."]
    if result["floors"]["warp"]:
        lines += ["", warp_launches.text(result["floors"]["warp"]) + "."]
    lines += ["", "## Parts", "", _rows(("part", "status", "seconds"), result["parts"])]
    return "\n".join(lines) + "\n"


def _rows(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    columns = [c for c in columns if c != "error" or any("error" in row for row in rows)]
    return markdown.table(columns, ([_cell(row.get(c)) for c in columns] for row in rows))


def _cell(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _name(tf32: str, buffers: str) -> str:
    return f"updates-tf32-{tf32}-buffers-{buffers.replace(' ', '-')}"


def _read(path: Path) -> dict[str, Any]:
    """Reads the object that a part left in a file, or on the last line of its log; {} if none is whole."""
    try:
        text = path.read_text()
        found = json.loads(text if path.suffix == ".json" else text.splitlines()[-1])
    except (OSError, ValueError, IndexError):
        return {}
    return found if isinstance(found, dict) else {}


def _device() -> str:
    """Names the NVIDIA GPU that is here, as its driver does; '' without one."""
    try:
        told = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


@program.entry
def main(argv: Sequence[str] | None) -> int:
    """Run the program; returns its exit status."""
    normal = Sizes()
    parser = OneLineParser(prog="python -m experiments.checks.gpu_visit", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("out", type=Path, metavar="OUT", help="a folder for logs and figures")
    add("--limit", type=float, default=540.0, metavar="S", help="seconds for all of it [default: 540]")
    add("--train-seconds", type=float, default=normal.train_seconds, metavar="S", help="for a training [default: 180]")
    add(
        "--patience", type=float, default=1.0, metavar="X", help="how many times its limit a part may take [default: 1]"
    )
    add("--seconds", type=float, default=normal.seconds, metavar="S", help="that each speed is measured [default: 2]")
    add("--physics", default=normal.physics, metavar="NAME", help="backend that is measured [default: warp]")
    add("--parity-worlds", type=int, default=normal.parity_worlds, metavar="N", help="beside C MuJoCo [default: 64]")
    add("--worlds", default="2048,4096,8192,16384,32768", metavar="N,N", help="of the physics rows [default: 2048,...]")
    add("--batch-size", type=int, default=normal.batch_size, metavar="N", help="of the updates [default: 4096]")
    add("--many-seeds", type=int, default=normal.many_seeds, metavar="N", help="beside one [default: 10]")
    add("--seeds", default="0,1,2", metavar="N,N", help="that are trained, first one each [default: 0,1,2]")
    add("--settings", default="", metavar="TEXT", help='options of train, as in --settings="--num-envs 1024"')
    given = parser.parse_args(argv)
    device = _device()
    sizes = Sizes(
        given.physics,
        given.parity_worlds,
        whole_numbers("--worlds", given.worlds, "2048,4096"),
        given.batch_size,
        given.many_seeds,
        whole_numbers("--seeds", given.seeds, "0,1,2"),
        given.seconds,
        given.train_seconds,
        given.patience,
        tuple(shlex.split(given.settings)),
    )
    if (given.out / "gpu.json").exists():
        raise ConfigError(f"{given.out}: holds an earlier visit; give a new folder")
    given.out.mkdir(parents=True, exist_ok=True)
    print(device or "no NVIDIA GPU: a rehearsal", flush=True)

    def report(went: list[dict[str, Any]]) -> None:
        result = {"gpu": device, **gather(given.out, went)}
        (given.out / "gpu.json").write_text(json.dumps(result, indent=2) + "\n")
        (given.out / "gpu.md").write_text(table(result))

    went = visit(given.out, plan(given.out, sizes, device), given.limit, report)
    print((given.out / "gpu.md").read_text())
    failed = any(part["needed"] and part["status"].startswith("failed") for part in went)
    measured = any(part["status"] in ("done", "cut") for part in went)
    return program.DONE if measured and not failed else program.FAILED


if __name__ == "__main__":
    sys.exit(main())
