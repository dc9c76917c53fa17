"""Every command that README.md and the documentation show is understood by its program; README's are run, small.

PROGRAMS says how each program is made small; a command of a program that is not there fails with a hint.
"""

import argparse
import importlib
import re
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from curious_jax import config as configs
from curious_jax.cli import parser as options
from experiments.checks import results

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RUNS = ROOT / "docs" / "runs.md"  # has the table of commands
PAGES = [README, *sorted(ROOT.glob("[a-z]*/README.md")), *sorted((ROOT / "docs").rglob("*.md"))]

# Options that make a run of the arm a matter of seconds; the last of an option's values counts.
TINY = (
    *("--num-envs", "4", "--episodes", "8", "--updates-per-cycle", "2", "--batch-size", "16", "--capacity", "16"),
    *("--evaluation-interval", "8", "--evaluation-episodes", "8", "--hidden-size", "8", "--hidden-layers", "1"),
)
EXPERIMENT = (*TINY, "--seeds", "0", "--evaluation-interval", "4")
PROGRAMS = {
    "curious_jax.train": TINY,
    "curious_jax.evaluate": ("--episodes", "2"),
    "curious_jax.play": ("--episodes", "1", "--rounds", "1", "--size", "64x64"),
    "curious_jax.report": (),
    "curious_jax.export": (),
    "curious_jax.benchmark": (*TINY, "--capacity", "128", "--seconds", "0.1"),  # its cycle has the preset's --num-envs
    "experiments.ablation": (*EXPERIMENT, "--variants", "guide=0"),
    "experiments.architectures": EXPERIMENT,
    "experiments.learning_progress": EXPERIMENT,
    "experiments.perturbation": EXPERIMENT,
    "experiments.distractors": (*EXPERIMENT, "--distractors", "0"),
    "experiments.scaling": EXPERIMENT,
    "experiments.sweep": EXPERIMENT,
    "experiments.curricula": (*EXPERIMENT, "--distractors", "0", "--estimators", "ema", "--samplers", "none"),
    "experiments.checks.seed_cost": (*TINY, "--num-seeds", "2"),
}
# Words of commands that need what a machine may lack, and what is said there.
EXTRAS = {
    "--wandb": ("curious_jax[wandb]",),
    "--push-to": ("curious_jax[hub]", "OWNER/NAME"),
    "hub:": ("curious_jax[hub]", "OWNER/NAME"),
    "--compile-for": ("curious_jax[compile-gpu]", "curious_jax[compile-tpu]"),
}
LISTS = ("curious_jax", "experiments")  # these list the programs, and take no option here
# Programs whose own tests run them small.
OWN_TESTS = {
    "experiments.checks.peers": "tests/experiments/checks/test_peers.py",
    "experiments.checks.steadiness": "tests/experiments/checks/test_steadiness.py",
    "experiments.checks.release": "tests/experiments/checks/test_release.py",
    "experiments.checks.colab": "tests/experiments/checks/test_colab.py",
    "experiments.checks.results": "tests/experiments/checks/test_results.py",
    "experiments.checks.matrix": "tests/experiments/checks/test_matrix.py",
    "experiments.checks.overhead": "tests/experiments/checks/test_overhead.py",
    "experiments.checks.progress_signal": "tests/experiments/checks/test_progress_signal.py",
    "experiments.tune": "tests/experiments/test_tune.py",
}
MORE_EPISODES = ("--episodes", "24")  # for --resume, which takes no other option; the small run has 16
FOUR = ROOT / "docs" / "results" / "fetch-four-modules-cpu"  # a run of the arm, for what the point world cannot show
NEEDS_A_SCREEN = "--viewer"  # refused here, in one line that says so
# How the targets of make are exercised: by CI (.ci/run), alone or as a part of another target; or as said here.
NOT_IN_CI = {
    "check-slow": "runs the slow tests, this file's among them",
    "colab": "installs; its parts have tests of their own",
    "results": "reads the list that tests/experiments/checks/test_results.py reads",
    "release": "installs six times; its parts have tests of their own",
    "matrix": "runs the tests once more for each Python",
    "web": "needs node and npm; tests/web builds with it",
    "probe-results": "trains for half an hour; its commands are read as every command shown",
    "probe-curricula": "trains for half an hour; its command is read as every command shown",
}


def code(path):
    """The inline code and the lines of code blocks of a page, each on one line."""
    text = path.read_text()
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks = "\n".join([*fenced, *re.findall(r"^ {4,}(\S.*)$", text, re.MULTILINE)]).replace("\\\n", " ")
    spans = re.findall(r"`([^`]+)`", re.sub(r"^ {4,}\S.*$", "", text, flags=re.MULTILINE))
    return [" ".join(piece.split()) for piece in [*blocks.splitlines(), *spans]]


def python_commands(path):
    """The `python -m ...` commands of a page; in the table of Runs an option alone is that of its row's program."""
    found = [re.sub(r"^(\.venv/bin/)?python3? -m ", "python -m ", c) for c in code(path)]
    found = [c for c in found if c.startswith("python -m ")]
    loop = re.search(r"for name in ([\w ]+); do", path.read_text())
    names = loop[1].split() if loop else []
    found = [c.replace("$name", name) for c in found for name in (names if "$name" in c else [""])]
    if path == RUNS:
        for row in [line for line in path.read_text().splitlines() if line.startswith("| ") and "`--" in line]:
            spans = re.findall(r"`([^`]+)`", row.split(" | ")[1])
            program = spans[0].split()[2] if spans[0].startswith("python -m ") else "curious_jax.train"
            found += [f"python -m {program} {span}" for span in spans if re.match(r"--\S+ \S", span)]
    return list(dict.fromkeys(found))


def make_targets(path):
    """The targets of the `make ...` commands of a page."""
    words = [shlex.split(c, comments=True)[1:] for c in code(path) if re.match(r"make [a-z]", c)]
    return {word for command in words for word in command if re.fullmatch(r"[a-z-]+", word)}


def arguments(command, run, folder):
    """(program, its arguments) with real things in the place of NAME, K, DIR, ...

    Args:
      run: the folder of a run that is done, for runs/NAME.
      folder: an empty one, for what is to be written.
    """
    program, *words = shlex.split(command, comments=True)[2:]
    program = program.replace("experiments.NAME", "experiments.distractors")
    if {"--env", "--modules", NEEDS_A_SCREEN}.intersection(words):
        run = FOUR
    known = {"K": "0", "I": "0", "N": "2", "X": "0.5", "RUN": str(run), "DIR": str(folder / "out"), "OUT": str(folder)}
    known |= {"PROJECT": "readme", "FetchReach-v4|FetchPush-v4|FetchPickAndPlace-v4": "FetchReach-v4"}

    def real(word):
        if word in known:
            return known[word]
        if word.startswith("docs/results/"):
            return str(ROOT / word.replace("NAME", FOUR.name))
        if word == "pretrained/NAME":
            return str(folder / "exported" if program == "curious_jax.export" else FOUR)
        if re.search(r"\.(mp4|gif|html)$", word):
            return str(folder / Path(word).name)
        return re.sub(r"^runs/[\w-]+", lambda _: str(run), word)

    return program, [real(word) for word in words]


OWN_FILES = {"lift", "beside", "surprise", "far", "success_table"}  # the pages' own, whose code test_docs.py runs


class Started(Exception):
    """The program has read its command line and begins to work."""


def understood(program, argv, monkeypatch):
    """Reads the command line as the program does, up to the start of its work; ConfigError if it is refused."""
    if program in LISTS:
        assert not argv
        return
    module = importlib.import_module(program)
    argv = [word for word in argv if word != "--help"]
    if argv == [] and program in PROGRAMS and "RUN" in (module.__doc__ or ""):
        return  # only --help was asked for
    for own in OWN_FILES.intersection(argv):
        monkeypatch.setitem(sys.modules, own, types.ModuleType(own))
        argv = [word.removesuffix(",lift").removesuffix(",left-of") for word in argv]
    if hasattr(module, "EXPERIMENT"):
        from experiments.engine import command

        read = command.read

        def read_and_begin(*request):
            read(*request)
            raise Started

        monkeypatch.setattr(command, "read", read_and_begin)
        with pytest.raises(Started):
            command.main(module.EXPERIMENT, argv)
    elif program in OWN_TESTS:
        passes_on = ("experiments.tune", "experiments.checks.overhead")  # the rest of its options, to train's parser
        method = "parse_known_args" if program in passes_on else "parse_args"
        parse = getattr(argparse.ArgumentParser, method)

        def parse_and_begin(parser, words):
            parse(parser, words)
            raise Started

        with monkeypatch.context() as patch, pytest.raises(Started):
            patch.setattr(argparse.ArgumentParser, method, parse_and_begin)
            module.main(argv)
    elif not hasattr(module, "parser"):
        assert program == "experiments.checks.seed_cost"  # which takes train's options
    elif program in ("curious_jax.train", "curious_jax.benchmark"):
        configs.make_config("cpu", **options.read(module.parser(), argv)[0])
    else:
        module.parser().read(argv)


def main_of(program):
    """argv -> exit status."""
    module = importlib.import_module(program)
    if hasattr(module, "EXPERIMENT"):
        from experiments.engine import command

        return lambda argv: command.main(module.EXPERIMENT, argv)
    return module.main


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_command_shown_is_understood(path, finished_run, tmp_path, monkeypatch):
    for command in python_commands(path):
        program, argv = arguments(command, finished_run, tmp_path)
        if program in ("venv", "http.server"):
            continue
        if program == "pytest":
            assert all((ROOT / word).is_file() for word in argv if word.startswith("tests/")), command
            continue
        assert program in {**PROGRAMS, **OWN_TESTS} or program in LISTS, (
            f"{command}: say in PROGRAMS how {program} is made small"
        )
        understood(program, argv, monkeypatch)


def test_the_command_of_every_figure_is_understood(finished_run, tmp_path, monkeypatch):
    figures = results.read((ROOT / results.LIST).read_text())
    commands = [figure.command for figure in figures if figure.command]
    assert len(commands) > 10
    for command in commands:
        if command.startswith("make "):
            prerequisites(command.split()[1])
            continue
        assert command.startswith("python -m "), command
        program, argv = arguments(command, finished_run, tmp_path)
        if program == "pytest":
            assert all((ROOT / word).is_file() for word in argv if word.startswith("tests/")), command
            continue
        assert program in {**PROGRAMS, **OWN_TESTS}, command
        understood(program, argv, monkeypatch)


def test_the_commands_are_found():
    found = [*python_commands(README), *python_commands(RUNS)]
    assert "python -m curious_jax.train" in found and len(found) > 15
    assert "python -m curious_jax.train --goal-replay none" in found
    assert {command.split()[2] for command in found} >= {"curious_jax.train", "curious_jax.evaluate"}
    assert {"demo", "test"} <= make_targets(README)


def test_a_command_that_is_wrong_would_be_refused(finished_run, tmp_path, monkeypatch):
    for command in ("python -m curious_jax.train --modul reach", "python -m curious_jax.train --epsilon 2"):
        with pytest.raises(configs.ConfigError):
            understood(*arguments(command, finished_run, tmp_path), monkeypatch)


def prerequisites(target):
    """The targets that a target of the Makefile asks for, and those that these ask for."""
    found = re.search(rf"^{target}:([^\n|]*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found, f"make {target}: the Makefile has no such target"
    direct = [word for word in found[1].split() if re.fullmatch(r"[a-z-]+", word)]
    return {target, *direct, *(inner for word in direct for inner in prerequisites(word))}


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_make_target_shown_is_run_by_ci(path):
    ci = re.findall(r"^make (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    words = {word for line in ci for word in line.split() if re.fullmatch(r"[a-z-]+", word)}
    run = set().union(*(prerequisites(word) for word in words))
    for target in make_targets(path):
        prerequisites(target)
        assert target in run or target in NOT_IN_CI, f"make {target}: is in no step of .ci/run"


def test_the_demos_command_is_understood(finished_run, tmp_path, monkeypatch):
    shown = subprocess.run(
        ["make", "-n", "-o", ".venv/.installed", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.replace("\\\n", " ")
    (command,) = [line for line in shown.splitlines() if "curious_jax.train" in line]
    program, argv = arguments(command, finished_run, tmp_path)
    assert program == "curious_jax.train"
    understood(program, argv, monkeypatch)


# README's commands, run.


def small(program, argv, folder):
    """A README command's arguments with what makes it small and keeps it in a folder."""
    if "--resume" in argv:
        return [*argv, *MORE_EPISODES]
    extra = [*PROGRAMS[program], *(("--num-seeds", "2") if "--suite" in argv else ())]
    if program == "curious_jax.train" or (
        program.startswith("experiments.") and program != "experiments.checks.seed_cost"
    ):
        extra += ["--out", str(folder / "new")]
    if "--perturb-at" in argv:  # within a small run, of an object that its world has
        extra += ["--perturb-at", "8", "--modules", "reach,push,push2"]
    if "--progress" in argv:  # one round of every policy
        extra = ["--size", "64x64"]
    if program == "curious_jax.play" and "--video" not in argv:
        extra += ["--video", str(folder / "video.gif")]
    return [*argv, *extra]


@pytest.mark.slow
@pytest.mark.parametrize("command", list(dict.fromkeys([*python_commands(README), *python_commands(RUNS)])))
def test_every_readme_command_runs_small(command, finished_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes that a program starts
    own = shutil.copytree(finished_run, tmp_path / "finished")
    shutil.copytree(own / "policies" / "last", own / "policies" / "20480")  # a policy that was kept on the way
    program, argv = arguments(command, own, tmp_path)
    if program in OWN_TESTS:
        assert f"{program.split('.')[-1]}.main(" in (ROOT / OWN_TESTS[program]).read_text()
        return
    if program in LISTS:
        subprocess.run([sys.executable, "-m", program, *argv], check=True)
        return
    main = main_of(program)
    if "--help" in argv:
        with pytest.raises(SystemExit, match="^0$"):
            main(argv)
    elif NEEDS_A_SCREEN in argv:
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        assert main(argv) == 2
        assert "screen" in capsys.readouterr().err
    elif needs := [extra for word, extra in EXTRAS.items() if any(one.startswith(word) for one in argv)]:
        status, said = main(small(program, argv, tmp_path)), capsys.readouterr().err
        assert status == 0 or (status == 2 and any(reason in said for reason in needs[0]))
    elif "--devices" in argv:  # so many must be there when JAX starts
        count = argv[argv.index("--devices") + 1]
        monkeypatch.setenv("XLA_FLAGS", f"--xla_force_host_platform_device_count={count}")
        subprocess.run([sys.executable, "-m", program, *small(program, argv, tmp_path)], check=True)
    else:
        assert main(small(program, argv, tmp_path)) == 0
