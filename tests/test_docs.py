"""Documentation: what it says of the program is what the program does."""

import importlib
import importlib.util
import json
import os
import pkgutil
import re
import runpy
import subprocess
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.documentation import ROOT, described, load_hooks, page
from helpers.parts import fetch_obs

import curious_jax
import envs
from curious_jax import config as configs
from curious_jax.cli import parser as options
from curious_jax.config import option_name
from curious_jax.config.fields import ESTIMATORS, GOALS
from curious_jax.learner import curriculum, replay
from envs import modules as env_modules
from envs.fetch import constants
from envs.fetch import modules as fetch_modules
from envs.fetch.observation import ObservationLayout


def code_blocks(text, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def table_rows(text):
    """The cells of every table row of a page."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


# Settings: made from the program.


def test_the_settings_page_has_every_setting_with_default_range_and_source():
    text = load_hooks().with_tables(page("settings.md"))
    assert "<!-- table" not in text
    rows = {cells[0]: cells for cells in table_rows(text.replace("\\|", "/")) if len(cells) == 3}
    for name, (_, field) in configs.fields_by_name().items():
        _, default, meaning = rows[f"`{option_name(name)}`"]
        assert default == options.default(name)
        assert all(detail in meaning for detail in options.details(field)), name
    assert rows["`--updates-per-cycle`"][1] == "cpu 192, fast 256, gpu 2000, paper 100, point 80, wide 8192"


def test_an_unknown_table_is_an_error():
    with pytest.raises(KeyError):
        load_hooks().with_tables("<!-- table: nothing -->")


# The algorithm page: quotations of the code, and examples worked by hand.


def test_quoted_code_stands_in_the_program():
    sources = ("trainer.py", "batches.py", "rollout.py", "hindsight.py", "state.py")
    code = " ".join(" ".join((ROOT / "curious_jax" / "learner" / name).read_text().split()) for name in sources)
    table = page("algorithm.md").split("## The formulas")[0]
    quotes = [q for cells in table_rows(table)[2:] for q in re.findall(r"`([^`]+)`", cells[-1])]
    calls = [q for q in quotes if re.search(r"[=(]", q)]
    assert len(calls) >= 20
    for quote in calls:
        assert quote in code, quote


def test_the_algorithm_page_goes_through_algorithm_1_line_by_line():
    lines = []
    for cells in table_rows(page("algorithm.md").split("## The formulas")[0])[2:]:
        for part in cells[0].split(","):
            first, _, last = part.strip().partition("–")
            lines += range(int(first), int(last or first) + 1)
    assert lines == list(range(1, 24))


def test_the_worked_examples_are_right():
    p = curriculum.probabilities(jnp.array([0.1, -0.3, 0.0, 0.0]), 0.4)
    np.testing.assert_allclose(p, [0.25, 0.55, 0.1, 0.1], rtol=1e-6)
    assert replay.shares(p, 256).tolist() == [65, 141, 25, 25]
    assert "gives p = (0.25, 0.55, 0.1, 0.1)" in page("algorithm.md")
    assert "65, 141, 25, 25" in page("algorithm.md")


# The environment page.


def test_the_observation_table_is_the_layouts():
    layout = ObservationLayout(num_cubes=2, num_distractors=1)
    rows = [cells for cells in table_rows(page("environment.md")) if re.fullmatch(r"\d+–\d+", cells[0])]
    found, units = {}, {}
    for index, name, unit in rows:
        first, last = map(int, index.split("–"))
        found[name.strip("`")] = slice(first, last + 1)
        units[name.strip("`")] = unit
    assert found == layout.table() and list(found) == list(layout.table())
    assert units == layout.units()
    assert layout.cube_position(2) == slice(25, 28)  # the page's example


def test_the_environment_pages_numbers_are_the_programs():
    text = page("environment.md")
    for value in (
        f"{constants.EPISODE_LENGTH} control steps",
        f"{constants.SUBSTEPS} physics steps, {constants.CONTROL_PERIOD * 1e3:.0f} ms",
        f"{constants.DISPLACEMENT} m · a[0:3]",
        f"x {constants.DISTRACTOR_X[0]} to {constants.DISTRACTOR_X[1]}",
        f"y {constants.DISTRACTOR_Y[0]} to {constants.DISTRACTOR_Y[1]:.1f}",
        f"a mass of {constants.CUBE_MASS:.0f} kg",
    ):
        assert value in text, value


# A module of one's own: the page's code, run.


@pytest.fixture
def lift_script(tmp_path, monkeypatch):
    """The page's file, in a folder of its own; what it registers is forgotten afterwards."""
    monkeypatch.setattr(env_modules, "_REGISTRY", {})
    path = tmp_path / "lift.py"
    path.write_text(code_blocks(page("own-module.md"))[0])
    return path


def test_the_pages_module_does_what_the_page_says(lift_script):
    runpy.run_path(str(lift_script))
    layout = ObservationLayout(num_cubes=2, num_distractors=0)
    module = env_modules.registered()["lift"].build(layout)

    def at(height):
        return jnp.zeros(layout.size).at[layout.cube_position(1).stop - 1].set(height)

    assert module.outcome(at(0.5)).tolist() == [0.5]
    assert bool(module.solved(at(0.52), jnp.array([0.5]))) and not bool(module.solved(at(0.425), jnp.array([0.5])))
    assert not bool(module.solved(at(jnp.nan), jnp.array([0.5])))
    goals = jax.vmap(module.sample_goal)(jax.random.split(jax.random.key(0), 200))
    assert goals.shape == (200, 1) and 0.475 <= goals.min() and goals.max() <= 0.725
    assert goals.min() - 0.425 >= 0.05 - 1e-6  # none is solved by a cube on the table


@pytest.fixture
def beside_script(tmp_path, monkeypatch):
    """The page's second file, ready to be imported; what it registers is forgotten afterwards."""
    monkeypatch.setattr(env_modules, "_REGISTRY", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "beside.py").write_text(code_blocks(page("own-module.md"))[1])
    yield
    sys.modules.pop("beside", None)


def test_the_pages_relative_goal_does_what_the_page_says(beside_script):
    importlib.import_module("beside")
    layout = ObservationLayout(num_cubes=2, num_distractors=0)
    table = fetch_modules.table(("reach", "left-of"), layout)
    obs = fetch_obs(layout, gripper=(1.3, 0.7, 0.5), cube1=(1.31, 0.85, 0.425), cube2=(1.3, 0.75, 0.425))
    goal = jnp.array([0.0, 0.0, 0.0, 0.0, 0.12])
    np.testing.assert_allclose(table.outcomes(obs)[3:], [0.01, 0.1], atol=1e-6)
    assert float(table.reward(obs, goal, jnp.int32(1))) == 0.0  # 2.2 cm away
    assert float(table.reward(obs, -goal, jnp.int32(1))) == -1.0
    np.testing.assert_allclose(table.place(1, goal[3:], obs), [1.3, 0.87], atol=1e-6)
    moved = fetch_obs(layout, gripper=(1.3, 0.7, 0.5), cube1=(1.31, 0.85, 0.425), cube2=(1.3, 0.65, 0.425))
    assert table.relevant(obs, moved).tolist() == [False, False]
    far = obs.at[layout.cube_relative_position(1)].set(0.1)
    acting, asked = table.guide(far, goal, jnp.int32(1))
    assert int(acting) == 0
    np.testing.assert_allclose(asked, [1.31, 0.85, 0.425, 0.0, 0.0], atol=1e-6)


def test_the_point_world_takes_the_relative_goal_and_refuses_a_height(beside_script, lift_script):
    importlib.import_module("beside")
    runpy.run_path(str(lift_script))
    assert envs.make("point", ("reach", "left-of")).modules.names == ("reach", "left-of")
    with pytest.raises(ValueError, match=r"lift: outcome gives shape \(0,\); it must be \(1,\), as goal_size says"):
        envs.make("point", ("reach", "lift"))


@pytest.mark.slow
def test_the_pages_module_is_counted_and_trained_from_python(beside_script, monkeypatch, tmp_path, capsys):
    tiny = dict(world="point", num_envs=8, hidden_size=8, updates_per_cycle=2, batch_size=8, episodes=32, capacity=160)
    original = configs.make_config
    monkeypatch.setattr(curious_jax, "make_config", lambda platform, **given: original(platform, **{**given, **tiny}))
    monkeypatch.chdir(tmp_path)
    count, fit = code_blocks(page("own-module.md"))[2:4]
    exec(count, {})
    exec(fit, {})
    first, last = capsys.readouterr().out.strip().splitlines()
    assert float(first.split(":")[1]) < 0.1 and "left-of" in last


@pytest.mark.slow
def test_the_pages_module_trains(lift_script, small):
    command = [sys.executable, "-m", "curious_jax.train", "--import", "lift", "--modules", "reach,push,lift"]
    command += [*small[4:], "--out", "run"]
    path = dict(os.environ, PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=lift_script.parent, capture_output=True, text=True, env=path)
    assert done.returncode == 0, done.stderr
    assert "lift" in (lift_script.parent / "run" / "summary.json").read_text()
    again = code_blocks(page("own-module.md"))[-1].replace("runs/NAME", "run").replace("200", "2")
    done = subprocess.run(
        [sys.executable, "-c", again], cwd=lift_script.parent, capture_output=True, text=True, env=path
    )
    assert done.returncode == 0, done.stderr
    assert "'lift': " in done.stdout


# An estimator of one's own: the page's code, run.


@pytest.mark.slow
def test_the_pages_estimator_is_twenty_lines_and_trains(tmp_path, monkeypatch, small, capsys):
    from curious_jax import train
    from curious_jax.learner import estimators

    monkeypatch.setattr(estimators, "_MAKERS", dict(estimators._MAKERS))
    monkeypatch.syspath_prepend(tmp_path)
    code = code_blocks(page("curricula.md"))[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "surprise.py").write_text(code)
    given = ["--import", "surprise", "--estimator", "surprise", "--out", str(tmp_path / "run")]
    assert train.main([*small, *given]) == 0
    assert '"predicted/push"' in (tmp_path / "run" / "metrics.jsonl").read_text()
    assert train.main(["--resume", str(tmp_path / "run"), "--episodes", "24"]) == 0


@pytest.mark.slow
def test_the_pages_goal_sampler_is_sixteen_lines_and_trains(tmp_path, monkeypatch, small, capsys):
    from curious_jax import train
    from curious_jax.learner import goals

    monkeypatch.setattr(goals, "_MAKERS", dict(goals._MAKERS))
    monkeypatch.syspath_prepend(tmp_path)
    code = code_blocks(page("curricula.md"))[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
    (tmp_path / "far.py").write_text(code)
    assert train.main([*small, "--import", "far", "--goals", "far", "--out", str(tmp_path / "run")]) == 0
    sys.modules.pop("far")


def test_the_runs_page_names_every_metric(finished_run):
    rows = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    table = page("runs.md").split("### Metrics by name")[1].split("\n## ")[0]
    named = {name for cells in table_rows(table)[2:] for name in re.findall(r"`([^`]+)`", cells[0])}
    modules = json.loads((finished_run / "config.json").read_text())["modules"]
    found = {re.sub(rf"/({'|'.join(modules)}|distractor\d+)$", "/NAME", key) for row in rows for key in row}
    assert found <= named, found - named
    assert {"eval/success/NAME", "p_module/NAME", "perf/updates_per_s"} <= found
    assert all(row["episodes"] > 0 for row in rows)


def test_the_curricula_page_names_every_choice():
    names = {cells[0].strip("`") for cells in table_rows(page("curricula.md"))}
    assert {*ESTIMATORS, *GOALS} <= names


# The Python page.


def public_names():
    """(package, name) of everything that a module of ours lists in `__all__`."""
    for folder in ("curious_jax", "envs", "experiments"):
        for path in (ROOT / folder).rglob("*.py"):
            if re.search(r"^__all__ = ", path.read_text(), re.MULTILINE):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                yield from ((module, name) for name in importlib.import_module(module).__all__)


def test_every_public_name_is_in_the_reference():
    """Under the name of its home where the package only hands it on, with its public name as heading."""
    found, names, text = described(), list(public_names()), page("reference.md")
    assert len(names) > 15
    for module, name in names:
        if name == "__version__":
            assert "`curious_jax.__version__`" in text
        elif module == "curious_jax":
            home, _, other = curious_jax._HOMES[name].partition(":")
            thing = getattr(importlib.import_module(home), other or name)
            place = f"{getattr(thing, '__module__', home)}.{other or name}"
            assert place in found, (name, place)
            assert f'::: {place}\n    options: {{heading: "curious_jax.{name}"' in text
        else:
            assert f"{module}.{name}" in found, f"{module}.{name}"


def test_every_name_of_the_reference_exists_and_says_what_it_is():
    for name in described():
        thing = pkgutil.resolve_name(name)
        assert isinstance(thing, dict) or (thing.__doc__ or "").strip(), name


def test_what_the_python_page_names_is_in_the_reference():
    """A method stands under its class, a package under its own page."""
    named = set(re.findall(r"`((?:curious_jax|envs)(?:\.\w+)+)`", page("api.md")))
    classes = {name.rpartition(".")[0] for name in named if name.rpartition(".")[0] in described()}
    for name in named - described():
        handed_on = name.count(".") == 1 and name.partition(".")[2] in curious_jax.__all__
        is_module = isinstance(pkgutil.resolve_name(name), types.ModuleType) and not handed_on
        assert handed_on or is_module or name.rpartition(".")[0] in classes, name


def test_every_name_on_the_python_page_exists():
    names = re.findall(r"`((?:curious_jax|envs)(?:\.\w+)+)`", page("api.md"))
    assert len(names) > 30
    for name in names:
        assert pkgutil.resolve_name(name) is not None


@pytest.mark.slow
def test_the_pages_sink_writes_its_table_and_a_resumed_run_goes_on(small, tmp_path, monkeypatch, capsys):
    from curious_jax import train
    from curious_jax.show import sinks

    monkeypatch.setattr(sinks, "_OWN", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "success_table.py").write_text(code_blocks(page("api.md"))[-1])
    run = tmp_path / "run"
    assert train.main([*small, "--import", "success_table", "--out", str(run)]) == 0
    assert train.main(["--resume", str(run), "--episodes", "24"]) == 0
    rows = [line.split(",") for line in (run / "success.csv").read_text().splitlines()]
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert rows == [["0", str(row["episodes"]), str(row["eval/success"])] for row in metrics]
    sys.modules.pop("success_table")


@pytest.mark.parametrize(
    "name", ["environment.md", "api.md", "tutorial.md", "own-module.md", "export.md", "trainers.md", "curricula.md"]
)
def test_python_on_the_pages_is_python(name):
    blocks = code_blocks(page(name))
    assert blocks
    for block in blocks:
        compile(block, name, "exec")


@pytest.mark.slow
def test_the_environment_pages_example_runs(capsys):
    exec(code_blocks(page("environment.md"))[0], {})
    assert capsys.readouterr().out.strip() == "(8, 40)"


@pytest.mark.slow
def test_the_trainers_pages_loop_and_its_vector_environment_run(capsys):
    """The loop in JAX on the point world, and Gymnasium's vector for two episodes."""
    blocks = code_blocks(page("trainers.md"))
    (loop,) = [block for block in blocks if "place_goal" in block]
    exec(loop, {})
    assert capsys.readouterr().out.startswith("(10, 20, 64, 6) (10, 20, 64) solved at the last step: 0.0")
    (vector,) = [block for block in blocks if "gymnasium.make_vec" in block]
    exec(vector, {})
    assert capsys.readouterr().out.startswith("1600 transitions, 32 episodes")


def test_the_trainers_page_has_the_goals_of_the_gymnasium_environment():
    from envs.gymnasium_env.goals import make_arm

    goals = make_arm(("reach", "push", "pnp", "stack"), "default", "c")[1]
    rows = [row for row in table_rows(page("trainers.md")) if re.fullmatch(r"\d+:\d+", row[0])]
    found = {name or None: slice(*map(int, place.split(":"))) for place, name, *_ in rows}
    assert found == {**goals.slots, None: slice(15, 19)} and goals.size == 19
    beside = make_arm(("reach", "push", "pnp", "stack"), "default", "c", distractors=2)[1]
    assert f"goals of {beside.size} numbers, and observations of {beside.layout.size} in place" in page("trainers.md")


def test_the_pages_own_modules_have_goals_for_gymnasium(beside_script, lift_script):
    from envs.gymnasium_env.goals import make_arm

    importlib.import_module("beside")
    runpy.run_path(str(lift_script))
    assert make_arm(("reach", "lift", "left-of"), "default", "c")[1].size == 3 + 1 + 2 + 3


@pytest.mark.slow
@pytest.mark.parametrize("path", ["README.md", "docs/api.md"])
def test_training_from_python_as_shown_runs(path, monkeypatch, capsys, tmp_path):
    """On the point world, in four cycles of eight episodes, two of them without an evaluation."""
    tiny = {"num_envs": 8, "updates_per_cycle": 2, "capacity": 16, "episodes": 32, "hidden_size": 8, "batch_size": 8}
    tiny |= {"evaluation_interval": 16, "evaluation_episodes": 8, "world": "point"}
    original = configs.make_config
    monkeypatch.setattr(configs, "make_config", lambda platform, **given: original(platform, **{**given, **tiny}))
    monkeypatch.chdir(tmp_path)
    exec(code_blocks((ROOT / path).read_text())[0], {})
    assert "\n32 " in "\n" + capsys.readouterr().out
