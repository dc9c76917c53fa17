"""Damaged files of a run and a policy: each opens as it was, is refused in a line, or is spoken of."""

import contextlib
import json
import os
import shutil
import signal

import numpy as np
import pytest
from helpers.parts import assert_same

from curious_jax import report, train
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.run import policies, resume
from curious_jax.show import page

PATIENCE = 120  # seconds for what takes less than one
COUNTS = [30, pytest.param(500, marks=pytest.mark.slow)]
RUN_FILES = (runfolder.CONFIG, runfolder.METRICS, runfolder.SUMMARY, runfolder.CHECKPOINTS, runfolder.POLICIES)


class Hung(BaseException):
    """Raised when a program does not answer."""


@contextlib.contextmanager
def patience():
    def give_up(number, frame):
        raise Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def flip(path, data, random):
    at = random.integers(len(data))
    path.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.integers(8)]) + data[at + 1 :])


def overwrite(path, data, random):
    at = random.integers(len(data))
    path.write_bytes(data[:at] + random.bytes(1) + data[at + 1 :])


def link(path, data, random):
    whole = path.rename(path.with_name(path.name + "-whole"))
    path.symlink_to(whole)


DAMAGES = {
    "bit": flip,
    "byte": overwrite,
    "cut": lambda path, data, random: path.write_bytes(data[: random.integers(len(data))]),
    "longer": lambda path, data, random: path.write_bytes(data + random.bytes(5)),
    "lost": lambda path, data, random: path.unlink(),
    "empty": lambda path, data, random: path.write_bytes(b""),
    "garbage": lambda path, data, random: path.write_bytes(random.bytes(200)),
    "folder": lambda path, data, random: (path.unlink(), path.mkdir()),
    "link": link,
    "pipe": lambda path, data, random: (path.unlink(), os.mkfifo(path)),
}
ODDS = {"bit": 0.3, "byte": 0.15, "cut": 0.15, "lost": 0.1}


def damages(folder, copy, count, names=("",)):
    """Yields (what was damaged how, a fresh copy of the folder with that damage), `count` times, always the same."""
    random = np.random.default_rng(7)
    files = sorted(p for n in names for p in [folder / n, *(folder / n).rglob("*")] if p.is_file())
    rest = (1 - sum(ODDS.values())) / (len(DAMAGES) - len(ODDS))
    odds = [ODDS.get(kind, rest) for kind in DAMAGES]
    for _ in range(count):
        path, kind = files[random.integers(len(files))], str(random.choice(list(DAMAGES), p=odds))
        data, name = path.read_bytes(), path.relative_to(folder)
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        if data or kind not in ("bit", "byte", "cut"):
            DAMAGES[kind](copy / name, data, random)
            yield f"{kind}: {name}", copy


def opened(capsys, body, *given):
    """What a program's way of opening gives; None when it refused in one line. Anything else fails."""
    result = []

    def run():
        result.append(body(*given))
        return program.DONE

    capsys.readouterr()
    with patience():
        status = program.run(run)
    said = capsys.readouterr().err
    if status == program.DONE:
        return result[0]
    assert status == program.BAD_INPUT and said.startswith("error: ") and said.count("\n") == 1, said
    return None


def reopened(run):
    found = resume.reopen(run, {})
    found.folder.close()
    return found


def reported(run):
    """The rows, once the page is built from them."""
    rows = report.read(run)
    page.build(run, rows)
    return rows


def same(a, b):
    try:
        assert_same(a, b)
    except AssertionError:
        return False
    return True


@pytest.fixture(scope="module")
def whole(finished_run, tmp_path_factory):
    """A run with two checkpoints, 320 and 480, and what each program reads from it."""
    run = shutil.copytree(finished_run, tmp_path_factory.mktemp("whole") / "run")
    first = shutil.copytree(run / "checkpoints" / "320", run.parent / "320")
    assert train.main(["--resume", str(run), "--episodes", "24"]) == 0
    shutil.copytree(first, run / "checkpoints" / "320")
    return run


def check_resumed(got, truth, earlier):
    """Whether a run goes on from a state that it had, and says so when that is not the last."""
    last = got.found.path.name == truth.found.path.name
    state = truth.start if last else earlier
    assert same(got.start.state, state.state) and same(got.start.total, state.total)
    assert last or "is damaged" in got.notes
    rows = [row for row in truth.earlier if row["episodes"] <= got.found.episodes]
    assert got.earlier == rows or (not got.earlier and "rows up to" in got.notes)
    assert got.config == truth.config or "config.json asks for" in got.notes
    return "same" if last and got.earlier == rows and got.config == truth.config else "spoken of"


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_run_is_never_another(whole, tmp_path, capsys, count):
    copy, seen = tmp_path / "copy", {"same": 0, "spoken of": 0, "refused": 0}
    truth = reopened(shutil.copytree(whole, tmp_path / "a"))
    shutil.copytree(whole, tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "checkpoints" / "480")
    earlier = reopened(tmp_path / "b").start
    acting = {name: policies.load(whole, name).params for name in (policies.LAST, policies.BEST)}
    rows = report.read(whole)
    for what, run in damages(whole, copy, count, RUN_FILES):
        for name, policy in acting.items() if "policies" in what or "config" in what else ():
            got = opened(capsys, policies.load, run, name)
            assert got is None or same(got.params, policy), what
        if any(name in what for name in RUN_FILES[:3]):
            read = opened(capsys, reported, run)
            assert read is None or read == rows, what
        got = opened(capsys, reopened, run)
        try:
            seen["refused" if got is None else check_resumed(got, truth, earlier)] += 1
        except AssertionError:
            raise AssertionError(what) from None
    print(seen)
    assert all(seen.values())


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_policy_is_never_another(whole, tmp_path, capsys, count):
    folder = shutil.copytree(whole / "policies" / "last", tmp_path / "policy")
    truth, seen = policies.load(folder), {"same": 0, "refused": 0}
    for what, policy in damages(folder, tmp_path / "copy", count):
        got = opened(capsys, policies.load, policy)
        assert got is None or (same(got.params, truth.params) and got.config == truth.config), what
        seen["refused" if got is None else "same"] += 1
    print(seen)
    assert seen["refused"]


@pytest.mark.parametrize("count", COUNTS)
def test_a_report_of_damaged_rows_is_refused_or_drawn(whole, tmp_path, capsys, count):
    """Where no checkpoint tells what the rows were."""
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in RUN_FILES[:3]:
        shutil.copy(whole / name, folder)
    for _, run in damages(folder, tmp_path / "copy", count):
        opened(capsys, reported, run)


def test_other_episodes_in_config_json_are_spoken_of(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    path = run / runfolder.CONFIG
    config = json.loads(path.read_text())
    config["schedule"]["episodes"] = 64
    path.write_text(json.dumps(config))
    assert "config.json asks for --episodes 64, the checkpoint was made with 24" in reopened(run).notes


def test_a_report_compares_the_rows_with_the_checkpoint(whole, tmp_path):
    run = shutil.copytree(whole, tmp_path / "run")
    path = run / runfolder.METRICS
    path.write_text(path.read_text().replace('"wall_s": ', '"wall_s": 1'))
    with pytest.raises(ConfigError, match="rows before the checkpoint are damaged or missing"):
        report.read(run)
