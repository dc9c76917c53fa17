"""The comparison of runs: one line per run and module, a table, the settings that differ, and where the files go."""

import json

import pytest
from helpers.rows import row

from curious_jax import report
from curious_jax.show import compare, page


def make(folder, rows, status=None, **config):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"algorithm": "curious", "seed": 0, **config}))
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    if status:
        (folder / "summary.json").write_text(json.dumps({"status": status, "wall_s": 61.0}))
    return folder


@pytest.fixture
def two(tmp_path):
    """Two runs: one of a seed that is done, one of two seeds, under way, with another learning rate."""
    first = make(tmp_path / "a", [row(10, 0.1), row(20, 0.5)], "completed", ddpg={"actor_lr": 1e-3, "discount": 0.9})
    rows = [row(episodes, reach, seed=seed) for episodes in (10, 20) for seed, reach in ((0, 0.4), (1, 0.6))]
    return first, make(tmp_path / "b", rows, ddpg={"actor_lr": 3e-3, "discount": 0.9}, learner="td3")


def loaded(folders):
    return compare.load(folders, [report.read(folder) for folder in folders])


def test_panels_are_the_mean_and_every_module_that_some_run_evaluates(tmp_path):
    other = row(10) | {"eval/success/stack": 0.25, "eval/n/stack": 20, "p_module/stack": 0.1}
    runs = loaded([make(tmp_path / "a", [row(10)]), make(tmp_path / "b", [other])])
    assert [name for _, name in compare.panels(runs)] == ["success", "reach", "push", "stack"]


def test_the_settings_that_differ_and_no_others(two):
    assert compare.differing(loaded(two)) == {"actor_lr": [1e-3, 3e-3], "learner": [None, "td3"]}


def test_every_run_has_its_line_in_every_panel(two):
    pytest.importorskip("plotly")
    drawn = [trace for trace in compare.figure(loaded(two)).data if trace.line.width]
    assert [trace.name for trace in drawn] == ["a", "b"] * 3
    assert drawn[0].y == (0.05, 0.25) and drawn[1].y == (0.25, 0.25)  # the mean of reach and push, over seeds
    assert len({trace.line.color for trace in drawn}) == 2
    assert sum(bool(trace.showlegend) for trace in drawn) == 2


def test_the_table_has_a_line_per_run(two):
    pytest.importorskip("plotly")
    text = compare.build(loaded(two))
    first, second = (text.split(f"</span>{name}</td>")[1].split("</tr>")[0] for name in "ab")
    assert "completed" in first and ">61<" in first and "0.500 (0.30 to 0.70)" in first  # Wilson of 10 of 20
    # Two seeds at 0.4 and 0.6: standard error 0.1, t(0.975, 1) = 12.7.
    assert "running" in second and ">20<" in second and "0.500 (0.00 to 1.00)" in second


def test_cells_of_two_experiments_are_told_apart(tmp_path):
    folders = [tmp_path / top / "cells" / "algorithm=curious" / "seed-0" for top in "ab"]
    runs = compare.load([*folders, folders[0]], [[], [], []])
    assert [run.name for run in runs] == [f"{top}/cells/algorithm=curious/seed-0" for top in "aba"]


def test_runs_of_one_name_are_told_apart(tmp_path):
    folders = [make(tmp_path / parent / "run", [row(10)]) for parent in ("x", "y")]
    runs = loaded(folders)
    assert [run.name for run in runs] == ["x/run", "y/run"]
    assert compare._settings(runs) == "<p>All settings are the same.</p>"


def test_the_files_go_into_the_current_folder_or_where_told(two, tmp_path, empty_folder, capsys):
    assert report.main([*map(str, two)]) == 0
    shown = capsys.readouterr().out
    assert "curves: comparison.png" in shown
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "comparison.html").exists() == page.available()
    assert report.main([*map(str, two), "--out", "there"]) == 0
    assert (tmp_path / "there" / "comparison.png").exists()
    assert not list(two[0].glob("*.png"))


def test_a_folder_that_is_no_run_s_is_named(two, refuse):
    assert "nowhere: no such folder; give the folder of a run" in refuse(report, two[0], "nowhere")


def test_of_many_runs_some_are_named(two, monkeypatch):
    monkeypatch.setattr(compare, "NAMED", 1)
    assert compare.png(loaded(two))[:4] == b"\x89PNG"
