"""Programs under odd conditions of their process: what each gives, never a traceback, and nothing is lost.

Each condition is a line for bash, in an empty folder of its own, with the programs as $train, $evaluate, $play and
$export, a finished run as $run and a new run's folder as $out. docs/conditions.md has the same table in words.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from curious_jax import train
from curious_jax.run import checkpoints, resume
from curious_jax.run import folder as runfolder

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Condition:
    """One line of the table."""

    name: str
    line: str  # for bash
    status: int = 0
    says: str = ""  # a pattern for standard error
    shows: str = ""  # and for standard output
    root: bool = False  # needs a user who may mount


SITE = 'mkdir site; echo "{code}" > site/sitecustomize.py; PYTHONPATH=$PWD/site:$PYTHONPATH $train --out "$out"'
# A full disk: a small one, filled but for so many KiB before the program starts.
SMALL_DISK = (
    "mkdir disk; mount -t tmpfs -o size={size}k,mode=700 none disk; trap 'umount -l disk' EXIT; "
    "head -c {filled}k /dev/zero > disk/filler; {line}"
)
FULL = r"No space left on device"

IN_A_THREAD = """
import sys, threading
from curious_jax import train
found = []
thread = threading.Thread(target=lambda: found.append(train.main(sys.argv[1:])))
thread.start()
thread.join()
sys.exit(found[0])
"""


def site(code: str) -> str:
    """Runs a training in a Python that was changed before it starts."""
    return SITE.format(code=code)


def small_disk(size: int, filled: int, line: str) -> str:
    """Runs a line with a disk of some KiB, filled in part."""
    return SMALL_DISK.format(size=size, filled=filled, line=line)


def control_group(limit: str, used: str, stat: str) -> str:
    """Runs a large training where a container's files of its control group say 600 MB; no such group is made."""
    files = f"echo 600000000 > {limit}; echo 0 > {used}; echo cache 0 > {stat}; cd - >/dev/null"
    lines = f"mount -t tmpfs none /sys/fs/cgroup; cd /sys/fs/cgroup; mkdir -p memory; {files}"
    return f"unshare -m bash -c '{lines}; exec $train --capacity 100000 --out $out'"


SETTINGS = [  # JAX's, in the environment
    *(
        Condition(name, f'{name}={value} $train --out "$out"', says=rf"note: {name}.*does not use that")
        for name, value in (
            ("JAX_ENABLE_X64", "1"),
            ("JAX_DISABLE_JIT", "1"),
            ("JAX_NUMPY_RANK_PROMOTION", "raise"),
            ("JAX_NUMPY_DTYPE_PROMOTION", "strict"),
            ("JAX_DEBUG_NANS", "1"),
            ("JAX_RANDOM_SEED_OFFSET", "7"),
        )
    ),
    Condition("transfer guard", 'JAX_TRANSFER_GUARD=disallow $train --out "$out"', says="note: JAX_TRANSFER_GUARD"),
    Condition(
        "x64, evaluate",
        "JAX_ENABLE_X64=1 $evaluate $run --episodes 2 >a; cat a; $evaluate $run --episodes 2 | diff a -",
        says="note: JAX_ENABLE_X64",
        shows="^mean ",
    ),
    Condition("no such platform", 'JAX_PLATFORMS=cuda $train --out "$out"', 2, "^error: JAX_PLATFORMS=cuda: "),
    Condition("no such platform, evaluate", "JAX_PLATFORMS=odd $evaluate $run", 2, "^error: JAX_PLATFORMS=odd: "),
]
WORDS = [  # encodings, locales, terminals
    *(
        Condition(f"output in {name}", f'PYTHONIOENCODING={name} $train --out "$out"', shows="completed: mean success")
        for name in ("ascii", "latin-1", "cp1252")
    ),
    Condition(
        "the locale C, no UTF-8",
        'LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $train --out "$out"',
        shows="completed: mean success",
    ),
    Condition("a locale that is not there", 'LC_ALL=tr_TR.UTF-8 LANG=xx $train --out "$out"'),
    Condition("a terminal of ten columns", 'TERM=dumb COLUMNS=10 $train --out "$out"', shows="completed: mean success"),
    Condition("a name with spaces", '$train --out "a b"; s=$?; rm -rf "a b"; exit $s', shows=r"curious_jax.play 'a b'"),
]
PLACES = [  # folders
    Condition("no HOME", 'env -u HOME -u XDG_CACHE_HOME -u JAX_COMPILATION_CACHE_DIR $train --out "$out"'),
    Condition(
        "a HOME that is none",
        'HOME=/dev/null/home; unset XDG_CACHE_HOME JAX_COMPILATION_CACHE_DIR; $train --out "$out"',
        says="note: /dev/null/home/.cache/curious_jax: cannot be a folder",
    ),
    Condition(
        "a cache without a name",
        '$train --cache "" --out "$out"',
        2,
        "^error: --cache: is empty: must be a file or folder",
    ),
    Condition("a cache of 300 letters", f'$train --cache {"x" * 300} --out "$out"', 2, "^error: --cache xxx.*too long"),
    Condition("a cache in a file", 'touch f; $train --cache f/c --out "$out"', 2, "^error: --cache f/c: cannot be"),
    Condition(
        "a cache that others can write to",
        'mkdir c; chmod 777 c; $train --cache c --out "$out"',
        2,
        "^error: --cache c: others can write there",
    ),
    Condition(
        "a user's cache that others can write to",
        "mkdir -p c/curious_jax; chmod 777 c/curious_jax; unset JAX_COMPILATION_CACHE_DIR; XDG_CACHE_HOME=$PWD/c "
        '$train --out "$out"; s=$?; [ -z "$(ls -A c/curious_jax)" ] || exit 99; exit $s',
        says="others can write there",
    ),
    Condition(
        "another user's cache",
        'mkdir c; chown 1234 c; $train --cache c --out "$out"',
        2,
        "^error: --cache c: belongs to another user",
        root=True,
    ),
    Condition(
        "a damaged cache",
        "$train --cache c --out first || exit; rm -r first; "
        "for f in $(ls c/*-cache | grep -v train_epoch); do echo junk > $f; done; "
        '$train --cache c --out "$out"; s=$?; grep -l junk c/*-cache && exit 99; exit $s',
        says=r"^note: .*c: compiled programs: what cannot be read is compiled again[^\n]*\n$",
    ),
    Condition(
        "a pipe for --config",
        "mkfifo c; $python -m curious_jax.train --config c",
        2,
        "^error: --config c: .*not a regular",
    ),
    Condition(
        "a device for --config",
        "$python -m curious_jax.train --config /dev/zero",
        2,
        "^error: --config /dev/zero: .*not a regular",
    ),
    Condition("no TMPDIR", 'TMPDIR=/nowhere $train --out "$out"'),
    Condition("no place for matplotlib's settings", 'MPLCONFIGDIR=/proc/x $train --out "$out"'),
    Condition("an --out in /proc", "$train --out /proc/run", 2, "^error: --out /proc/run: "),
    Condition("a current folder that is gone", 'mkdir d; cd d; rmdir ../d; $train --out "$out"'),
    Condition("no /dev/shm", 'unshare -m bash -c "umount -l /dev/shm; exec $train --out $out"', root=True),
    Condition("a tilde after =", "HOME=$PWD $train --out=~/x; s=$?; [ -d x ] || exit 99; rm -r x; exit $s"),
    Condition(
        "a file system without locks",
        site("import fcntl\ndef flock(*_): raise OSError(37, 'No locks available')\nfcntl.flock = flock"),
    ),
    Condition("matplotlib set to usetex", 'echo "text.usetex: True" > matplotlibrc; $train --out "$out"'),
    Condition(
        "two at once with one --out",
        '$train --out "$out" 2>one & $train --out "$out" 2>two; a=$?; wait $!; b=$?; cat one two >&2; exit $((a + b))',
        2,
        r"^error: --out \S+: holds another run",
    ),
]
LIMITS = [  # of the process
    Condition("20 open files", 'ulimit -n 20; $train --out "$out"', 2, "^error: ulimit -n 20: "),
    Condition("20 open files, evaluate", "ulimit -n 20; $evaluate $run", 2, "^error: ulimit -n 20: "),
    Condition("64 open files", 'ulimit -n 64; $train --out "$out"'),
    Condition("20 open files that may be more", 'ulimit -Sn 20; $train --out "$out"'),
    Condition("1 GB of addresses", 'ulimit -v 1000000; $train --out "$out"', 2, "^error: ulimit -v 1000000: "),
    Condition("4 GB of addresses", 'ulimit -v 4000000; $train --out "$out"'),
    Condition(
        "a run larger than the addresses",
        'ulimit -v 5000000; $train --capacity 2000000 --out "$out"',
        2,
        "^error: --capacity 2000000: needs .* GiB.*; lower --capacity to",
    ),
    *(
        Condition(
            f"a run larger than its control group, {version}",
            control_group(*names),
            2,
            "^error: --.*needs .*GiB",
            root=True,
        )
        for version, names in (
            ("v1", ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat")),
            ("v2", ("memory.max", "memory.current", "memory.stat")),
        )
    ),
    Condition("a small stack", 'ulimit -s 1024; $train --out "$out"'),
    Condition("no core dumps, low priority", 'ulimit -c 0; nice -n 19 $train --out "$out"'),
]
STREAMS = [  # closed, full, left
    Condition("output on a full disk", '$train --out "$out" >/dev/full', 1, f"^error: standard output: .*{FULL}"),
    Condition("errors on a full disk", '$train --out "$out" 2>/dev/full'),
    Condition("bad input, errors on a full disk", '$train --seed x --out "$out" 2>/dev/full', 2),
    Condition("evaluate on a full disk", "$evaluate $run --episodes 2 >/dev/full", 1, f"^error: standard out.*{FULL}"),
    Condition(
        "a reader that leaves",
        '$train --episodes 10000000 --out "$out" | head -n 2; exit ${PIPESTATUS[0]}',
        141,
        shows="run folder",
    ),
    Condition("evaluate's reader leaves", "$evaluate $run --episodes 2 | true; exit ${PIPESTATUS[0]}", 141),
    Condition("no input", '$train --out "$out" <&-'),
    Condition("no output", '$train --out "$out" >&-'),
    Condition("no errors", '$train --out "$out" 2>&-'),
    Condition("no streams at all", '$train --out "$out" <&- >&- 2>&-'),
]
SIGNALS = [
    *(
        Condition(
            f"SIG{name}",
            f'timeout -s {name} 300 $train --episodes 10000000 --out "$out" >log & p=$!; '
            f'until grep -q "success" log; do sleep 0.2; done; kill -{name} $(pgrep -P $p); wait $p',
            status,
        )
        for name, status in (("HUP", 129), ("INT", 130), ("USR1", 138), ("TERM", 143))
    ),
    Condition(
        "a closed terminal under nohup",
        "trap '' HUP; $train --out \"$out\" >log & p=$!; "
        "until grep -q success log; do sleep 0.1; done; kill -HUP $p; wait $p",
    ),  # fmt: skip
]
PYTHON = [  # other Pythons, other machines
    Condition("without sched_getaffinity", site("import os; del os.sched_getaffinity")),
    Condition("a clock of 2001", site("import time; n = time.time; time.time = lambda: n() - 8e8")),
    Condition(
        "a clock that goes back",
        site("import time, itertools; c = itertools.count(); n = time.time; time.time = lambda: n() - 100 * next(c)"),
    ),
    Condition(
        "in a thread",
        f"$python -c {shlex.quote(IN_A_THREAD)} {{}}".format('$(cut -d" " -f4- <<< "$train") --out "$out"'),
    ),
    Condition("asserts taken out", 'PYTHONOPTIMIZE=2 $train --out "$out"'),
    Condition("no bytecode, hashes from a seed", 'PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=7 $train --out "$out"'),
]
DISKS = [  # full at some write
    Condition(
        f"a disk with {left} KiB left",
        small_disk(2000, 2000 - left, "$train --out disk/run; s=$?; cp -r disk/run $out; exit $s"),
        status,
        FULL,
        root=True,
    )
    for left, status in ((0, 2), (8, 1), (60, 1), (200, 1))
] + [
    Condition(
        "a cache on a full disk",
        small_disk(1000, 1000, '$train --cache disk --out "$out"'),
        root=True,
    ),
    Condition("export to a full disk", small_disk(500, 500, "$export $run disk/p"), 1, FULL, root=True),
    Condition("a video on a full disk", small_disk(500, 500, "$play $run --video disk/v.gif"), 1, FULL, root=True),
]
CONDITIONS = [*SETTINGS, *WORDS, *PLACES, *LIMITS, *STREAMS, *SIGNALS, *PYTHON, *DISKS]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name.replace(" ", "-"))
def test_condition(condition, finished_run, small, tmp_path):
    if condition.root and os.getuid() != 0:
        pytest.skip("needs a user who may mount")
    given = f"{shlex.quote(sys.executable)} -m curious_jax."
    names = {name: given + name for name in ("evaluate", "play", "export")}
    names |= {"train": f"{given}train {shlex.join(small)}", "python": sys.executable}
    names |= {"run": str(finished_run), "out": str(tmp_path / "out"), "PYTHONPATH": str(ROOT)}
    folder = tmp_path / "here"
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | names
    done = subprocess.run(["bash", "-c", condition.line], cwd=folder, env=environment, capture_output=True, timeout=600)
    out, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    assert done.returncode == condition.status, errors + out[-2000:]
    assert "Traceback" not in errors + out, errors
    assert re.search(condition.says, errors, re.MULTILINE), errors
    assert re.search(condition.shows, out, re.MULTILINE), out
    kept(tmp_path / "out", condition.status)
    shutil.rmtree(tmp_path)


def kept(run: Path, status: int) -> None:
    """Checks that a run which has begun is whole; where the machine failed, once it was resumed, if it was saved."""
    if not (run / "config.json").exists():
        assert not run.exists() or not any(run.iterdir()), list(run.iterdir())
        return
    if status == 1 and not checkpoints.states(run / "checkpoints"):  # the disk was full from the start
        assert train.main(["--resume", str(run)]) in (0, 2)  # from the beginning; 2 where rows would be lost by that
        return
    if status == 1:
        assert train.main(["--resume", str(run)]) == 0
    assert (run / "summary.json").exists(), list(run.rglob("*"))
    found = resume.find(run)
    assert found.saved and not found.damaged
    assert all(row["episodes"] <= found.episodes for row in runfolder.read_rows(run))


def test_there_are_forty_conditions_and_no_name_twice():
    assert len(CONDITIONS) >= 40
    assert len({condition.name for condition in CONDITIONS}) == len(CONDITIONS)
