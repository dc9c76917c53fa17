"""The experiments' commands: grids, refusals, table, figure and summary, of cells that are done at once."""

import fcntl
import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.experiments import EXPERIMENTS, TWO_EVALUATIONS, make_cell, records

from curious_jax import train
from curious_jax.config import PRESET_SETTINGS, make_config
from experiments import ablation, curricula, distractors
from experiments.analysis import table as tables
from experiments.engine import cells, command, conditions, grid, plan, runner
from experiments.engine.cells import CellState
from experiments.engine.runner import CellResult

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"

SHORT = [text for name, value in TWO_EVALUATIONS.items() for text in grid.as_option(name, value)]


def program(name):
    return SimpleNamespace(main=lambda argv: command.main(EXPERIMENTS[name], argv))


@pytest.fixture
def instant(monkeypatch):
    """Cells that are done at once; yields their names. fail: those that fail, with the reason."""
    ran, fail = [], {}

    def run_cell(cell, out, *rest):
        ran.append(str(cell))
        reason = fail.get(cell.first)
        if reason:
            cells.note_failure(cell.folder(out), reason)
            return CellResult(str(cell), False, reason=reason)
        if cells.inspect(cell, out).state is CellState.MISSING:
            make_cell(cell, out)
        return CellResult(str(cell), True, attempts=1)

    monkeypatch.setattr(runner, "run_cell", run_cell)
    return SimpleNamespace(ran=ran, fail=fail)


def test_all_conditions_of_a_seed_are_run_before_the_next_seed(instant, empty_folder):
    assert program("architectures").main(["--world", "point", *SHORT, "--seeds", "4-5", "--group", "1"]) == 0
    assert [name.rpartition("/")[2] for name in instant.ran] == ["seed-4"] * 3 + ["seed-5"] * 3
    assert instant.ran[0].startswith("algorithm=muvfa") and len(set(instant.ran)) == 6


def test_every_experiment_lays_out_its_grid(instant, empty_folder, capsys):
    lines = {
        "ablation": {"changed=nothing", "changed=guide_0", "changed=batch_size_64+mirror_on"},
        "architectures": {"algorithm=muvfa", "algorithm=mgme", "algorithm=her"},
        "distractors": {f"algorithm={a},distractors={n}" for a in ("curious", "muvfa") for n in (0, 4, 7)},
        "learning_progress": {"replay=lp", "replay=uniform"},
        "perturbation": {"algorithm=curious", "algorithm=muvfa"},
        "scaling": {"algorithm=curious"},
        "curricula": {
            *(f"compared=estimators,name={name},distractors={n}" for name in ("plr", "uniform") for n in (0, 2)),
            *(f"compared=samplers,name={name},distractors=0" for name in ("riac", "mega")),
        },
        "sweep": {f"algorithm={a},epsilon={e}" for a in ("curious", "muvfa") for e in (0.2, 0.4)},
    }
    for name, expected in lines.items():
        axes = ["--algorithm", "curious,muvfa", "--epsilon", "0.2,0.4"] if name == "sweep" else []
        world = ["--world", "point", *SHORT, *(["--modules", "reach,push"] if name == "sweep" else [])]
        world += ["--perturb-at", "10"] if name in ("perturbation", "curricula") else []
        if name == "curricula":
            axes = ["--estimators", "plr,uniform", "--samplers", "riac,mega", "--distractors", "0,2"]
        if name == "ablation":
            axes = ["--variants", "guide=0; batch_size=64+mirror=on"]
        assert program(name).main([*world, "--seeds", "0-2", "--group", "2", "--out", name, *axes]) == 0
        assert {n.split("/")[0] for n in instant.ran} == expected
        assert len(instant.ran) == 2 * len(expected)  # seeds 0-1 and 2
        instant.ran.clear()
        made = {p.name for p in (empty_folder / name).iterdir()}
        assert made == {"cells", "table.csv", "summary.md", f"{name}.png", f"{name}.pdf"}
        rows = tables.read(empty_folder / name / "table.csv")
        once = sum("samplers" in cell for cell in expected)  # they end where the sensor would fail
        assert len(rows) == 3 * (2 * len(expected) - once) and set(rows["status"]) == {"done"}
        assert f"    python -m experiments.{name} --world point" in (empty_folder / name / "summary.md").read_text()


def test_samplers_end_where_the_sensor_of_the_estimators_runs_fails():
    own = SimpleNamespace(distractors="0,7", estimators="competence", samplers="mega")
    settings = {"world": "point", "episodes": 640, "perturb_at": 320}
    configs = [(one.labels, one.config()) for one in curricula.conditions(own, settings)]
    sizes = [(labels["compared"], c.schedule.episodes, c.perturbation.perturb_at) for labels, c in configs]
    assert sizes == [("estimators", 640, 320), ("estimators", 640, None), ("samplers", 320, None)]
    without = curricula.conditions(own, {"world": "point", "episodes": 640})
    assert {c.config().schedule.episodes for c in without} == {640}
    alone = SimpleNamespace(distractors="0", estimators="none", samplers="mega")
    short = curricula.conditions(alone, {"world": "point", "episodes": 64, "perturb_at": 320})
    assert {c.config().schedule.episodes for c in short} == {64}  # never longer than was asked for


def test_every_part_of_the_recipe_is_taken_away_once():
    """What `fast` has and the presets' defaults have not is in a variant each, in sizes that go together."""
    fast, cpu = (PRESET_SETTINGS[name] for name in ("fast", "cpu"))
    changed = {text.partition("=")[0] for text in ablation.VARIANTS}
    assert {name for name in fast if fast[name] != cpu.get(name)} - changed == {"num_envs"}
    own = SimpleNamespace(variants=";".join(ablation.VARIANTS))
    whole, *others = [one.config() for one in ablation.conditions(own, dict(ablation.EXPERIMENT.defaults["fetch"]))]
    assert whole.exploration.guide == fast["guide"] and whole.target_success == 0.9
    for text, config in zip(ablation.VARIANTS, others, strict=True):
        assert config != whole, text
    few = next(c for c, text in zip(others, ablation.VARIANTS, strict=True) if text.startswith("updates_per_cycle"))
    usual = make_config("cpu", preset="cpu").schedule
    assert few.schedule.updates_per_cycle / few.schedule.num_envs == usual.updates_per_cycle / usual.num_envs


@pytest.mark.parametrize("variants, named", [
    ("guide", "--variants guide:"), ("guide=", "--variants guide=:"), ("guide=0;=1", "--variants =1:"),
    ("guide=0;;mirror=on", "--variants :"), ("guide=2", "guide"), ("guidance=0", "guidance"),
])  # fmt: skip
def test_a_variant_that_says_nothing_is_refused(refuse, variants, named):
    assert named in refuse(program("ablation"), "--variants", variants)


def test_settings_of_the_world_and_of_the_user(instant, empty_folder, capsys):
    given = ["--world", "point", "--seeds", "0", "--hidden-size", "32", "--discount", "0.9", "--out", "d"]
    assert program("distractors").main([*given, "--distractors", "4"]) == 0
    asked = train.parser().read(["--world", "point", "--hidden-size", "32", "--discount", "0.9"])
    settings = command._settings(distractors.EXPERIMENT, asked, "d")
    conditions = distractors.conditions(SimpleNamespace(distractors="4"), settings)
    config = conditions[0].config()
    assert (config.network.hidden_size, config.ddpg.discount, config.distractors) == (32, 0.9, 4)
    assert config.schedule.num_envs == distractors.EXPERIMENT.defaults["point"]["num_envs"]
    assert len(instant.ran) == 2


def test_the_same_command_skips_what_is_done_and_goes_further(instant, empty_folder, capsys):
    given = ["--world", "point", "--out", "d", "--distractors"]
    assert program("distractors").main([*given, "0", "--seeds", "0-1"]) == 0
    before = (empty_folder / "d" / "table.csv").read_bytes()
    instant.ran.clear()
    assert program("distractors").main([*given, "0", "--seeds", "0-1"]) == 0
    assert instant.ran == [] and (empty_folder / "d" / "table.csv").read_bytes() == before
    assert program("distractors").main([*given, "0,4", "--seeds", "0-2"]) == 0
    assert len(instant.ran) == 2 + 2  # seed 2 with none, all three with four distractors
    assert "algorithm=curious,distractors=0/seed-2" in instant.ran
    assert program("distractors").main([*given, "0,4", "--seeds", "0-5", "--report-only"]) == 0
    assert "seeds 3, 4, 5 **missing**" in (empty_folder / "d" / "summary.md").read_text()


def test_shards_share_a_folder(instant, empty_folder, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-3", "--group", "1", "--shard"]
    ran = []
    for index in range(3):
        assert program("distractors").main([*given, f"{index}/3"]) == 0
        ran.append(set(instant.ran))
        instant.ran.clear()
    assert [len(r) for r in ran] == [3, 3, 2] and len(set.union(*ran)) == 8
    assert "Nothing: every seed" in (empty_folder / "d" / "summary.md").read_text()


def test_the_last_shard_to_end_writes_the_whole_report(instant, empty_folder, monkeypatch, capsys):
    """One that is still writing has an older view of the cells: the other waits for it, and reads them afterwards."""
    given = ["--world", "point", *SHORT, "--out", "d", "--distractors", "0", "--seeds", "0-1", "--group", "1"]
    other = threading.Thread(target=lambda: program("distractors").main([*given, "--shard", "1/2"]))
    written, ready, flock = [], threading.Event(), fcntl.flock

    def write_results(experiment, request, planned, command):
        if request.shard == (0, 2):
            other.start()
            assert ready.wait(60)
        written.append((request.shard, {one.state for one in planned} == {CellState.DONE}))
        ready.set()

    def lock(file, how):
        if how == fcntl.LOCK_EX and threading.current_thread() is other:
            ready.set()  # its cells have ended, and it waits
        flock(file, how)

    monkeypatch.setattr(command, "write_results", write_results)
    monkeypatch.setattr(fcntl, "flock", lock)
    assert program("distractors").main([*given, "--shard", "0/2"]) == 0
    other.join()
    assert written == [((0, 2), False), ((1, 2), True)]


def test_failed_cells_are_reported(instant, empty_folder, capsys):
    instant.fail[1] = "killed by signal 9"
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-1", "--group", "1"]
    assert program("distractors").main(given) == 1
    assert capsys.readouterr().err == "error: 2 cells failed; d/summary.md names them\n"
    rows = records(tables.read(empty_folder / "d" / "table.csv"))
    assert [(r["algorithm"], r["status"]) for r in rows if r["seed"] == 1] == [
        ("curious", "failed"),
        ("muvfa", "failed"),
    ]
    assert (
        "- CURIOUS, distractors 0: seeds 1 **failed** (killed by signal 9)"
        in (empty_folder / "d" / "summary.md").read_text()
    )
    instant.fail.clear()
    assert program("distractors").main(given) == 0  # tried again


BAD = [
    ("distractors", ["--distractors", "0,x"], "--distractors 0,x: must be whole numbers"),
    ("distractors", ["--distractors", "4,4"], "algorithm=curious,distractors=4: is asked for twice"),
    ("distractors", ["--distractors", "101"], "--distractors 101: must be a whole number between"),
    ("distractors", ["--seeds", "9-0"], "--seeds 9-0: must be seeds such as 0-9"),
    ("distractors", ["--seed", "3"], "--seed: use --seeds 0-9 here"),
    ("distractors", ["--num-seeds", "3"], "--num-seeds: use --group N here"),
    ("distractors", ["--algorithm", "curious"], "--algorithm: use the experiment's own two here"),
    ("distractors", ["--resume", "x"], "--resume: the same command"),
    ("distractors", ["--jobs", "0"], "--jobs 0: must be a whole number of 1 or more"),
    ("distractors", ["--engine", "cloud"], "--engine cloud: must be one of local, ray"),
    ("distractors", ["--shard", "4/4"], "--shard 4/4: must be i/n"),
    ("distractors", ["--hidden-sise", "8"], "did you mean --hidden-size?"),
    ("distractors", ["--modules", "reach,fly"], "unknown module 'fly'"),
    ("distractors", ["--out", "x" * 300], "cannot be a folder (File name too long); name another"),
    ("distractors", ["--report-only", "--out", "new"], "--report-only: new holds none of these cells"),
    ("sweep", ["--modules", ",".join(f"drag{k}" for k in range(2, 60)) + ";reach"], "too long for a folder's name"),
    ("distractors", ["--out"], "--out: expected one argument"),
    ("perturbation", ["--perturb-cube", "7"], "--perturb-cube 7: must be at most"),
    ("sweep", ["--modules", "reach", "--epsilon", "0.2,2"], "--epsilon 2.0: must be between 0 and 1"),
    ("sweep", ["--set", "epsilon=0.2,0.3"], "--set: no such option; use the setting's own option"),
    ("sweep", ["--seed", "1,2"], "--seed: use --seeds 0-9 here"),
    ("sweep", ["--hidden-size", "8,"], "--hidden-size '8,': must be values separated by commas"),
    ("sweep", ["--epsilon", "0.12345678,0.12345679"], "epsilon=0.12345679: must differ from epsilon=0.12345678 in the"),
    ("perturbation", ["--perturb-at", "none"], "--perturb-at none: must be the training episodes after which"),
    ("perturbation", ["--target-success", "0.9"], "--target-success 0.9: leave it out here"),
    ("sweep", ["--target-success", "0.8,0.9"], "--target-success 0.8: must be 0.9, which is mastery here, or more"),
    ("distractors", ["--wandb", "a/b"], "--wandb"),
    ("curricula", ["--estimators", "none", "--samplers", "none"], "there is nothing to compare"),
    ("curricula", ["--target-success", "0.8"], "--target-success 0.8: must be 0.9, which is mastery here, or more"),
]


@pytest.mark.parametrize("name, argv, mentions", BAD, ids=[" ".join(a) for _, a, _ in BAD])
def test_bad_input_is_one_line_and_writes_nothing(refuse, name, argv, mentions):
    assert mentions in refuse(program(name), "--world", "point", *argv)


def test_cells_with_other_settings_are_refused(instant, empty_folder, refuse, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0"]
    assert program("distractors").main(given) == 0
    capsys.readouterr()
    line = refuse(program("distractors"), *given, "--hidden-size", "16")
    assert "--hidden-size 16: the cells in d/cells/algorithm=curious,distractors=0 have 64" in line


def test_ray_that_is_not_there_is_an_extra(monkeypatch, empty_folder, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert program("distractors").main(["--world", "point", "--engine", "ray", "--out", "d"]) == 2
    assert capsys.readouterr().err == 'error: --engine ray: ray is not installed; pip install "curious_jax[ray]"\n'
    assert not (empty_folder / "d").exists()


def test_variants_of_other_settings_beside_what_was_listed_make_one_table(instant, empty_folder, capsys):
    """What one algorithm brings may be the file's, and another's not."""
    (empty_folder / "mine.yaml").write_text("algorithm: muvfa\nselection: uniform\nworld: point\n")
    given = ["--config", "mine.yaml", "--algorithm", "curious,muvfa", "--modules", "reach,push", "--out", "d"]
    assert program("sweep").main([*given, *SHORT, "--seeds", "0"]) == 0
    assert {name.partition("/")[0] for name in instant.ran} == {"algorithm=curious", "algorithm=muvfa"}
    assert "changed" not in Path("d/summary.md").read_text() and Path("d/table.csv").read_text().count("muvfa")


def test_an_experiment_keeps_out_of_another_s_folder(instant, empty_folder, refuse, capsys):
    given = ["--world", "point", *SHORT, "--out", "d", "--seeds", "0"]
    assert program("distractors").main([*given, "--distractors", "0"]) == 0
    before = Path("d/table.csv").read_bytes()
    capsys.readouterr()
    assert "--out d: holds the cells of experiments.distractors" in refuse(program("architectures"), *given)
    assert Path("d/table.csv").read_bytes() == before


def test_a_report_from_kept_metrics_has_the_seeds_and_the_length_that_are_asked_for(tmp_path, refuse, capsys):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "metrics.csv.gz").write_bytes((RESULTS / "point-learning_progress" / "metrics.csv.gz").read_bytes())
    given = ["--world", "point", "--out", str(kept), "--report-only"]
    assert program("learning_progress").main([*given, "--seeds", "0-2"]) == 0
    assert " 3 and 3 seeds" in (kept / "summary.md").read_text() or "| 3 |" in (kept / "summary.md").read_text()
    for name, options, line in (
        ("learning_progress", ["--seeds", "50"], "--seeds"),
        ("learning_progress", ["--seeds", "0-10"], "metrics.csv.gz lacks 10"),
        ("learning_progress", ["--episodes", "9600"], "--episodes"),
        ("distractors", [], "has no column algorithm; it is another experiment's"),
    ):
        before = (kept / "summary.md").read_bytes()
        assert command.main(EXPERIMENTS[name], [*given, *options]) == 2
        assert line in capsys.readouterr().err and (kept / "summary.md").read_bytes() == before


def test_a_report_from_the_kept_metrics_of_a_sweep_over_episodes(instant, empty_folder, capsys):
    """That label has a column of its own name, as every table has episodes."""
    given = ["--world", "point", *SHORT, "--modules", "reach,push", "--seeds", "0", "--out", "d"]
    given[given.index("--episodes") + 1] = "20,40"
    assert program("sweep").main(given) == 0
    tables.write(tables.read(empty_folder / "d" / "table.csv"), empty_folder / "d" / tables.PACKED)
    assert program("sweep").main([*given, "--report-only"]) == 0, capsys.readouterr().err


def test_figures_do_not_hang_on_the_user_s_matplotlib(instant, empty_folder, monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    given = ["--world", "point", *SHORT, "--distractors", "0", "--seeds", "0", "--out", "d"]
    assert program("distractors").main(given) == 0 and Path("d/summary.md").exists()


def test_a_run_of_another_condition_that_came_meanwhile_stands_in_the_summary(monkeypatch, empty_folder, capsys):
    given = ["--world", "point", *SHORT, "--distractors", "0", "--seeds", "0-1", "--group", "1", "--out", "d"]

    def changed(cell, out, *rest):
        folder = make_cell(cell, out)
        if str(cell) == "algorithm=muvfa,distractors=0/seed-1":
            config = json.loads((folder / "config.json").read_text())
            config["network"]["hidden_size"] = 16
            (folder / "config.json").write_text(json.dumps(config))
            return CellResult(str(cell), False, reason="another")
        return CellResult(str(cell), True)

    monkeypatch.setattr(runner, "run_cell", changed)
    assert program("distractors").main(given) == 1
    assert "its run has --hidden-size 16" in Path("d/summary.md").read_text()


def test_damaged_cells_are_named_by_the_report_and_run_again(instant, empty_folder, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-1"]
    assert program("distractors").main(given) == 0
    cell = empty_folder / "d" / "cells" / "algorithm=curious,distractors=0" / "seeds-0-1"
    before = (empty_folder / "d" / "table.csv").read_bytes()
    (cell / "metrics.jsonl").write_bytes(b"\xff\n")
    assert program("distractors").main([*given, "--report-only"]) == 1
    streams = capsys.readouterr()
    assert "seeds-0-1: damaged: line 1 of metrics.jsonl cannot be read" in streams.out
    assert streams.err == "error: 1 cells failed; d/summary.md names them\n"
    assert "seeds 0, 1 **damaged** (line 1 of metrics" in (empty_folder / "d" / "summary.md").read_text()
    cells.put_aside(cell, "damaged")  # which is what running it does first
    assert program("distractors").main(given) == 0
    assert (empty_folder / "d" / "table.csv").read_bytes() == before


def test_the_report_is_made_from_committed_metrics_alone(instant, empty_folder, capsys):
    given = ["--world", "point", "--distractors", "0", "--seeds", "0-1"]
    assert program("distractors").main([*given, "--out", "d"]) == 0
    kept = empty_folder / "kept"
    kept.mkdir()
    tables.write(tables.read(empty_folder / "d" / "table.csv"), kept / tables.PACKED)
    instant.ran.clear()
    assert program("distractors").main([*given, "--out", "kept", "--report-only"]) == 0
    assert instant.ran == [] and (kept / "distractors.png").stat().st_size > 1000
    for name in ("table.csv", "summary.md"):
        texts = [(folder / name).read_text().split("\n", 3)[3:] for folder in (kept, empty_folder / "d")]
        assert texts[0] == texts[1]  # but for the command in the head
    assert sorted(p.name for p in kept.iterdir()) == [
        "distractors.pdf", "distractors.png", "metrics.csv.gz", "summary.md", "table.csv",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kept", sorted(RESULTS.glob("*/*.csv.gz")), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_committed_metrics_give_the_committed_summary(kept, tmp_path):
    summary = "summary.md" if kept.name == tables.PACKED else kept.name.replace(".csv.gz", ".md")
    committed = (kept.parent / summary).read_text()
    (command,) = (line for line in committed.split("\n") if line.startswith("    python -m experiments."))
    _, _, module, *given = shlex.split(command)
    (tmp_path / tables.PACKED).write_bytes(kept.read_bytes())
    assert program(module.rpartition(".")[2]).main([*given, "--out", str(tmp_path), "--report-only"]) == 0
    made = (tmp_path / "summary.md").read_text()
    assert made.split("\n", 3)[3:] == committed.split("\n", 3)[3:]  # but for the command in the head


def test_diverged_seeds_are_run_one_by_one_once(empty_folder, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-3", "--group", "2"]
    curious, _ = command.read(EXPERIMENTS["distractors"], given).conditions
    make_cell(grid.Cell(curious, 0, 2), Path("d"), status="diverged")

    def todo(*shard):
        request = command.read(EXPERIMENTS["distractors"], [*given, "--retry-diverged", *shard])
        return [str(cell) for cell in command.prepare(request)]

    parts = [todo("--shard", f"{index}/2") for index in range(2)]  # the first puts the diverged cell aside
    names = [name.rpartition("/")[2] for part in parts for name in part if name.startswith(curious.name)]
    assert sorted(names) == ["seed-0", "seed-1", "seeds-2-3"]
    assert len({*parts[0], *parts[1]}) == len(parts[0]) + len(parts[1]) == 5
    make_cell(grid.Cell(curious, 0, 1), Path("d"), status="diverged")  # by itself, too: it stays
    assert set(todo()) == {*parts[0], *parts[1]} - {f"{curious.name}/seed-0"}


@pytest.mark.parametrize("own", [[], ["--retry-diverged"]])
def test_another_shard_may_put_a_diverged_cell_aside_at_any_moment(own, empty_folder, monkeypatch, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-3", "--group", "2", *own]
    request = command.read(EXPERIMENTS["distractors"], given)
    folder = make_cell(grid.Cell(request.conditions[0], 0, 2), Path("d"), status="diverged")
    planning = plan.plan

    def meanwhile(*rest, **named):
        planned = planning(*rest, **named)
        if folder.exists():
            cells.put_aside(folder, "diverged")
        return planned

    monkeypatch.setattr(plan, "plan", meanwhile)
    names = [str(cell).rpartition("/")[2] for cell in command.prepare(request)]
    assert not cells.note_path(folder).exists()
    assert ("seed-0" in names and "seed-1" in names) or not own  # else the next command has them


def test_the_end_of_a_cell_is_noted_once(instant, empty_folder, monkeypatch, capsys):
    given = ["--world", "point", "--out", "d", "--distractors", "0", "--seeds", "0-1"]
    request = command.read(EXPERIMENTS["distractors"], given)
    for condition in request.conditions:
        make_cell(grid.Cell(condition, 0, 2), Path("d"))
    command.prepare(request)
    notes = {path: path.stat().st_mtime_ns for path in Path("d").glob("cells/*/seeds-0-1.json")}
    first, second = notes
    first.write_text('{"state": "done"}')  # without checksums
    command.prepare(request)
    assert json.loads(first.read_text())["sha256"] and second.stat().st_mtime_ns == notes[second]


@pytest.mark.parametrize("more", [[], ["--keep-states"], ["--episodes", "40", "--capacity", "20"]])
def test_checkpoints_of_cells_whose_sweep_was_killed_stay(more, empty_folder, capsys):
    given = ["--world", "point", *SHORT, "--out", "d", "--distractors", "0", "--seeds", "0"]
    request = command.read(EXPERIMENTS["distractors"], given)
    for condition in request.conditions:
        conditions.claim_condition(Path("d"), condition, "distractors")
    folder = make_cell(grid.Cell(condition, 0, 1), Path("d"), states=["20"])
    command.prepare(command.read(EXPERIMENTS["distractors"], [*given, *more]))
    assert (folder / "checkpoints" / "20").is_dir()
    assert "--episodes" in more or cells.is_noted(folder, CellState.DONE)


def test_without_pandas_a_line_says_what_to_install(monkeypatch, refuse):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert 'pip install "curious_jax[experiments]"' in refuse(program("distractors"), "--world", "point")


def test_the_list_of_commands(capsys):
    """python -m experiments lists every program in it, with what it does."""
    listed = subprocess.run([sys.executable, "-m", "experiments"], cwd=ROOT, capture_output=True, text=True).stdout
    for name in (*EXPERIMENTS, "checks.peers", "checks.parity", "checks.seed_cost", "checks.steadiness"):
        assert f"python -m experiments.{name} " in listed
    assert "probe" not in listed


def test_a_sweeps_help_says_how_a_grid_is_written(capsys):
    with pytest.raises(SystemExit):
        program("sweep").main(["--help"])
    assert "--algorithm curious,muvfa" in capsys.readouterr().out
