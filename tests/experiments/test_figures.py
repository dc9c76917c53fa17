"""Figures from synthetic tables with known answers, and the words beside them."""

import numpy as np
import pytest
from helpers.experiments import condition, curve
from matplotlib.colors import to_hex

from experiments import architectures, distractors, learning_progress, perturbation, scaling, sweep
from experiments.analysis import figures
from experiments.analysis import summary as report
from experiments.engine.grid import Condition

# Ten seeds each: alike at the first evaluation, apart at the second, apart by too little at the third.
HIGH = [[0.1 + 0.001 * s, 0.6 + 0.001 * s, 0.70 + 0.01 * s] for s in range(10)]
LOW = [[0.1 + 0.001 * s, 0.3 + 0.001 * s, 0.69 + 0.01 * s] for s in range(10)]


def table(values, **labels):
    return [row for seed, one in enumerate(values) for row in curve(one, seed, **labels)]


def test_dots_stand_where_the_test_says():
    high, low = table(HIGH), table(LOW)
    np.testing.assert_array_equal(figures.significant(high, low), [200])
    assert figures.significant(low, high).size == 0
    assert figures.significant(high[:6], low[:6]).size == 0  # two seeds: no test


def test_bands_are_deviation_and_standard_error():
    values = np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [np.nan, 4.0, np.nan]])
    np.testing.assert_allclose(figures.band(values, "std"), [1.0, np.sqrt(2), 0.0])
    np.testing.assert_allclose(figures.band(values, "sem"), [1 / np.sqrt(3), 1.0, 0.0])


def test_a_line_is_the_mean_with_its_band():
    made, (ax,) = figures.figure(1)
    figures.line(ax, table([[0.2, 0.4], [0.4, 0.8]]), figures.SUCCESS, "two seeds", 1, "std")
    (drawn,) = ax.get_lines()
    np.testing.assert_allclose(drawn.get_xdata(), [100, 200])
    np.testing.assert_allclose(drawn.get_ydata(), [0.3, 0.6])
    (filled,) = ax.collections
    heights = filled.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(0.6 + 0.2 * np.sqrt(2))  # of 0.4 and 0.8, divisor n - 1
    assert heights.min() == pytest.approx(0.3 - 0.1 * np.sqrt(2))


def test_algorithms_look_different_in_colour_and_in_grey():
    made, (ax,) = figures.figure(1)
    for name, look in figures.LOOK.items():
        figures.line(ax, table([[0.2, 0.4]]), figures.SUCCESS, name, look)
    lines = ax.get_lines()
    for aspect in (lambda x: to_hex(x.get_color()), lambda x: str(x.get_linestyle()), lambda x: x.get_marker()):
        assert len({aspect(x) for x in lines}) == 4


def lines_of(experiment, rows, conditions, tmp_path, monkeypatch):
    """What an experiment draws: {label: its line} over all axes; its files are there."""
    kept = []
    monkeypatch.setattr(figures, "save", lambda made, path, save=figures.save: kept.append(made) or save(made, path))
    experiment.draw(rows, conditions, tmp_path / "figure")
    for name in ("figure.png", "figure.pdf"):
        assert (tmp_path / name).stat().st_size > 1000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.pdf", "figure.png"]
    return [line for ax in kept[0].axes for line in ax.get_lines()]


def test_distractors(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a, distractors=n) for n in (0, 4) for a in ("curious", "muvfa")]
    rows = [r for c, v in zip(conditions, (LOW, LOW, HIGH, LOW)) for r in table(v, **c.labels)]
    lines = lines_of(distractors.EXPERIMENT, rows, conditions, tmp_path, monkeypatch)
    dots = [line for line in lines if line.get_marker() == "."]
    assert [list(line.get_xdata()) for line in dots] == [[200]]
    first, second, growth = distractors.findings(rows, conditions)
    assert "with 0 distracting modules: **does not appear**" in first and "U = 50, p = 0." in first
    assert (
        "with 4 distracting modules: **appears** at 0.01" in second and "100 % of pairs, rank-biserial +1.00" in second
    )
    # Areas: (0.1 + 0.6)/4 + (0.6 + 0.7)/4 = 0.5 against 0.3475, each + 0.0055 s/2 ...; the gap is 0.1525.
    assert "difference of means 0.152 [" in second or "difference of means 0.153 [" in second
    assert "grows with the number of distracting modules: **appears**. 0 distractors 0.000 [" in growth


def test_perturbation(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a, perturb_at=300) for a in ("curious", "muvfa")]
    conditions = [Condition({"algorithm": c.settings["algorithm"]}, c.settings) for c in conditions]
    soon, late, never = [0.8, 0.8, 0.4, 0.8, 0.8], [0.8, 0.8, 0.4, 0.5, 0.8, 0.8], [0.8, 0.8] + [0.4] * 4
    rows = table([soon] * 3, algorithm="curious") + table([late, late, never], algorithm="muvfa")
    assert perturbation.recoveries(rows, "curious", 300) == [100] * 3
    assert perturbation.recoveries(rows, "muvfa", 300) == [200, 200, np.inf]
    falls, _, claim, lost = perturbation.findings(rows, conditions)
    assert "at episode 300 success falls by 0.500 [0.500, 0.500]" in falls
    assert (
        "**does not appear** at 0.01" in claim and "100 against 200 (mean and median" in claim
    )  # three seeds: p = 0.05
    assert "U = 9" in claim and "CURIOUS smaller in 100 % of pairs" in claim
    assert lost == "- M-UVFA: 1 of 3 seeds had not regained it by the end."
    lines = lines_of(perturbation.EXPERIMENT, rows, conditions, tmp_path, monkeypatch)
    assert any(list(line.get_xdata()) == [300, 300] and line.get_linestyle() == "--" for line in lines)  # the onset
    assert sorted(lines[-2].get_ydata()) == pytest.approx([200, 200, 230])  # the seed that never did stands on top


def test_architectures(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a) for a in architectures.ALGORITHMS]
    rows = (
        table(HIGH, algorithm="muvfa") + table(LOW, algorithm="mgme") + table([[0, 0.02], [0, 0.06]], algorithm="her")
    )
    slower, flat = architectures.findings(rows, conditions)
    assert "MG-ME learns more slowly than M-UVFA: **appears**" in slower
    assert "**appears**; the highest mean over seeds is 0.040, the highest of any seed 0.060" in flat
    lines = lines_of(architectures.EXPERIMENT, rows, conditions, tmp_path, monkeypatch)
    assert [list(line.get_xdata()) for line in lines if line.get_marker() == "."] == [[200]]
    rows = [{**r, "eval/success": r["eval/success"] + 0.02} for r in rows]
    assert "**does not appear**; the highest mean over seeds is 0.060" in architectures.findings(rows, conditions)[1]


def test_learning_progress(tmp_path, monkeypatch):
    conditions = [condition(replay=r) for r in learning_progress.REPLAYS]
    rows = table(HIGH, replay="lp") + table(LOW, replay="uniform")
    for r in rows:
        r |= {f"{key}/{name}": (r["eval/success"] + 0.02) * sign for name, sign in (("reach", 1), ("distractor1", -0.1))
              for key in ("competence", "learning_progress", "p_module")}  # fmt: skip
        r["eval/success/reach"] = r["eval/success"]
    known, claim = learning_progress.findings(rows, conditions)
    assert known == "- reach: competence ≥ 0.75 after 300 episodes (median over seeds); 3 of 10 seeds never."
    assert "selection by LP in both: **appears**" in claim
    lines = lines_of(learning_progress.EXPERIMENT, rows, conditions, tmp_path, monkeypatch)
    of_lp = [line for line in lines if line.get_label() == "distractor1"][1]
    np.testing.assert_allclose(of_lp.get_ydata(), [0.012, 0.062, 0.072], atol=1e-9)  # |LP| of seed 0


def test_scaling_and_sweep(tmp_path, monkeypatch):
    conditions = [condition(algorithm="curious")]
    rows = table([[0.5, 0.95], [0.5, 0.97]], algorithm="curious")
    for r in rows:
        r |= {
            "eval/success/reach": r["eval/success"],
            "eval/success/push": 0.3,
            "p_module/reach": 1,
            "p_module/push": 0,
        }
    assert scaling.findings(rows, conditions) == [
        "- 1 of 2 modules end at 0.9 or more (mean over seeds): reach 0.96, push 0.30."
    ]
    lines_of(scaling.EXPERIMENT, rows, conditions, tmp_path, monkeypatch)
    assert sweep.findings(rows, conditions) == [
        "- Largest mean area under the curve: CURIOUS (0.730). A sweep tests no claim."
    ]


@pytest.mark.parametrize("experiment", [distractors, perturbation, architectures, learning_progress, scaling, sweep])
def test_an_empty_table_is_drawn_and_said(experiment, tmp_path):
    labels = {"algorithm": "curious", "distractors": 0, "replay": "lp"}
    conditions = [Condition(labels, {"perturb_at": 5, "world": "point", "modules": ("reach",)})]
    rows = [{**labels, "seed": 0, "status": "missing"}]
    experiment.draw(rows, conditions, tmp_path / "figure")
    text = report.document("x", "y", rows, conditions, experiment.findings(rows, conditions))
    assert "seeds 0 **missing**" in text and "| 0 | | | | |" in text


# The words


def test_numbers_as_readers_want_them():
    assert [report.number(v) for v in (0.12345, 123456.7, float("inf"), float("nan"))] == [
        "0.123", "123,457", "never", "unknown",
    ]  # fmt: skip
    assert (report.p_value(0.01234), report.p_value(2.3e-5)) == ("0.0123", "2e-05")


def test_seeds_that_are_not_done_are_named_and_not_tested():
    rows = table([[0.1, 0.2]] * 2, algorithm="curious") + curve([0.9], 2, status="diverged", algorithm="curious")
    rows += [{"algorithm": "curious", "seed": 3, "status": "failed"}]
    assert report.area(rows, algorithm="curious") == pytest.approx([0.15, 0.15])
    text = report.document("A", "cmd", rows, [condition(algorithm="curious")], [])
    assert "- CURIOUS: seeds 2 **diverged**\n- CURIOUS: seeds 3 **failed**" in text
    assert "| CURIOUS | 2 | 0.150 [0.150, 0.150]" in text and "0 of 2 [0.00, 0.66]" in text
