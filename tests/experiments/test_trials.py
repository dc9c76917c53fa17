"""What is said of single trials: seeds whose curves end at different times, competence and success."""

import pandas as pd

from experiments import scaling
from experiments.analysis import trials
from experiments.analysis.table import DONE
from experiments.engine.grid import Condition

CURVES = {0: [0.5, 0.95, 0.95], 1: [0.5, 0.92, 0.95, 0.95, 0.6, 0.95]}  # seed 0 met its target after 300 episodes


def table():
    """One module, two seeds; success is never below competence, and its share doubles after the fall."""
    rows = []
    for seed, heights in CURVES.items():
        for i, height in enumerate(heights):
            row = {"seed": seed, "episodes": 100 * (i + 1), "status": DONE, "eval/success": max(height, 0.9)}
            row |= {"competence/push": height, "p_module/push": 0.2 + 0.2 * (i > 3)}
            rows.append(row | {"eval/success/push": row["eval/success"]})
    return pd.DataFrame(rows)


def test_a_curve_that_ended_is_not_forgotten():
    [(name, seed, lapse)] = trials.forgetting(table())
    assert (name, seed, lapse.episode, lapse.lowest, lapse.regained) == ("push", 1, 500, 0.6, True)
    head, detail = trials.lapses_in_words([(name, seed, lapse)])
    assert "after 0.9: 1; the module's share p rose over the next 3 evaluations in 1 of them (mean 0.20 before" in head
    assert detail == "  - push: 1, the deepest to 0.60 (seed 1, 500)." and "too late" not in head
    whole, late = lapse._replace(complete=True), lapse._replace(share_after=0.1, complete=False)
    head, _ = trials.lapses_in_words([("push", 1, whole), ("push", 2, late)])
    assert (
        f"in 1 of them (mean 0.20 before, {(lapse.share_after + 0.1) / 2:.2f} after); 1 come too late in a run" in head
    )
    assert f"of the other 1 it rose in 1 (0.20 before, {lapse.share_after:.2f} after); competence was back" in head


def test_success_is_told_apart_from_competence():
    found = trials.forgetting(table(), trials.SUCCESS)
    assert trials.lapses_in_words(found, trials.SUCCESS) == [
        "- Falls of success on evaluation goals by 0.1 or more after 0.9: 0."
    ]


def test_order_and_phases():
    assert trials.order(table(), seed=0) == ["push"]
    assert trials.phases(table())[0].endswith("per trial: push (2 of 2).")
    assert trials.phases(table().assign(status="unfinished")) == ["- No seed has finished yet."]


def test_modules_end_where_their_own_curve_ends():
    [first, _] = scaling.findings(table(), [Condition({}, {})])
    assert first == "- 1 of 1 modules end at 0.9 or more (mean over seeds): push 0.95."


def test_modules_that_are_mastered_at_once_share_their_place_in_the_order():
    """Drag and reach are mastered after 100 episodes, push after 200, and pull never."""
    heights = {"push": [0.5, 0.95, 0.95], "drag": [0.9] * 3, "reach": [1.0] * 3, "pull": [0.5, 0.95, 0.5]}
    rows = [
        {"seed": 0, "episodes": 100 * (i + 1), "status": DONE, "eval/success": 0.5}
        | {f"{key}/{name}": curve[i] for name, curve in heights.items() for key in ("competence", "eval/success")}
        for i in range(3)
    ]
    assert trials.order(pd.DataFrame(rows), seed=0) == ["drag=reach", "push"]
