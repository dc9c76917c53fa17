"""Curves: what is drawn is what the rows say."""

import numpy as np
from helpers.rows import row

from curious_jax.show import curves


def test_series_lays_seeds_side_by_side():
    rows = [{"episodes": e, "seed": s, "x": x} for e, s, x in [(10, 3, 0.5), (10, 4, 0.7), (20, 3, None), (20, 4, 1.0)]]
    episodes, values = curves.series(rows, "x")
    assert episodes.tolist() == [10, 20]
    np.testing.assert_array_equal(values, [[0.5, 0.7], [np.nan, 1.0]])


def test_draw_writes_a_png_and_no_debris(tmp_path):
    rows = [row(10 * k, 0.1 * k) for k in range(1, 10)]
    curves.draw(rows, tmp_path / "curves.png", "a title")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    curves.draw([row(10 * k, 0.1 * k, seed=s) for k in range(1, 10) for s in range(3)], tmp_path / "curves.png")
    assert [p.name for p in tmp_path.iterdir()] == ["curves.png"]


def test_draw_survives_missing_numbers_and_one_point(tmp_path):
    curves.draw([row(10, 0.5, **{"learning_progress/reach": None})], tmp_path / "one.png")
    curves.draw([], tmp_path / "none.png")
    assert (tmp_path / "none.png").exists()


def test_lines_differ_without_colour():
    shown = [(curves.STYLES[i % len(curves.STYLES)], curves.MARKERS[i % len(curves.MARKERS)]) for i in range(12)]
    assert len(set(shown)) == 12


def test_bands_are_wilson_for_one_seed_and_standard_error_for_several():
    # 10 of 20: Wilson gives 0.299 to 0.701.
    rows = [row(10, 0.5)]
    values = np.array([[0.5]])
    low, high = curves._band(rows, "eval/success", "reach", values, values[:, 0], np.array([1]), np.array([True]))
    np.testing.assert_allclose([low[0], high[0]], [0.299, 0.701], atol=1e-3)
    values = np.array([[0.4, 0.6]])  # deviation 0.1414, standard error 0.1
    low, high = curves._band(rows, "competence", "reach", values, values.mean(axis=1), np.array([2]), np.array([True]))
    np.testing.assert_allclose([low[0], high[0]], [0.4, 0.6])


def test_small_plot_marks_each_module_at_its_height():
    lines = curves.small_plot([row(50, 0.0), row(100, 1.0)], width=20, height=5).splitlines()
    assert lines[0].startswith("1.0 ┤") and lines[0].rstrip().endswith("●")
    assert "■" in lines[4]  # push stays at 0
    assert lines[-2].endswith("100")
    assert lines[-1].split() == ["success:", "●", "reach", "■", "push"]


def test_small_plot_of_nothing():
    assert curves.small_plot([]) == ""


def test_main_draws_a_run_again(finished_run, capsys):
    assert curves.main([str(finished_run)]) == 0
    assert "curves.png" in capsys.readouterr().out


def test_main_refuses_what_is_no_run(refuse, tmp_path):
    assert refuse(curves, "nowhere").startswith("error: nowhere: is not the folder of a run")
    assert "usage" in refuse(curves)
