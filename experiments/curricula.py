"""Compare ways to choose modules and goals: estimators of a module's worth, and samplers of goals within a module.

    python -m experiments.curricula --seeds 0-9 --world point --out DIR
    python -m experiments.curricula --seeds 100-104 --estimators competence,bayes,learnability,uniform --out DIR

Every estimator trains with each number of distractors; in its runs without distractors a sensor fails once all should
be mastered (--perturb-at), so that one run shows learning and recovery. Samplers train without distractors and with
sound sensors, keep the paper's estimator, and end where the sensor would fail: what they add is learning.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from curious_jax.cli import markdown
from curious_jax.cli import parser as options
from curious_jax.config.fields import ESTIMATORS, GOALS
from curious_jax.errors import ConfigError
from curious_jax.show.curves import COLOURS
from experiments import probe
from experiments.analysis import figures, statistics, summary
from experiments.analysis.table import (
    SUCCESS,
    Table,
    ends_at_target,
    modules,
    per_seed,
    select,
    select_ended,
    select_finished,
    select_rows,
)
from experiments.engine.command import Experiment, main
from experiments.engine.grid import Condition

PAPER, UNIFORM = "competence", "uniform"
WORST = "eval/cvar"
Labels = Mapping[str, Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what is compared."""
    add = parser.add_argument
    add("--estimators", default=",".join(ESTIMATORS), metavar="A,B|none", help="estimators [default: all]")
    add("--samplers", default=",".join(GOALS), metavar="A,B|none", help="goal samplers [default: all]")
    add("--distractors", default="0,7", metavar="0,7", help="numbers of distractors [default: 0,7]")


def conditions(own: Any, settings: dict[str, Any]) -> list[Condition]:
    """Lay out estimators with each number of distractors, then goal samplers without any."""
    plain = {name: value for name, value in settings.items() if not name.startswith("perturb_")}
    found = []
    for number in options.whole_numbers("--distractors", own.distractors, "0,7"):
        for name in _names("--estimators", own.estimators):
            given = plain if number else settings
            labels = {"compared": "estimators", "name": name, "distractors": number}
            found.append(Condition(labels, {**given, "estimator": name, "distractors": number}))
    shorter = {"episodes": min(settings["episodes"], settings["perturb_at"])} if settings.get("perturb_at") else {}
    for name in _names("--samplers", own.samplers):
        labels = {"compared": "samplers", "name": name, "distractors": 0}
        found.append(Condition(labels, {**plain, **shorter, "goals": name, "distractors": 0}))
    return found


def _names(option: str, text: str) -> list[str]:
    """Read a list of names; `none` is an empty one."""
    names = [] if text == "none" else [name.strip() for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise ConfigError(f"{option} {text}: must be different names separated by commas, or none")
    return names


def groups(conditions: Sequence[Condition]) -> list[tuple[Labels, list[str]]]:
    """List what is compared with what: ({compared, distractors}, names)."""
    found: dict[tuple[str, int], list[str]] = {}
    for condition in conditions:
        labels = condition.labels
        found.setdefault((labels["compared"], labels["distractors"]), []).append(labels["name"])
    return [({"compared": kind, "distractors": number}, names) for (kind, number), names in found.items()]


def heading(group: Labels) -> str:
    """Name a group."""
    return f"{group['compared']}, {group['distractors']} distractors"


def draw(rows: Table, conditions: Sequence[Condition], path: Path) -> None:
    """Draw success ± s.e.m. of every group, the share p that impossible modules take, and each estimator's shares."""
    found = groups(conditions)
    impossible = [(group, names) for group, names in found if group["distractors"]]
    shown = [(group, name) for group, names in impossible[-1:] for name in names]
    panels = len(found) + len(impossible) + len(shown)
    made, axes = figures.figure(panels, size=(5.2, 3.6))
    for ax, (group, names) in zip(axes, found, strict=False):
        for look, name in enumerate(names):
            figures.line(ax, select(rows, **group, name=name), SUCCESS, name, look, "sem")
        figures.success_axes(ax, heading(group))
        figures.legend(ax)
    for ax, (group, name) in zip(axes[panels - len(shown) :], shown, strict=True):
        shares(ax, select(rows, **group, name=name), f"shares of {name}, {group['distractors']} distractors")
    for ax, (group, names) in zip(axes[len(found) :], impossible, strict=False):
        for look, name in enumerate(names):
            part = select(rows, **group, name=name)
            figures.line(ax, part.assign(wasted=sum_wasted(part)), "wasted", name, look, "sem")
        ax.set_ylabel("share p of impossible modules")
        ax.set_ylim(-0.03, 1.03)
        ax.set_title(heading(group), fontsize=10)
        figures.legend(ax)
    made.suptitle(figures.caption(rows, "mean ± s.e.m. over seeds"), fontsize=10)
    figures.save(made, path)


def shares(ax: Any, rows: Table, title: str) -> None:
    """Draw the share p of each module that can be learned, and of all others together."""
    for look, module in enumerate(modules(rows, achievable=True)):
        figures.line(ax, rows, f"p_module/{module}", module, look, "sem")
    figures.line(ax, rows.assign(wasted=sum_wasted(rows)), "wasted", "impossible ones", len(COLOURS) - 1, "sem")
    ax.set_ylabel("share p")
    ax.set_ylim(-0.03, 1.03)
    ax.set_title(title, fontsize=10)
    figures.legend(ax)


def sum_wasted(rows: Table) -> Any:
    """Sum the shares p of the modules that are not evaluated, row by row."""
    known = modules(rows, achievable=True)
    names = [f"p_module/{name}" for name in modules(rows) if name not in known]
    return rows[names].sum(axis=1) if names else 0.0


def measure_error(rows: Table) -> Any:
    """Compute the mean distance of predicted success from evaluated success over achievable modules, row by row."""
    distances = []
    for name in modules(rows, achievable=True):
        key = f"predicted/{name}"
        own = key in rows and rows[key].notna().any()
        distances.append((rows[key if own else f"competence/{name}"] - rows[f"{SUCCESS}/{name}"]).abs())
    return sum(distances) / len(distances) if distances else 0.0


def measure(rows: Table, onset: int | None) -> dict[str, dict[int, float]]:
    """Compute every measure of one condition's seeds: {measure: {seed: value}}.

    Mastery and recovery are those of all seeds that have ended, and the others leave out those that diverged.

    Args:
      rows: the condition's, those without an evaluation too.
      onset: training episodes after which the sensor fails; learning is judged before, None for never.

    Where seeds end at a target, areas are left out, and so is recovery, which such a seed is not trained to show.
    """
    whole, every = not ends_at_target(rows), select_ended(rows)
    if "episodes" not in rows or not len(every):
        return {"mastery": summary.mastery_per_seed(every, {})}
    learning = every[every["episodes"].isna() | (every["episodes"] < onset)] if onset else every
    rows = select(select_finished(rows))
    before = select_finished(select(learning))
    table = before.assign(wasted=sum_wasted(before), misjudged=measure_error(before)) if len(before) else before
    mean = lambda _, values: float(np.mean(values))  # noqa: E731
    found = {
        "mastery": summary.mastery_per_seed(learning, {}),
        "area": per_seed(before, {}, statistics.area_under_curve) if whole else {},
        "wasted": per_seed(table, {}, mean, "wasted"),
        "misjudged": per_seed(table, {}, mean, "misjudged"),
        "worst": per_seed(rows, {}, lambda _, values: float(values[-1]), WORST),
    }
    if onset and whole:
        found["recovery"] = summary.recovery_per_seed(every, {}, onset)
    return found


def mean_ranks(times: dict[str, dict[int, float]]) -> dict[str, statistics.Interval]:
    """Rank the names within each seed by their values, 1 the smallest, ties at their mean: mean rank over seeds."""
    seeds = sorted(set.intersection(*(set(values) for values in times.values()))) if times else []
    if not seeds:
        return {}
    ranks = np.array([stats.rankdata([values[seed] for values in times.values()]) for seed in seeds])
    return {name: statistics.bootstrap(ranks[:, i]) for i, name in enumerate(times)}


def findings(rows: Table, conditions: Sequence[Condition]) -> list[str]:
    """Show a table per group, and test every name against the paper's choice."""
    onsets = {_place(c.labels): c.config().perturbation.perturb_at for c in conditions}
    lines: list[str] = []
    for group, names in groups(conditions):
        found = {
            name: measure(select_rows(rows, {**group, "name": name}), onsets[_place({**group, "name": name})])
            for name in names
        }
        lines += ["", f"### {heading(group).capitalize()}", "", *table(found), "", *claims(group, found, rows)]
    return lines


def _place(labels: Labels) -> tuple[Any, ...]:
    return labels["compared"], labels["distractors"], labels["name"]


COLUMNS = {
    "area": "area under the curve",
    "worst": "worst tenth of the goals at the end",
    "wasted": "share p of impossible modules",
    "misjudged": "error of predicted success",
    "recovery": "episodes to recover",
}


def table(found: dict[str, dict[str, dict[int, float]]]) -> list[str]:
    """Make a markdown table, a row per name, best mean rank in episodes to mastery first."""
    ranks = mean_ranks({name: values["mastery"] for name, values in found.items()})
    shown = [key for key in COLUMNS if any(any(found[name].get(key, {}).values()) for name in found)]  # not all zero
    head = ["name", "mean rank", f"episodes to {statistics.MASTERED:g}", *(COLUMNS[key] for key in shown)]
    rows = []
    for name in sorted(found, key=lambda n: ranks[n].estimate if n in ranks else np.inf):
        values = found[name]
        cells = [name, summary.interval(ranks[name]) if name in ranks else ""]
        cells.append(summary.spread(list(values["mastery"].values())) if values["mastery"] else "")
        for key in shown:
            own = list(values.get(key, {}).values())
            as_time = summary.spread if key == "recovery" else lambda v: summary.interval(statistics.bootstrap(v))
            cells.append(as_time(own) if own else "")
        rows.append(cells)
    return markdown.table(head, rows).splitlines()


def claims(group: Labels, found: dict[str, dict[str, dict[int, float]]], rows: Table) -> list[str]:
    """Test each name against the paper's own choice, and the paper's estimator against uniform choice."""
    paper = PAPER if group["compared"] == "estimators" else UNIFORM
    if paper not in found:
        return []
    lines = []
    for name in found:
        if name == paper:
            continue
        first, second = (PAPER, UNIFORM) if name == UNIFORM else (name, paper)
        a, b = (list(found[one]["mastery"].values()) for one in (first, second))
        text = f"`{first}` masters the modules in fewer episodes than `{second}` ({heading(group)})"
        left = summary.pending(rows, *({**group, "name": one} for one in (first, second)))
        lines.append(summary.Claim(text, a, b, first, second, pending=left).words())
    return lines


EXPERIMENT = Experiment(
    name="curricula",
    heading="Curricula: estimators of a module's worth, and samplers of goals within a module",
    conditions=conditions,
    draw=draw,
    findings=findings,
    defaults={
        "fetch": {
            "preset": "fast",
            "episodes": 60_000,
            "evaluation_episodes": 192,
            "cvar_goals": 100,
            "perturb_at": 40_000,
        },
        "point": {**probe.SETTINGS, **probe.CURRICULA},
    },
    fixed={
        **{name: "the experiment's own" for name in ("algorithm", "estimator")},
        "goals": "--samplers",
        "selection": "the experiment's own",
    },
    options=add_options,
    keeps_all=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
