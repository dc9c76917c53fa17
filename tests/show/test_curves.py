"""Curves: what is drawn is what the rows say."""

import subprocess
import sys

import numpy as np
import pytest
from helpers.rows import row

from curious_jax.show import curves


def test_a_png_is_drawn_of_several_seeds():
    assert curves.png([row(10 * k, 0.1 * k, seed=s) for k in range(1, 4) for s in range(3)]).startswith(b"\x89PNG")


def test_missing_numbers_and_one_point_are_drawn():
    missing = {"learning_progress/reach": None, "eval/n/reach": 0, "eval/n/push": None}
    assert curves.png([row(10, 0.5, **missing)]).startswith(b"\x89PNG")


def test_names_are_text_and_the_user_s_matplotlib_does_not_matter():
    """Neither TeX in a module's name, nor usetex, which needs LaTeX."""
    import matplotlib

    names = (r"$\frac{1}{$", "$x^", r"\alpha", "_hidden", "a" * 100)
    found = {f"{key}/{name}": 0.5 for key in ("eval/success", "competence", "p_module") for name in names}
    plain = curves.png([found | {"episodes": 10}], names[0])
    with matplotlib.rc_context({"text.usetex": True, "axes.facecolor": "red"}):
        assert curves.png([found | {"episodes": 10}], names[0]) == plain


def test_drawing_needs_neither_jax_nor_flax():
    code = (
        "import sys; from curious_jax.show import curves; import matplotlib.figure;"
        "sys.exit(bool({'jax', 'flax', 'optax'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_lines_differ_without_colour():
    shown = [(curves.STYLES[i % len(curves.STYLES)], curves.MARKERS[i % len(curves.MARKERS)]) for i in range(12)]
    assert len(set(shown)) == 12


def test_bands_are_wilson_for_one_seed_and_standard_error_for_several():
    found = curves.line([row(10, 0.5)], "eval/success", "reach")  # 10 of 20: Wilson gives 0.299 to 0.701
    np.testing.assert_allclose([found.low[0], found.high[0]], [0.299, 0.701], atol=1e-3)
    assert curves.line([row(10, 0.5)], "competence", "reach").low is None
    rows = [row(10, 0.4, seed=0), row(10, 0.6, seed=1)]  # deviation 0.1414, standard error 0.1
    for key in ("competence", "eval/success"):
        found = curves.line(rows, key, "reach")
        np.testing.assert_allclose([found.mean[0], found.low[0], found.high[0]], [0.5, 0.4, 0.6])


def test_small_plot_marks_each_module_at_its_height():
    lines = curves.small_plot([row(50, 0.0), row(100, 1.0)], width=20, height=5).splitlines()
    assert lines[0].startswith("1.0 ┤") and lines[0].rstrip().endswith("●")
    assert "■" in lines[4]  # push stays at 0
    assert lines[-2].endswith("100")
    assert lines[-1].split() == ["success:", "●", "reach", "■", "push"]


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_small_plot_fits_the_terminal(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = curves.small_plot([row(50, 0.0), row(100, 1.0)]).splitlines()
    assert max(map(len, lines)) <= min(columns, 70) and len(lines) == 13


def test_small_plot_of_nothing():
    assert curves.small_plot([]) == ""


def test_small_plot_writes_no_escape_sequence():
    found = {key.replace("reach", "\x1b[31mred"): value for key, value in row(10, 0.5).items()}
    assert "\x1b" not in curves.small_plot([found])


def test_a_name_that_begins_with_an_underscore_has_its_place_in_the_legend():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    for index, name in enumerate(("_lift", "reach")):
        curves.draw(ax, curves.Line(np.arange(3), np.ones(3), None, None), name, index)
    assert [text.lstrip("\N{ZERO WIDTH SPACE}") for text in ax.get_legend_handles_labels()[1]] == ["_lift", "reach"]
