"""Compares several runs: their success against episodes, side by side by module, and the settings in which they differ.

comparison.html needs nothing else, as report.html does; comparison.png shows the same curves without plotly.
"""

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.show import curves, page
from curious_jax.show.stats import Row, mean_success, module_names, rate_over_seeds, success, wilson

PAGE, PICTURE = "comparison.html", "comparison.png"
COLUMNS = 3  # of panels
NAMED = 28  # runs that a legend has room for
_NOT_SETTINGS = ("preset",)  # it is told by what it sets


@dataclass(frozen=True)
class Run:
    """A run as it is compared."""

    name: str
    rows: Sequence[Row]
    config: dict[str, Any]
    summary: dict[str, Any]

    @property
    def last(self) -> list[Row]:
        """Gives the rows of the last evaluation, one per seed."""
        return [row for row in self.rows if row["episodes"] == self.rows[-1]["episodes"]]


def load(folders: Sequence[Path], rows: Sequence[Sequence[Row]]) -> list[Run]:
    """Makes the runs of their folders and metrics; where two have one name, their parents stand before it."""
    parts = [folder.resolve().parts for folder in folders]
    deepest = max(len(one) for one in parts)
    depths = (["/".join(one[-depth:]) for one in parts] for depth in range(1, deepest + 1))
    names = next((found for found in depths if len(set(found)) == len(set(parts))), ["/".join(one) for one in parts])
    settings, ends = ([files.read_object(folder / name) for folder in folders] for name in
                      (runfolder.CONFIG, runfolder.SUMMARY))  # fmt: skip
    return [Run(*parts) for parts in zip(names, rows, settings, ends, strict=True)]


def panels(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Returns (key, name) of the curves: mean success, then each module that any of the runs evaluates."""
    modules = dict.fromkeys(name for run in runs for name in module_names(run.rows))
    evaluated = [name for name in modules if any(f"eval/success/{name}" in run.rows[-1] for run in runs)]
    return [("eval", "success"), *(("eval/success", name) for name in evaluated)]


def png(runs: Sequence[Run]) -> bytes:
    """Draws success against training episodes: a panel for the mean and each module, a line per run."""
    from matplotlib.figure import Figure

    shown = panels(runs)
    lines = -(-len(shown) // COLUMNS)
    with curves.own_style():
        figure = Figure(figsize=(11, 3.2 * lines + 0.6), layout="constrained")
        axes = figure.subplots(lines, COLUMNS, squeeze=False).flat
        for ax, (key, name) in zip(axes, shown):
            for index, run in enumerate(runs):
                if found := curves.line(run.rows, key, name):
                    curves.draw(ax, found, run.name, index)
            ax.set_title(_title(key, name), fontsize=10)
            ax.set_ylim(-0.03, 1.03)
            ax.set_xlim(left=0)
            ax.set_xlabel("training episodes")
            curves.frame(ax)
        handles, labels = axes[0].get_legend_handles_labels()
        if len(runs) > NAMED:
            figure.suptitle(f"{len(runs)} runs, of which the first {NAMED} are named", fontsize=10)
        for ax in axes[len(shown) :]:
            ax.set_axis_off()
        figure.legend(handles[:NAMED], labels[:NAMED], loc="outside lower center", ncols=2, frameon=False)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=130)
    return picture.getvalue()


def build(runs: Sequence[Run]) -> str:
    """Returns comparison.html as text."""
    return page.fill(
        figure(runs),
        title=html.escape(f"{len(runs)} runs"),
        facts=html.escape(" · ".join(run.name for run in runs)),
        evaluated="The last evaluation of each run, with 95 % intervals: over episodes where a run has one seed "
        "(Wilson), over seeds where it has several (Student's t).",
        success=_table(runs),
        video="",
        settings=_settings(runs),
    )


def figure(runs: Sequence[Run]) -> Any:
    """Draws the panels with plotly."""
    from plotly.subplots import make_subplots

    shown = panels(runs)
    lines = -(-len(shown) // COLUMNS)
    titles = [html.escape(_title(key, name)) for key, name in shown]
    result = make_subplots(rows=lines, cols=COLUMNS, subplot_titles=titles, horizontal_spacing=0.06)
    for panel, (key, name) in enumerate(shown):
        row, col = panel // COLUMNS + 1, panel % COLUMNS + 1
        for index, run in enumerate(runs):
            line = curves.line(run.rows, key, name)
            for trace in [] if line is None else page.traces(line, html.escape(run.name), index, legend=panel == 0):
                result.add_trace(trace, row=row, col=col)
    result.update_yaxes(range=(-0.03, 1.03))
    result.update_xaxes(title_text="training episodes", rangemode="tozero", hoverformat=",d")
    result.update_layout(height=340 * lines + 80, template="plotly_white", hovermode="x unified")
    result.update_layout(legend={"orientation": "h", "y": -0.2 / lines}, font={"family": "system-ui, sans-serif"})
    return result


def _title(key: str, name: str) -> str:
    return "mean success" if key == "eval" else f"success of {name}"


def _table(runs: Sequence[Run]) -> str:
    """Returns the table's lines: how each run ended, its mean success, and that of each module."""
    modules = [name for key, name in panels(runs) if key != "eval"]
    heads = ["run", "status", "episodes", "seconds", "mean success", *map(html.escape, modules)]
    lines = ["".join(f"<th>{head}</th>" for head in heads)]
    for index, run in enumerate(runs):
        dot = f'<span class="dot" style="background:{curves.colour(index)}"></span>'
        wall = run.summary.get("wall_s", run.rows[-1].get("wall_s"))
        cells = [
            html.escape(str(run.summary.get("status", "running"))),
            f"{run.rows[-1]['episodes']:,}",
            f"{wall:,.0f}" if isinstance(wall, (int, float)) else "",
            f"{np.mean([mean_success(row) for row in run.last]):.3f}",
            *(_success(run, name) for name in modules),
        ]
        lines.append(f"<td>{dot}{html.escape(run.name)}</td>" + "".join(f'<td class="number">{c}</td>' for c in cells))
    return "".join(f"<tr>{line}</tr>" for line in lines)


def _success(run: Run, name: str) -> str:
    """Says a module's success at the end, with its interval; nothing where the run has no such module."""
    known = [one for row in run.last if (one := success(row, name)) is not None]
    if not known or len(known) < len(run.last):
        return ""
    rates = [rate for rate, _ in known]
    low, high = rate_over_seeds(rates) if len(rates) > 1 else wilson(round(rates[0] * known[0][1]), known[0][1])
    return f"{np.mean(rates):.3f} ({low:.2f} to {high:.2f})"


def differing(runs: Sequence[Run]) -> dict[str, list[Any]]:
    """Returns {setting: its value in each run} of those settings that are not the same in all; None where unknown."""
    flat = []
    for run in runs:
        held = {k: v for k, v in run.config.items() if not isinstance(v, dict)}
        flat.append(held | {k: v for group in run.config.values() if isinstance(group, dict) for k, v in group.items()})
    names = dict.fromkeys(name for held in flat for name in held if name not in _NOT_SETTINGS)
    found = {name: [held.get(name) for held in flat] for name in names}
    return {name: values for name, values in found.items() if any(value != values[0] for value in values)}


def _settings(runs: Sequence[Run]) -> str:
    """Returns a table of the settings in which the runs differ."""
    found = differing(runs)
    if not found:
        return "<p>All settings are the same.</p>"
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in ["setting", *(run.name for run in runs)])
    lines = [
        f"<td>{html.escape(name)}</td>" + "".join(f"<td>{html.escape(page.say_value(value))}</td>" for value in values)
        for name, values in found.items()
    ]
    table = "".join(f"<tr>{line}</tr>" for line in [heads, *lines])
    return f'<section style="column-span: all"><table>{table}</table></section>'
