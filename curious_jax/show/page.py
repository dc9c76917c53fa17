"""Builds report.html: a run on one page that needs nothing else, with curves to explore.

The curves are drawn by plotly, whose program is inside the page, as is the run's video, so the page opens offline and
can be sent away. page.html is its frame.
"""

import base64
import html
import importlib.util
import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from curious_jax.run import files
from curious_jax.run import folder as runfolder
from curious_jax.run.rows import FRESH
from curious_jax.show import curves
from curious_jax.show.stats import Row, module_names, rate_over_seeds, success, wilson

VIDEOS = {"video.mp4": "video/mp4", "video.gif": "image/gif"}
REPORT = "report.html"
MAX_VIDEO = 40 * 2**20  # bytes; a larger one is linked
_DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
_FACTS = "status episodes env_steps updates wall_s compile_s platform device physics version".split()


def available() -> bool:
    """Tells whether plotly is installed."""
    return importlib.util.find_spec("plotly") is not None


def build(folder: Path, rows: Sequence[Row], place: Path | None = None) -> str:
    """Returns the page of a run folder as text.

    Args:
      place: the folder where the page will lie; None for the run's own.
    """
    summary, config = (files.read_object(folder / name) for name in (runfolder.SUMMARY, runfolder.CONFIG))
    evaluated, success = _success_table(rows)
    return fill(
        figure(rows),
        title=html.escape(folder.resolve().name),
        facts=_facts(summary, config),
        evaluated=evaluated,
        success=success,
        video=_video(folder, place),
        settings=_settings(config),
    )


def fill(drawn: Any, **parts: str) -> str:
    """Fills page.html with curves that plotly has drawn, and with the other parts that it names."""
    within = drawn.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    return Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8")).substitute(parts, curves=within)


def figure(rows: Sequence[Row]) -> Any:
    """Draws the panels of curves.png with plotly: a line per module and its band."""
    from plotly.subplots import make_subplots

    titles = [label for _, label, _ in curves.PANELS]
    result = make_subplots(
        rows=2, cols=2, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.09, horizontal_spacing=0.07
    )
    for panel, (key, _, limits) in enumerate(curves.PANELS):
        row, col = panel // 2 + 1, panel % 2 + 1
        for index, name in enumerate(module_names(rows)):
            line = curves.line(rows, key, name)
            for trace in [] if line is None else traces(line, html.escape(name), index, legend=panel == 1):
                result.add_trace(trace, row=row, col=col)
        extent = {"rangemode": "tozero"} if limits[1] is None else {"range": limits}
        result.update_yaxes(**extent, row=row, col=col)
    result.update_xaxes(title_text="training episodes", row=2)
    result.update_xaxes(rangemode="tozero", hoverformat=",d")
    legend, margin = {"orientation": "h", "y": -0.1}, {"l": 50, "r": 20, "t": 60, "b": 50}
    result.update_layout(height=760, template="plotly_white", hovermode="x unified", margin=margin, legend=legend)
    result.update_layout(font={"family": "system-ui, sans-serif"})
    return result


def traces(line: curves.Line, name: str, index: int, legend: bool) -> list[Any]:
    """Returns the band's two edges and the line, which hide and show together."""
    from plotly.graph_objects import Scatter

    shared = {"x": line.episodes.tolist(), "mode": "lines", "legendgroup": name, "name": name}
    edge = shared | {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    style = {"color": curves.colour(index), "width": 2, "dash": _DASHES[index % len(_DASHES)]}
    low, high = (line.mean, line.mean) if line.low is None else (line.low, line.high)
    red, green, blue = curves.rgb(index)
    return [
        Scatter(y=_finite(low), **edge),
        Scatter(y=_finite(high), fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.15)", **edge),
        Scatter(y=_finite(line.mean), showlegend=legend, hovertemplate="%{y:.3f}", line=style, **shared),
    ]


def _finite(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _success_table(rows: Sequence[Row]) -> tuple[str, str]:
    """Returns (a sentence, the table's lines) about the last evaluation.

    One seed: each module's rate with its 95 % Wilson interval over episodes. Several: the mean over seeds with its
    interval, the seed being the unit, and the range; episodes of one policy say nothing about another seed's.
    """
    last = [row for row in rows if row["episodes"] == rows[-1]["episodes"]]
    several = len(last) > 1
    heads = ["module", "success", "95 % interval", "episodes", *(["seeds, lowest to highest"] if several else [])]
    lines = ["".join(f"<th>{head}</th>" for head in heads)]
    for index, name in enumerate(module_names(rows)):
        found = [success(row, name) for row in last]
        known = [one for one in found if one is not None]
        if len(known) < len(last):
            continue  # distractors are not evaluated
        rates, counts = [rate for rate, _ in known], [count for _, count in known]
        low, high = rate_over_seeds(rates) if several else wilson(round(rates[0] * counts[0]), counts[0])
        cells = [f"{np.mean(rates):.3f}", f"{low:.3f} to {high:.3f}", f"{sum(counts):,}"]
        cells += [f"{min(rates):.3f} to {max(rates):.3f}"] if several else []
        dot = f'<span class="dot" style="background:{curves.colour(index)}"></span>'
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        lines.append(f"<td>{dot}{html.escape(name)}</td>{numbers}")
    seeds = f", {len(last)} seeds: the interval is that of their mean (Student's t)" if several else ""
    fresh = ", on fresh episodes where the target was met" if any(FRESH in row for row in last) else ""
    said = f"The last evaluation, after {rows[-1]['episodes']:,} training episodes{fresh}{seeds}."
    return said, "".join(f"<tr>{line}</tr>" for line in lines)


def _facts(summary: dict[str, Any], config: dict[str, Any]) -> str:
    """Returns one line: algorithm, modules, and how the run ended."""
    distractors = f" + {config['distractors']} distractors" if config.get("distractors") else ""
    parts = [f"{config.get('algorithm', '')} on {say_value(config.get('modules', []))}{distractors}"]
    for name in _FACTS:
        if name in summary:
            value = summary[name]
            form = ",d" if isinstance(value, int) else ",.0f" if isinstance(value, float) else ""
            parts.append(f"{name.removesuffix('_s')} {value:{form}}{' s' if name.endswith('_s') else ''}")
    return html.escape(" · ".join(parts if summary else [*parts, "still running, or stopped at once"]))


def _video(folder: Path, place: Path | None = None) -> str:
    """Returns the run's video, inside the page when it is not too large; nothing for no video, a link or a pipe.

    Where `play` made none, it is the last of those that the run itself recorded. A large one is found from `place`, the
    page's folder (None: the run's).
    """
    recorded = sorted((p for p in folder.glob("videos/*.mp4") if p.stem.isdecimal()), key=lambda p: int(p.stem))
    for name, kind in [*VIDEOS.items(), *((f"videos/{path.name}", "video/mp4") for path in recorded[-1:])]:
        try:
            with files.open_regular(folder / name) as file:
                data = file.read(MAX_VIDEO + 1)
        except OSError:
            continue
        inside = f"data:{kind};base64,{base64.b64encode(data).decode()}"
        beside = urllib.parse.quote(Path(os.path.relpath(folder / name, place or folder)).as_posix())
        source = inside if len(data) <= MAX_VIDEO else beside
        image = f'<img alt="" src="{source}">'
        tag = image if kind.startswith("image") else f'<video controls loop muted src="{source}"></video>'
        return f"<h2>Video</h2>{tag}"
    return ""


def _settings(config: dict[str, Any]) -> str:
    """Returns every setting of config.json, by group."""
    groups = {"run": {k: v for k, v in config.items() if not isinstance(v, dict)}}
    groups |= {k: v for k, v in config.items() if isinstance(v, dict)}
    sections = []
    for group, values in groups.items():
        lines = "".join(
            f"<tr><td>{html.escape(k)}</td><td>{html.escape(say_value(v))}</td></tr>" for k, v in values.items()
        )
        sections.append(f"<section><h3>{html.escape(group)}</h3><table>{lines}</table></section>")
    return "".join(sections)


def say_value(value: Any) -> str:
    """Says a setting's value."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
