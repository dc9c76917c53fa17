"""One door to all programs, and a light one: help and typos are answered before JAX is loaded."""

import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from curious_jax import __main__ as door

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_it_lists_the_programs(argv, capsys):
    assert door.main(argv) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in door.PROGRAMS)
    assert "take by name: all-starts, fetch-push, four-modules." in text


def test_every_program_has_a_console_script_and_a_module():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {f"curious-{name}": f"curious_jax.{name}:main" for name in door.PROGRAMS}
    assert {**wanted, "curious": "curious_jax.__main__:main"}.items() <= scripts.items()
    assert all((ROOT / "curious_jax" / f"{name}.py").is_file() for name in door.PROGRAMS)


def test_a_program_s_arguments_are_its_own(capsys):
    assert door.main(["train", "--lr", "1"]) == 2
    assert capsys.readouterr().err == "error: --lr: no such option; use --actor-lr, --critic-lr\n"


@pytest.mark.parametrize(
    ("name", "line"),
    [("trian", "error: trian: no such program; did you mean train?"), ("x", "error: x: no such program; there are ")],
)
def test_an_unknown_program_is_named(name, line, capsys):
    assert door.main([name]) == 2
    assert capsys.readouterr().err.startswith(line)


def test_every_public_name_is_there_and_can_be_called_whatever_was_imported_first():
    code = """
import sys
import curious_jax
assert "jax" not in sys.modules
from curious_jax.fit import Progress  # the module, which is the function's namesake
assert all(name in dir(curious_jax) and getattr(curious_jax, name) for name in curious_jax.__all__)
for name in ("make_config", "make", "fit", "evaluate", "load_policy", "save_policy", "register"):
    assert callable(getattr(curious_jax, name)), name
from curious_jax import evaluate, fit
assert fit.Progress is Progress and callable(evaluate.main)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


LIGHT = """
import contextlib, io, sys
from curious_jax import __main__ as door
for name in door.PROGRAMS:
    for argv in (["--help"], ["--typo"]):
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
            try:
                status = door.main([name, *argv])
            except SystemExit as end:
                status = end.code
        assert status == (0 if argv == ["--help"] else 2), (name, argv, status)
        assert ("usage" in out.getvalue()) if status == 0 else err.getvalue().count("\\n") == 1, (name, argv)
    assert "jax" not in sys.modules, name
"""


def test_help_and_a_typo_are_answered_without_jax():
    subprocess.run([sys.executable, "-c", LIGHT], cwd=ROOT, check=True)


@pytest.mark.parametrize("argv", [["train", "--help"], ["train", "--sede", "1"], ["evaluate", "--help"], []])
def test_help_and_a_typo_take_less_than_half_a_second(argv):
    """Processor time, so that other programs do not count; the best of three."""

    def seconds():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "curious_jax", *argv], cwd=ROOT, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    assert min(seconds() for _ in range(3)) < 0.5
