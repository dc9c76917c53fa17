"""Random command lines and config files: each is a valid run, stopped before it would begin, or one line and exit 2."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from curious_jax import benchmark, evaluate, report, train
from curious_jax import config as configs
from curious_jax.cli import environment
from curious_jax.config import option_name
from curious_jax.measure import profile, suite, timing
from curious_jax.run import folder as runfolder
from curious_jax.run import memory, policies
from curious_jax.show import curves

ROOT = Path(__file__).parents[2]
TABLE = configs.fields_by_name()
STARTED = 77  # what a program returns where a run would begin
QUIET = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), derandomize=False, print_blob=False
)

# Values: right ones, wrong ones, and what nobody should type.

ODD = st.sampled_from([
    *("", " ", "0", "-1", "1", "2", "3", "7", "1e3", "1e5", "1e18", "1e400", "-1e400", "nan", "inf", "-inf", "1.5"),
    *("0.5", "none", "None", "true", "false", "on", "off", "all", "auto", "null", "[]", "{}", "x", "é", "\udc80"),
    *("1_0", "a\nb", "\t", "-", "--", "--seed", "=", "reach,", ",", "reach,reach", "push0", "stack1on1", "٣", "0x10"),
    *("9" * 30, "1" * 5000, "../..", "/dev/null", "/", "\x00", "'", '"', "%s", "%(prog)s", "$HOME", "@file", "*"),
])  # fmt: skip
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBER = st.one_of(st.integers(-10, 10**7), st.floats(), st.integers()).map(str)
MODULES = st.lists(
    st.sampled_from(["reach", "push", "push1", "push2", "pnp", "pnp3", "stack", "stack2on1", "fly", "pnp9"]),
    min_size=1, max_size=5,
).map(",".join)  # fmt: skip
CHOICES = st.sampled_from(
    sorted({choice for _, field in TABLE.values() for choice in field.metadata.get("choices") or ()})
)
VALUE = st.one_of(ODD, NUMBER, TEXT, MODULES, CHOICES)

NAMES = sorted(TABLE)
OPTION = st.one_of(
    st.sampled_from([option_name(name) for name in NAMES]),
    st.sampled_from(["--normalize", "--out", "--resume", "--config", "--import", "--json", "--seconds"]),
    st.sampled_from(["--episodes", "--seed-index", "--checkpoint", "--physics", "--bogus", "--num-env", "-x", "--"]),
)
# Where paths are wanted: FOLDER stands for one that the test makes.
FOLDERS = st.sampled_from(
    ["FOLDER/run", "FOLDER/run/config.json", "FOLDER/empty", "FOLDER/new", "FOLDER/file", "FOLDER"]
)
WORD = st.one_of(
    st.tuples(OPTION, VALUE).map(list),
    st.tuples(OPTION, VALUE).map(lambda pair: ["=".join(pair)]),
    st.tuples(st.sampled_from(["--out", "--resume", "--config"]), FOLDERS).map(list),
    FOLDERS.map(lambda path: [path]),
    OPTION.map(lambda option: [option]),
    VALUE.map(lambda value: [value]),
)
LINE = st.tuples(
    st.sampled_from(["train", "train", "train", "evaluate", "benchmark", "report"]),
    st.sampled_from([[], ["--world", "point", "--modules", "reach,push"], ["FOLDER/run"]]),
    st.lists(WORD, max_size=4),
)


def command_line(drawn):
    """(program, arguments)."""
    name, start, words = drawn
    return name, [*start, *(text for word in words for text in word)]


PROGRAMS = {"train": train, "evaluate": evaluate, "benchmark": benchmark, "report": report}


@pytest.fixture(scope="module")
def folder(finished_run, tmp_path_factory):
    """A folder with a finished run, an empty folder and a file."""
    import shutil

    place = tmp_path_factory.mktemp("fuzz")
    shutil.copytree(finished_run, place / "run")
    (place / "empty").mkdir()
    (place / "file").write_text("not a run")
    return place


@pytest.fixture(scope="module")
def stubbed():
    """All that would start work says so instead; worlds are built as always, but not more than once each."""

    class Started(BaseException):
        """Stands for the run."""

    def start(*args, **kwargs):
        raise Started

    built = {}

    def make_env(config, to_act=False):
        key = (config.world, config.modules, config.distractors, config.physics)
        if key not in built or config.perturbation.perturb_at is not None or config.devices != 1:
            built[key] = real(config, to_act)
        return built[key]

    real = environment.make_env
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "make_env", make_env)
        patch.setattr(runfolder, "claim", start)
        patch.setattr(runfolder, "reopen", start)
        patch.setattr(timing, "figures", start)
        patch.setattr(profile, "profile", start)
        patch.setattr(suite, "run", start)
        patch.setattr(policies, "_restore", start)
        patch.setattr(curves, "png", start)
        patch.setattr(memory, "available", lambda: (8 * memory.GIB, "free on this machine"))
        yield Started


def contents(place):
    return {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in sorted(place.rglob("*"))}


def outcome(stubbed, name, argv):
    """(status, standard error) of a program in this process."""
    error = io.StringIO()
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = PROGRAMS[name].main(argv)
        except stubbed:
            status = STARTED
        except SystemExit as end:  # argparse's, after --help and --version
            status = end.code or 0
    return status, error.getvalue()


def check_line(stubbed, folder, name, argv):
    argv = [text.replace("FOLDER", str(folder)) for text in argv]
    before = contents(folder)
    status, error = outcome(stubbed, name, argv)
    assert status in (0, 2, STARTED), (name, argv, status)
    if status == 2:
        assert error.startswith("error: ") and error.endswith("\n") and error.count("\n") == 1, (name, argv, error)
    else:
        assert error == "", (name, argv, error)
    assert contents(folder) == before, (name, argv)


def fuzz_lines(stubbed, folder, monkeypatch, examples, number):
    monkeypatch.chdir(folder / "empty")
    seen = []

    @seed(number)
    @settings(QUIET, max_examples=examples)
    @given(LINE)
    def run(drawn):
        name, argv = command_line(drawn)
        seen.append(name)
        check_line(stubbed, folder, name, argv)

    run()
    assert len(seen) >= examples
    assert not list((folder / "empty").iterdir())


def test_command_lines(stubbed, folder, monkeypatch):
    fuzz_lines(stubbed, folder, monkeypatch, 60, 0)


@pytest.mark.slow
def test_a_thousand_command_lines(stubbed, folder, monkeypatch):
    fuzz_lines(stubbed, folder, monkeypatch, 1000, 1)


# config.json: a good one with damage.

PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.sampled_from(["1", "nan", "all"]))
INNER = st.one_of(PLAIN, st.lists(PLAIN, max_size=3), st.dictionaries(TEXT, PLAIN, max_size=3))
JSON = st.one_of(INNER, st.lists(INNER, max_size=3), st.dictionaries(TEXT, INNER, max_size=3))
CHANGE = st.tuples(st.sampled_from([*NAMES, *configs.GROUPS, "unknown"]), JSON, st.sampled_from(["set", "drop"]))


def changed(data, name, value, how):
    """The config's data with one setting or group changed or taken out."""
    data = json.loads(json.dumps(data))
    group, _ = TABLE.get(name, (None, None))
    place = data[group] if group and isinstance(data.get(group), dict) else data
    if how == "drop":
        place.pop(name, None)
    else:
        place[name] = value
    return data


def fuzz_configs(stubbed, folder, monkeypatch, tmp_path, examples, number):
    monkeypatch.chdir(folder / "empty")
    good = json.loads((folder / "run" / "config.json").read_text())

    @seed(number)
    @settings(QUIET, max_examples=examples)
    @given(st.one_of(st.lists(CHANGE, min_size=1, max_size=3), JSON.map(json.dumps), TEXT, st.binary(max_size=20)))
    def run(drawn):
        file = tmp_path / "config.json"
        if isinstance(drawn, bytes):
            file.write_bytes(drawn)
        elif isinstance(drawn, str):
            file.write_text(drawn, encoding="utf-8")
        else:
            data = good
            for change in drawn:
                data = changed(data, *change)
            file.write_text(json.dumps(data))
        check_line(stubbed, folder, "train", ["--config", str(file)])

    run()


def test_config_files(stubbed, folder, monkeypatch, tmp_path):
    fuzz_configs(stubbed, folder, monkeypatch, tmp_path, 60, 0)


@pytest.mark.slow
def test_a_thousand_config_files(stubbed, folder, monkeypatch, tmp_path):
    fuzz_configs(stubbed, folder, monkeypatch, tmp_path, 1000, 1)


# As processes: those that do not begin a run.


@pytest.mark.slow
def test_twenty_command_lines_as_processes(stubbed, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder / "empty")
    lines = []

    @seed(2)
    @settings(QUIET, max_examples=100)
    @given(LINE)
    def draw(drawn):
        name, argv = command_line(drawn)
        argv = [text.replace("FOLDER", str(folder)) for text in argv]
        if not any("\x00" in text for text in argv):  # the system itself refuses those
            lines.append((name, argv, outcome(stubbed, name, argv)[0]))

    draw()
    lines = [line for line in lines if line[2] != STARTED][-20:]
    assert len(lines) == 20
    before = contents(folder)
    for name, argv, status in lines:
        place = tmp_path / "here"
        place.mkdir(exist_ok=True)
        command = [sys.executable, "-m", f"curious_jax.{name}", *argv]
        variables = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=place, env=variables, capture_output=True, timeout=120)
        error = done.stderr.decode(errors="replace")
        assert done.returncode == status, (name, argv, error)
        assert error.count("\n") == (status == 2) and "Traceback" not in error, (name, argv, error)
        assert not os.listdir(place), argv
    assert contents(folder) == before
