"""Figures from synthetic tables with known answers, and the words beside them."""

import numpy as np
import pandas as pd
import pytest
from helpers.experiments import condition, curve
from matplotlib.colors import to_hex

from experiments import ablation, architectures, curricula, distractors, learning_progress, perturbation, scaling, sweep
from experiments.analysis import figures, summary
from experiments.analysis.table import SUCCESS
from experiments.engine.grid import Condition

# Ten seeds each: alike at the first evaluation, apart at the second, apart by too little at the third.
HIGH = [[0.1 + 0.001 * s, 0.6 + 0.001 * s, 0.70 + 0.01 * s] for s in range(10)]
LOW = [[0.1 + 0.001 * s, 0.3 + 0.001 * s, 0.69 + 0.01 * s] for s in range(10)]


def rows(values, seed_from=0, **labels):
    return [row for seed, one in enumerate(values, seed_from) for row in curve(one, seed, **labels)]


def table(values, **labels):
    return pd.DataFrame(rows(values, **labels))


def mastering(times, step=100, length=8):
    """Curves that are at 0.1 before these numbers of episodes and at 0.95 from there on."""
    return [[0.95 if step * (i + 1) >= time else 0.1 for i in range(length)] for time in times]


def test_dots_stand_where_the_test_says():
    high, low = table(HIGH), table(LOW)
    np.testing.assert_array_equal(figures.significant(high, low), [200])
    assert figures.significant(low, high).size == 0
    assert figures.significant(table(HIGH[:2]), table(LOW[:2])).size == 0  # two seeds: no test


def test_dots_are_of_finished_seeds_alone():
    diverged = table(HIGH).assign(status="diverged")
    assert figures.significant(diverged, table(LOW)).size == 0


def test_the_median_of_seeds_that_never_got_there_is_on_top_only_when_it_is_never():
    """The line of two seeds, of which one never did, is not halfway to the top."""
    made, (ax,) = figures.figure(1)
    figures.marks(ax, {"curious": [100.0, np.inf], "muvfa": [100.0, 200.0, np.inf]}, "never")
    heights = [collection.get_segments()[0][0][1] for collection in ax.collections]
    assert heights == pytest.approx([1.15 * 200, 200])


@pytest.mark.parametrize("kind, width", [("std", 0.2 * np.sqrt(2)), ("sem", 0.2)])
def test_a_line_is_the_mean_with_its_band(kind, width):
    made, (ax,) = figures.figure(1)
    figures.line(ax, table([[0.2, 0.4], [0.4, 0.8]]), SUCCESS, "two seeds", 1, kind)
    (drawn,) = ax.get_lines()
    np.testing.assert_allclose(drawn.get_xdata(), [100, 200])
    np.testing.assert_allclose(drawn.get_ydata(), [0.3, 0.6])
    (filled,) = ax.collections
    heights = filled.get_paths()[0].vertices[:, 1]
    assert heights.max() == pytest.approx(0.6 + width)  # of 0.4 and 0.8, divisor n - 1
    assert heights.min() == pytest.approx(0.3 - width / 2)


def test_algorithms_look_different_in_colour_and_in_grey():
    made, (ax,) = figures.figure(1)
    for name, look in figures.LOOK.items():
        figures.line(ax, table([[0.2, 0.4]]), SUCCESS, name, look)
    lines = ax.get_lines()
    for aspect in (lambda x: to_hex(x.get_color()), lambda x: str(x.get_linestyle()), lambda x: x.get_marker()):
        assert len({aspect(x) for x in lines}) == 4


def lines_of(experiment, rows, conditions, tmp_path, monkeypatch):
    """What an experiment draws: its lines over all axes; its files are there."""
    kept = []
    monkeypatch.setattr(figures, "save", lambda made, path, save=figures.save: kept.append(made) or save(made, path))
    experiment.draw(pd.DataFrame(rows), conditions, tmp_path / "figure")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.pdf", "figure.png"]
    assert all(p.stat().st_size > 1000 for p in tmp_path.iterdir())
    return [line for ax in kept[0].axes for line in ax.get_lines()]


def test_distractors(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a, distractors=n) for n in (0, 2) for a in ("curious", "muvfa")]
    times = ([200] * 5, [200] * 5, [200, 200, 200, 300, 300], [400, 400, 400, 400, 9999])
    found = [r for c, t in zip(conditions, times) for r in rows(mastering(t), **c.labels)]
    for r in found:
        r["eval/success/reach"] = r["eval/success"]
    text = distractors.findings(pd.DataFrame(found), conditions)
    assert "with 0 distractors (described: no test was declared" in text[0] and "median 200 (200 to 200)" in text[0]
    assert "appear** at" not in text[0]  # no verdict
    assert "with 2 distractors: **appears** at 0.01. Episodes to mean success 0.9" in text[4]
    assert "median 200 (200 to 300) against median 400 (400 to never; 1 never)" in text[4]
    assert "CURIOUS, distractors 2 smaller in 100 % of pairs, rank-biserial +1.00" in text[4]
    assert text[5].startswith("  - Secondary: area under the curve") and "appears" not in text[5]
    assert text[6] == "  - mean success to 0.8: median 200 (200 to 300) against median 400 (400 to never; 1 never)."
    assert text[7] == "  - reach to 0.9: median 200 (200 to 300) against median 400 (400 to never; 1 never)."
    # Speeds with 2: CURIOUS (3/200 + 2/300)/5 = 0.00433, M-UVFA 4/400/5 = 0.002; without both 0.005.
    assert "advantage grows with the number of distractors: **appears**." in text[8] and "0.538 [" in text[8]
    # reach, push and two distractors: half the speed is expected, 0.002/0.005 = 0.4 is found, at most 0.5.
    assert "to 0.50 of its speed, with 2 distractors: **appears**; 0.400 [" in text[9]
    lines = lines_of(distractors.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    assert [list(line.get_xdata()) for line in lines if line.get_marker() == "."] == [[300]]


def test_seeds_that_end_at_mastery(tmp_path, monkeypatch):
    """An evaluation on fresh episodes is the next in the row; a seed that ends is no fall of a mean."""
    conditions = [condition(algorithm=a, distractors=2) for a in ("curious", "muvfa")]
    curves = {"curious": [[0.1, 0.95], [0.95, 0.93, 0.92]], "muvfa": [[0.1, 0.2, 0.5, 0.91], [0.1, 0.2, 0.3, 0.95]]}
    found = [r for c in conditions for r in rows(curves[c.labels["algorithm"]], **c.labels)]
    for r in found:
        r |= {"eval/success/reach": 1.0, "eval/fresh": np.nan, "eval/fresh/reach": np.nan}
    for last in (1, 4, 8):  # the last seed's evaluation is not confirmed
        found[last] |= {"eval/fresh": 0.9, "eval/fresh/reach": 1.0}
    for unconfirmed in (2, 3):  # nor are this seed's first two
        found[unconfirmed] |= {"eval/fresh": 0.6, "eval/fresh/reach": 0.8}
    made = pd.DataFrame(found)
    assert summary.mastery(made, algorithm="curious") == [200, 300]
    assert summary.mastery(made, algorithm="muvfa") == [400, np.inf]
    assert summary.mastery(made, "reach", algorithm="curious") == [100, 300]
    assert summary.mastery(made, level=0.5, algorithm="curious") == [200, 100]
    text = "\n".join(distractors.findings(made, conditions))
    assert "median 250 (200 to 300) against median never (400 to never; 1 never)" in text and "area" not in text
    assert "until they met --target-success" in summary.document("Heading", "command", made, conditions, [])
    for r in found[5:]:
        r |= {"eval/fresh": np.nan}  # no seed of M-UVFA met the target: they have their own lines still
    lines = lines_of(distractors.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    drawn = [list(line.get_ydata()) for line in lines if len(line.get_ydata())]
    assert drawn == [one for side in curves.values() for one in side]  # a line per seed, no mean, no dots
    assert sweep.findings(made, conditions)[0].startswith(
        "- Fewest episodes to mean success 0.9: CURIOUS, distractors 2, median 250"
    )


def test_perturbation(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a, perturb_at=300, episodes=600) for a in ("curious", "muvfa")]
    conditions = [Condition({"algorithm": c.settings["algorithm"]}, c.settings) for c in conditions]
    soon, late, never = [0.96, 0.96, 0.4, 0.96, 0.96], [0.96, 0.96, 0.4, 0.5, 0.96, 0.96], [0.96, 0.96] + [0.4] * 4
    weak = [0.8] * 6  # it had not mastered the modules, and is not compared
    found = rows([soon] * 3, algorithm="curious") + rows([late, late, never, weak], algorithm="muvfa")
    assert perturbation.recoveries(pd.DataFrame(found), "curious", 300) == [100] * 3
    assert perturbation.recoveries(pd.DataFrame(found), "muvfa", 300) == [200, 200, np.inf]
    falls, other, claim = perturbation.findings(pd.DataFrame(found), conditions)
    assert "at episode 300 success falls by 0.583 [0.583, 0.583]" in falls and "3 of 3 seeds" in falls
    assert "3 of 4 seeds had a former level of 0.9" in other
    assert "**not decided** at 0.01, which 3 and 3 seeds cannot reach (their least p is 0.0500)" in claim
    assert "U = 9" in claim
    assert "median 100 (100 to 100) against median 200 (200 to never; 1 never)" in claim
    lines = lines_of(perturbation.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    assert any(list(line.get_xdata()) == [300, 300] and line.get_linestyle() == "--" for line in lines)  # the onset
    assert sorted(lines[-2].get_ydata()) == pytest.approx([200, 200, 230])  # the seed that never did stands on top


def test_architectures(tmp_path, monkeypatch):
    conditions = [condition(algorithm=a) for a in architectures.ALGORITHMS]
    flat = rows([[0, 0.02], [0, 0.06]], algorithm="her")
    found = rows(mastering([200] * 10), algorithm="muvfa") + rows(mastering([500] * 10), algorithm="mgme") + flat
    text = architectures.findings(pd.DataFrame(found), conditions)
    assert "M-UVFA masters the modules in fewer episodes than MG-ME: **appears**" in text[0]
    assert "**appears**; the highest mean over seeds is 0.040, the highest of any seed 0.060" in text[-1]
    lines = lines_of(architectures.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    assert [list(line.get_xdata()) for line in lines if line.get_marker() == "."] == [[200, 300, 400]]
    for r in flat:
        r["eval/success"] += 0.02
    assert (
        "**does not appear**; the highest mean over seeds is 0.060"
        in (architectures.findings(pd.DataFrame(found), conditions)[-1])
    )


def test_flat_goals_are_judged_by_finished_seeds():
    """Nothing is decided while a seed is under way, nor by one seed."""
    other = rows(mastering([200] * 5), algorithm="muvfa") + rows(mastering([500] * 5), algorithm="mgme")
    started = [row | {"status": "unfinished"} for row in rows([[0.0]] * 3, algorithm="her")]
    assert architectures.findings(pd.DataFrame(other + started), [])[-1] == "- HER: no seed has finished yet."
    one = rows([[0.0, 0.0]], seed_from=5, algorithm="her")
    assert (
        "**not decided**: 3 of 4 seeds have not ended"
        in architectures.findings(pd.DataFrame(other + started + one), [])[-1]
    )
    assert "**not decided** by one seed" in architectures.findings(pd.DataFrame(other + one), [])[-1]
    lost = [row | {"status": "diverged"} for row in rows([[0.4]], seed_from=6, algorithm="her")]
    said = architectures.findings(pd.DataFrame(other + one + lost), [])[-1]
    assert "**does not appear**; the highest mean over seeds is 0.200" in said and "1 diverged, and count until" in said


def test_one_seed_a_side_decides_nothing_about_an_interval():
    conditions = [condition(algorithm=a, distractors=n) for n in (0, 2) for a in ("curious", "muvfa")]
    found = [r for c, t in zip(conditions, (200, 200, 200, 400)) for r in rows(mastering([t]), **c.labels)]
    text = distractors.findings(pd.DataFrame(found), conditions)
    described, *told = (line for line in text if line.startswith("- "))
    assert len(told) == 3 and all("**not decided**" in line for line in told) and "**" not in described


def two_sides(curious, other, curious_status="done"):
    """Ten seeds of CURIOUS, five by these times and five by these rows, and ten of M-UVFA by these times."""
    labels = [{"algorithm": name, "distractors": 7} for name in ("curious", "muvfa")]
    found = rows(mastering([200] * 5), **labels[0]) + rows(mastering(other), **labels[1])
    found += [row | {"status": curious_status} for row in rows(curious, seed_from=5, **labels[0])]
    return pd.DataFrame(found), [Condition(one, one) for one in labels]


def test_a_seed_that_diverged_before_mastery_never_mastered():
    """Five of ten diverged: against ten that all master a little later the claim does not appear."""
    found, conditions = two_sides([[0.1, 0.1]] * 5, [300] * 10, "diverged")
    text = distractors.findings(found, conditions)[0]
    assert "**does not appear** at 0.01" in text and "(10 and 10 seeds)" in text and "5 never" in text
    assert (
        "| 10 | median never (200 to never; 5 never) | 5 of 10; 5 diverged |" in summary.results(found, conditions)[2]
    )
    told = summary.document("x", "y", found, conditions, [])
    assert "A seed that diverged before mastery ranks last" in told
    area = distractors.findings(found, conditions)[1]
    assert "area under the curve (without the 5 that diverged)" in area and "(5 and 10 seeds)" in area


def test_a_seed_that_diverged_after_mastery_keeps_its_time():
    found, conditions = two_sides([[0.1, 0.95, 0.95]] * 5, [300] * 10, "diverged")
    assert summary.mastery(found, **conditions[0].labels) == [200] * 10
    assert "**appears** at 0.01" in distractors.findings(found, conditions)[0]


def test_a_seed_that_diverged_before_any_evaluation_never_mastered():
    found, conditions = two_sides([], [300] * 10)
    lost = {**conditions[0].labels, "seed": 5, "status": "diverged"}
    found = pd.concat([found, pd.DataFrame([lost])])
    assert summary.mastery(found, **conditions[0].labels) == [200] * 5 + [np.inf]
    alone = pd.DataFrame([lost])
    assert summary.mastery(alone, **conditions[0].labels) == [np.inf]
    assert "0 of 1; 1 diverged" in summary.results(alone, conditions)[2]


@pytest.mark.parametrize("status", ["unfinished", "failed", "damaged", "missing"])
def test_nothing_is_decided_while_a_seed_has_not_ended(status):
    """The fast seeds of a run to a target end first, so that a verdict by them alone would favour their side."""
    found, conditions = two_sides([[0.1] * 7] * 5, [300] * 10, status)
    text = distractors.findings(found, conditions)[0]
    assert "**not decided**: 5 of 20 seeds have not ended. Until now: Episodes to" in text and "appear" not in text
    assert "(5 and 10 seeds)" in text and "p = " in text
    assert "| 5 of 10 | median 200 (200 to 200) | 5 of 5 |" in summary.results(found, conditions)[2]
    caption = figures.caption(found, "mean")
    assert caption == "mean\n5 of 20 seeds have not ended"


def test_an_interval_of_fewer_than_five_seeds_a_side_decides_nothing():
    """The bootstrap interval of a mean of two holds the true value half as often as it says."""
    few = [[3000.0, 3200.0], [3100.0, 3300.0], [5000.0, 5100.0], [20000.0, 21000.0]]
    said = "**not decided** by an interval of 2 seeds a side, where 5 are the least"
    assert said in distractors.growth(few, 0, 7) and said in distractors.slope(few[3], few[1], 2, 0, 7)
    enough = [times + times + times[:1] for times in few]
    assert "**appears**" in distractors.growth(enough, 0, 7) and "decided" not in distractors.slope(
        *enough[2:], 2, 0, 7
    )
    assert "**not decided**: 1 of 20 seeds has not ended" in distractors.growth(
        enough, 0, 7, "1 of 20 seeds has not ended"
    )


def test_a_seed_that_diverged_after_its_sensor_failed_never_recovered():
    """One that diverged before it is left out, as are those that had not mastered the modules by then."""
    mastered = [0.95, 0.95, 0.95]
    after, before = [*mastered, 0.3, 0.0], [*mastered]
    back = [*mastered, 0.3, 0.95, 0.95, 0.0]  # it had recovered when it diverged
    lost = [row | {"status": "diverged"} for row in rows([after, before, back], seed_from=5, algorithm="curious")]
    found = rows([[*mastered, 0.3, 0.95, 0.95]] * 5, algorithm="curious") + lost
    found = pd.DataFrame(found + rows([[*mastered, 0.95, 0.95]] * 8, algorithm="muvfa"))
    assert perturbation.recoveries(found, "curious", 400) == [100] * 5 + [np.inf, 100]
    conditions = [condition(algorithm=a, perturb_at=400, episodes=600) for a in perturbation.ALGORITHMS]
    told = perturbation.findings(found, conditions)
    assert (
        "7 of 8 seeds (3 diverged) had a former level" in told[0] and "median 100 (100 to never; 1 never)" in told[-1]
    )
    found.loc[found["seed"] == 0, "status"] = "failed"
    assert "**not decided**: 2 of 16 seeds have not ended" in perturbation.findings(found, conditions)[-1]
    measured = curricula.measure(found[(found["algorithm"] == "curious") & (found["seed"] > 0)], onset=400)
    assert measured["recovery"] == {1: 100, 2: 100, 3: 100, 4: 100, 5: np.inf, 7: 100}
    assert set(measured["area"]) == {1, 2, 3, 4} and set(measured["mastery"]) == {*range(1, 8)}


def test_curricula_wait_for_their_seeds_and_count_those_that_diverged():
    group = {"compared": "estimators", "distractors": 0}
    found = pd.DataFrame([
        *rows(mastering([300] * 5), name="competence", **group),
        *rows(mastering([200] * 4), name="ema", **group),
        *rows([[0.1]], seed_from=4, status="diverged", name="ema", **group),
    ])  # fmt: skip
    conditions = [Condition({**group, "name": name}, condition().settings) for name in ("competence", "ema")]
    told = curricula.findings(found, conditions)[-1]
    assert "**does not appear**" in told and "median 200 (200 to never; 1 never)" in told
    found.loc[found["status"] == "diverged", "status"] = "missing"
    assert "**not decided**: 1 of 10 seeds has not ended" in curricula.findings(found, conditions)[-1]


def test_a_mean_is_that_of_the_same_seeds_from_end_to_end():
    """A seed that has not ended is in no mean, nor an evaluation that one of the seeds lacks."""
    found = pd.DataFrame([
        *rows([[0.2, 0.4, 0.6], [0.4, 0.8]]), *rows([[0.9, 0.9, 0.9, 0.9]], seed_from=2, status="unfinished"),
    ])  # fmt: skip
    made, (ax,) = figures.figure(1)
    figures.line(ax, found, SUCCESS, "name", 0)
    (drawn,) = ax.get_lines()
    np.testing.assert_allclose(drawn.get_xydata(), [[100, 0.3], [200, 0.6]])
    made, (ax,) = figures.figure(1)
    figures.line(ax, found[found["seed"] == 2], SUCCESS, "none has ended yet", 0)
    assert len(ax.get_lines()[0].get_xdata()) == 4 and not ax.collections  # one seed has no band


def test_a_seed_that_never_met_its_target_ends_in_a_hollow_mark():
    found = pd.DataFrame(rows([[0.1, 0.95], [0.1, 0.91, 0.2]])).assign(
        **{"eval/fresh": [np.nan, 0.92, np.nan, 0.8, np.nan]}
    )
    made, (ax,) = figures.figure(1)
    figures.line(ax, found, SUCCESS, "M-UVFA", 1)
    reached, never = ax.get_lines()
    assert to_hex(reached.get_markerfacecolor()) != "#ffffff" == to_hex(never.get_markerfacecolor())
    assert reached.get_linestyle() == never.get_linestyle() == "--"
    assert figures.met(found.assign(target=0.95)) == set()  # 0.92 is not what was asked for
    assert figures.caption(found, "mean").startswith("a line per seed; end mark filled: target met, hollow: not met")


def test_success_at_the_end_is_that_on_fresh_episodes():
    """Chance favours the evaluation that met the target."""
    found = pd.DataFrame(rows([[0.1, 0.96], [0.1, 0.94]], algorithm="curious"))
    found = found.assign(**{"eval/fresh": [np.nan, 0.9, np.nan, 0.92], "eval/success/push": found[SUCCESS]})
    found["eval/fresh/push"] = found["eval/fresh"]
    assert "| 0.910 [0.900, 0.920] |" in summary.results(found, [Condition({"algorithm": "curious"}, {})])[2]
    assert "push 0.91." in scaling.findings(found, [Condition({"algorithm": "curious"}, {})])[0]


def test_legends_name_what_any_panel_has_and_lie_below(tmp_path):
    made, axes = figures.figure(2)
    figures.line(axes[1], table([[0.1, 0.2]]), SUCCESS, "in the second panel alone", 0)
    figures.legend(axes[0], below=True)
    assert [text.get_text() for text in made.legends[0].get_texts()] == ["in the second panel alone"]
    made, (ax,) = figures.figure(1)
    figures.line(ax, table([[0.1, 0.2]]), SUCCESS, "below these axes", 0)
    figures.legend(ax)
    made.savefig(tmp_path / "figure.png")
    assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0


def test_four_seeds_a_side_never_make_a_claim_appear():
    claim = summary.Claim("text", [640] * 4, [np.inf] * 4, "A", "B")
    assert "**not decided** at 0.01, which 4 and 4 seeds cannot reach (their least p is 0.0143)" in claim.words()


def test_architectures_are_trained_under_one_substitution_rule_and_the_flat_goal_without_distractors():
    settings = architectures.EXPERIMENT.defaults
    for world in ("fetch", "point"):
        found = {c.labels["algorithm"]: c.config() for c in architectures.conditions(None, dict(settings[world]))}
        assert {c.hindsight.substitution for c in found.values()} == {"drawn"}
        assert [found[a].distractors for a in architectures.ALGORITHMS] == [4, 4, 0]


def test_learning_progress(tmp_path, monkeypatch):
    conditions = [condition(replay=r) for r in learning_progress.REPLAYS]
    found = rows(mastering([200] * 10), replay="lp") + rows(mastering([500] * 10), replay="uniform")
    late = mastering([300] * 9 + [9999])  # the last seed never masters push
    for i, r in enumerate(found):
        push = late[r["seed"]][i % 8]
        if r["seed"] == 0 and r["episodes"] == 700 and r["replay"] == "lp":
            push = 0.6  # a lapse
        share = 0.4 if r["episodes"] >= 700 else 0.2
        for name, value in (("reach", r["eval/success"]), ("push", push)):
            r |= {f"competence/{name}": value, f"learning_progress/{name}": -0.1, f"p_module/{name}": share}
            r[f"eval/success/{name}"] = value
    text = learning_progress.findings(pd.DataFrame(found), conditions)
    assert text[0].endswith("per trial: reach → push (9 of 10); reach (1 of 10).")
    assert text[2] == "  - push: competence 0.9 after median 300 (300 to never; 1 never) episodes."
    assert "after 0.9: 1; the module's share p rose over the next 3 evaluations in 1 of them (mean 0.20 " in text[3]
    assert "0.40 after); competence was back at 0.9 later in 1." in text[3]
    assert text[4] == "  - push: 1, the deepest to 0.60 (seed 0, 700)."
    assert "selection by LP in both: **appears**" in text[5]
    lines = lines_of(learning_progress.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    assert len(lines) == 5 * 3 * 2 + 2 + 1  # five trials of three panels, two modules each; two curves and their dots
    np.testing.assert_allclose(lines[2].get_ydata(), 0.1)  # |LP| of reach, first trial


def test_more_modules_than_colours_in_runs_that_end_at_mastery(tmp_path, monkeypatch):
    """The arm's four modules and seven distractors: the others are one grey background."""
    conditions = [condition(replay=r) for r in learning_progress.REPLAYS]
    found = [r for c in conditions for r in rows([[0.1, 0.95], [0.2, 0.3, 0.92]], **c.labels)]
    names = ["reach", "push", "pnp", "stack", *(f"distractor{k + 1}" for k in range(7))]
    for r in found:
        r |= {"eval/fresh": 0.9 if r["eval/success"] > 0.9 else np.nan}
        for name in names:
            r |= {f"competence/{name}": 0.5, f"learning_progress/{name}": -0.1, f"p_module/{name}": 1 / 11}
        r |= {f"eval/success/{name}": r["eval/success"] for name in names[:4]}
    lines = lines_of(learning_progress.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    grey = [line for line in lines if line.get_color() == "grey"]
    assert len(grey) == 2 * 3 * 7 and len(lines) == 2 * 3 * 11 + 4
    assert [line.get_label() for line in grey[:7]].count("distractors") == 1
    np.testing.assert_allclose(grey[7].get_ydata(), 0.1)  # |LP|


def test_scaling_and_sweep(tmp_path, monkeypatch):
    conditions = [condition(algorithm="curious")]
    found = rows([[0.5, 0.95, 0.95], [0.5, 0.97, 0.97]], algorithm="curious")
    for r in found:
        r |= {"eval/success/reach": r["eval/success"], "eval/success/push": 0.3}
    assert scaling.findings(pd.DataFrame(found), conditions) == [
        "- 1 of 2 modules end at 0.9 or more (mean over seeds): reach 0.96, push 0.30.",
        "- Mean success 0.9 after median 200 (200 to 200) episodes (2 seeds).",
    ]
    lines_of(scaling.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    assert sweep.findings(pd.DataFrame(found), conditions) == [
        "- Largest mean area under the curve: CURIOUS (0.845). A sweep tests no claim."
    ]


def test_ablation(tmp_path):
    """Whole: the mean is at 0.9 after 200, 200, 300 episodes, 2, 2, 3 minutes; without guidance it is there once."""
    found, times = [], {ablation.WHOLE: (200, 200, 300), "guide=0": (500, 10_000, 10_000)}
    for changed, when in times.items():
        own = rows(mastering(when), changed=changed)
        found += [r | {"eval/success/push": r["eval/success"] - 0.1, "wall_s": r["episodes"] * 0.6} for r in own]
    table = pd.DataFrame(found)
    conditions = [Condition({"changed": name}, {}) for name in times]
    text = ablation.findings(table, conditions)
    assert text[0] == "| changed | seeds | push to 0.9 | mean to 0.9 | minutes to 0.9 |"
    assert text[2] == (
        "| nothing | 3 | median never (never to never; 3 never) | median 200 (200 to 300) | 2.0 (2.0, 2.0, 3.0) |"
    )
    assert text[3].endswith("| median never (500 to never; 2 never) | never (5.0, never, never) |")
    ablation.draw(table, conditions, tmp_path / "ablation")
    assert (tmp_path / "ablation.png").stat().st_size > 10_000
    assert ablation.findings(table.assign(status="unfinished"), conditions) == ["- No seed has finished yet."]


def test_curricula(tmp_path, monkeypatch):
    """Ten seeds a side, two distractors: `ema` masters after 200 episodes, `competence` after 300, `uniform` never."""
    group, found, conditions = dict(compared="estimators", distractors=2), [], []
    for name, when in (("competence", 300), ("ema", 200), ("uniform", 10_000)):
        conditions.append(condition(estimator=name, distractors=2))
        conditions[-1] = Condition({"compared": "estimators", "name": name, "distractors": 2}, conditions[-1].settings)
        own = rows(mastering([when] * 10), name=name, **group)
        for r in own:
            r |= {"eval/success/reach": r["eval/success"], "competence/reach": 0.5, "p_module/reach": 0.6}
            r |= {"p_module/distractor1": 0.3, "p_module/distractor2": 0.1, "eval/cvar": 0.25}
            r |= {"predicted/reach": r["eval/success"] - 0.2} if name == "ema" else {}
        found += own
    table = pd.DataFrame(found)
    measured = curricula.measure(table[table["name"] == "ema"], None)
    assert measured["mastery"][0] == 200 and measured["worst"][0] == 0.25
    assert measured["wasted"][0] == pytest.approx(0.4) and measured["misjudged"][0] == pytest.approx(0.2)
    judged = curricula.measure(table[table["name"] == "competence"], None)["misjudged"][0]
    assert judged == pytest.approx(np.mean([0.4, 0.4, *[0.45] * 6]))  # its competence stands for its prediction
    before = curricula.measure(table[table["name"] == "ema"], onset=300)
    assert before["mastery"][0] == np.inf and before["recovery"] == {}  # nobody had mastered by then
    ranks = curricula.mean_ranks({"a": {0: 1.0, 1: 5.0}, "b": {0: 2.0, 1: 5.0}})
    assert (ranks["a"].estimate, ranks["b"].estimate) == (1.25, 1.75)
    text = curricula.findings(table, conditions)
    assert text[1] == "### Estimators, 2 distractors"
    assert text[5].startswith("| ema | 1.000 [1.000, 1.000] | median 200 (200 to 200) | 0.8")
    assert text[7].startswith("| uniform | 3.000")
    assert [("**appears**" in line) for line in text[-2:]] == [True, True]
    assert (
        "`ema` masters" in text[-2] and "`competence` masters the modules in fewer episodes than `uniform`" in text[-1]
    )
    lines = lines_of(curricula.EXPERIMENT, found, conditions, tmp_path, monkeypatch)
    np.testing.assert_allclose(lines[-1].get_ydata(), 0.4)  # the share of the impossible modules, uniform's
    np.testing.assert_allclose(lines[-2].get_ydata(), 0.6)  # and of reach


def test_curricula_that_end_at_mastery(tmp_path):
    """The confirming evaluation counts, areas and recovery do not: `ema` and `competence` met their target."""
    group, found, conditions = dict(compared="estimators", distractors=0), [], []
    curves = {"competence": [0.1, 0.3, 0.5, 0.92], "ema": [0.1, 0.92]}
    for name, heights in curves.items():
        settings = condition(estimator=name).settings | {"perturb_at": 300, "perturb_cube": 1, "episodes": 800}
        conditions.append(Condition({**group, "name": name}, settings))
        for r in rows([heights] * 5, name=name, **group):
            last = r["eval/success"] == heights[-1]
            found.append(r | {"eval/fresh": 0.95 if last else np.nan, "eval/success/reach": r["eval/success"],
                              "competence/reach": 0.5, "p_module/reach": 1.0})  # fmt: skip
    measured = curricula.measure(table_of(found, "ema"), onset=300)
    assert measured["mastery"] == dict.fromkeys(range(5), 200) and not measured["area"] and "recovery" not in measured
    assert set(curricula.measure(table_of(found, "competence"), onset=None)["mastery"].values()) == {400}
    text = "\n".join(curricula.findings(pd.DataFrame(found), conditions))
    assert "area" not in text and "recover" not in text
    assert (
        "`ema` masters the modules in fewer episodes than `competence` (estimators, 0 distractors): **appears**" in text
    )


def table_of(found, name):
    return pd.DataFrame([r for r in found if r["name"] == name])


def test_a_sweep_to_a_target_of_which_no_seed_has_finished():
    found = [r | {"status": "unfinished", "eval/fresh": 0.85} for r in rows([[0.1, 0.9]], algorithm="curious")]
    told = sweep.findings(pd.DataFrame(found), [Condition({"algorithm": "curious"}, {})])
    assert told == ["- No seed has finished yet."]


@pytest.mark.parametrize(
    "experiment", [distractors, perturbation, architectures, learning_progress, scaling, sweep, curricula]
)
def test_an_empty_table_is_drawn_and_said(experiment, tmp_path):
    labels = {"algorithm": "curious", "distractors": 0, "replay": "lp", "compared": "estimators", "name": "ema"}
    conditions = [Condition(labels, {"perturb_at": 5, "world": "point", "modules": ("reach",)})]
    found = pd.DataFrame([{**labels, "seed": 0, "status": "missing"}])
    experiment.draw(found, conditions, tmp_path / "figure")
    text = summary.document("x", "y", found, conditions, experiment.findings(found, conditions))
    assert "seeds 0 **missing**" in text and "| 0 | | | | |" in text


# The words


def test_numbers_as_readers_want_them():
    assert [summary.number(v) for v in (0.12345, 123456.7, float("inf"), float("nan"))] == [
        "0.123", "123,457", "never", "unknown",
    ]  # fmt: skip
    assert (summary.p_value(0.01234), summary.p_value(2.3e-5)) == ("0.0123", "2e-05")
    assert summary.spread([300, 100, float("inf"), 200]) == "median 250 (100 to never; 1 never)"
    assert summary.spread([100, float("inf")]) == "median never (100 to never; 1 never)"


def test_seeds_that_are_not_done_are_named_and_not_tested():
    found = rows([[0.1, 0.2]] * 2, algorithm="curious") + curve([0.9], 2, status="diverged", algorithm="curious")
    found = pd.DataFrame([*found, {"algorithm": "curious", "seed": 3, "status": "failed"}])
    assert summary.area(found, algorithm="curious") == pytest.approx([0.15, 0.15])
    text = summary.document("A", "cmd", found, [condition(algorithm="curious")], [])
    assert "- CURIOUS: seeds 2 **diverged**\n- CURIOUS: seeds 3 **failed**" in text
    assert (
        "| CURIOUS | 3 of 4 | median never (never to never; 3 never) | 0 of 3; 1 diverged | 0.150 [0.150, 0.150]"
        in text
    )
