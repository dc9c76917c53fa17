"""report.html: a run on one page that needs nothing else, with curves to be explored.

    python -m curious_jax.report RUN

Training writes it at its end when plotly is installed. Curves are drawn by plotly, whose program is inside the page,
as is the run's video (`play` writes video.mp4 or video.gif into the folder), so it opens offline and can be sent away.
"""

import base64
import html
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curious_jax import evaluation
from curious_jax.cli import program
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.show import curves
from curious_jax.show.curves import Row

REPORT = "report.html"
VIDEOS = {"video.mp4": "video/mp4", "video.gif": "image/gif"}
MAX_VIDEO = 40 * 2**20  # bytes; a larger one is linked
_DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot")
_TITLES = {
    "eval/success": "success rate",
    "competence": "competence C",
    "learning_progress": "absolute learning progress |LP|",
    "p_module": "probability of choice p_LP",
}
_FACTS = (
    "status",
    "episodes",
    "env_steps",
    "updates",
    "wall_s",
    "compile_s",
    "platform",
    "device",
    "physics",
    "version",
)
_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #21252b; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
p.facts { color: #5b616b; margin-top: .3rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #ccd0d6; } td.number { font-variant-numeric: tabular-nums; }
.dot { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .5em; }
.groups { columns: 2 320px; } .groups section { break-inside: avoid; margin-bottom: 1rem; }
.groups h3 { font-size: .95rem; margin: 0 0 .2rem; } .groups table { font-size: .85rem; }
video, img { max-width: 100%; border-radius: 6px; }
"""


def available() -> bool:
    """Is plotly installed?"""
    return importlib.util.find_spec("plotly") is not None


def write(folder: str | Path) -> Path:
    """Writes report.html of a run folder, whole or not at all; its path.

    Raises:
      ConfigError: when the folder is no run's, has no evaluation yet, or plotly is missing.
    """
    folder = Path(folder)
    if not available():
        raise ConfigError('report.html needs plotly: pip install "curious_jax[report]"')
    rows = curves.rows_of(folder)
    page = build(folder, rows)
    scratch = folder / f".{REPORT}.{os.getpid()}"
    try:
        scratch.write_text(page, encoding="utf-8")
        os.replace(scratch, folder / REPORT)
    finally:
        scratch.unlink(missing_ok=True)
    return folder / REPORT


def build(folder: Path, rows: Sequence[Row]) -> str:
    """The page as text."""
    summary = _json(folder / runfolder.SUMMARY)
    config = _json(folder / runfolder.CONFIG)
    title = folder.resolve().name
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="facts">{_facts(summary, config)}</p>',
        f"<h2>Success</h2>{_success_table(rows)}",
        f"<h2>Curves</h2>{figure(rows).to_html(full_html=False, include_plotlyjs=True, config={'displaylogo': False})}",
        _video(folder),
        f"<h2>Settings</h2>{_settings(config)}",
    ]
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><link rel="icon" href="data:,">'
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'
    )


def figure(rows: Sequence[Row]) -> Any:
    """The panels of curves.png as a plotly figure: a line per module, its band over seeds (or the 95 % interval)."""
    from plotly.subplots import make_subplots

    result = make_subplots(rows=2, cols=2, shared_xaxes=True, subplot_titles=list(_TITLES.values()),
                           vertical_spacing=0.09, horizontal_spacing=0.07)  # fmt: skip
    for panel, (key, _, limits) in enumerate(curves.PANELS):
        where = {"row": panel // 2 + 1, "col": panel % 2 + 1}
        for index, name in enumerate(curves.module_names(rows)):
            line = curves.line(rows, key, name)
            if line is not None:
                result.add_traces(_traces(line, name, index, legend=panel == 1), **_repeated(where, 3))
        result.update_yaxes(**({"rangemode": "tozero"} if limits[1] is None else {"range": limits}), **where)
    result.update_xaxes(title_text="training episodes", row=2)
    result.update_xaxes(rangemode="tozero", hoverformat=",d")
    result.update_layout(
        height=760, template="plotly_white", hovermode="x unified", margin={"l": 50, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "y": -0.1}, font={"family": "system-ui, sans-serif"},
    )  # fmt: skip
    return result


def _repeated(where: dict[str, int], times: int) -> dict[str, list[int]]:
    return {"rows": [where["row"]] * times, "cols": [where["col"]] * times}


def _traces(line: curves.Line, name: str, index: int, legend: bool) -> list[Any]:
    """The band's two edges and the line, which hide and show together."""
    from plotly import graph_objects

    colour = curves.COLOURS[index % len(curves.COLOURS)]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    x = line.episodes.tolist()
    shared = {"x": x, "mode": "lines", "legendgroup": name, "name": name}
    edge = shared | {"line": {"width": 0}, "showlegend": False, "hoverinfo": "skip"}
    low, high = (line.mean, line.mean) if line.low is None else (line.low, line.high)
    return [
        graph_objects.Scatter(y=_plain(low), **edge),
        graph_objects.Scatter(y=_plain(high), fill="tonexty", fillcolor=f"rgba({red},{green},{blue},0.15)", **edge),
        graph_objects.Scatter(
            y=_plain(line.mean), showlegend=legend, hovertemplate="%{y:.3f}",
            **shared | {"line": {"color": colour, "width": 2, "dash": _DASHES[index % len(_DASHES)]}},
        ),
    ]  # fmt: skip


def _plain(values: Any) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _success_table(rows: Sequence[Row]) -> str:
    """The last evaluation: rate and 95 % Wilson interval of every seed's episodes per module."""
    last = [row for row in rows if row["episodes"] == rows[-1]["episodes"]]
    several = len(last) > 1
    heads = ["module", "success", "95 % interval", "episodes", *(["seeds, lowest to highest"] if several else [])]
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for index, name in enumerate(curves.module_names(rows)):
        if last[0].get(f"eval/success/{name}") is None:
            continue  # distractors are not evaluated
        rates = [row[f"eval/success/{name}"] for row in last]
        counts = [int(row[f"eval/n/{name}"]) for row in last]
        solved, total = sum(round(r * n) for r, n in zip(rates, counts, strict=True)), sum(counts)
        low, high = evaluation.wilson(solved, total)
        cells = [f"{solved / total:.3f}", f"{low:.3f} to {high:.3f}", f"{total:,}"]
        cells += [f"{min(rates):.3f} to {max(rates):.3f}"] if several else []
        dot = f'<span class="dot" style="background:{curves.COLOURS[index % len(curves.COLOURS)]}"></span>'
        numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
        lines.append(f"<tr><td>{dot}{html.escape(name)}</td>{numbers}</tr>")
    seeds = f", {len(last)} seeds together" if several else ""
    said = f"The last evaluation, after {rows[-1]['episodes']:,} training episodes{seeds}."
    return f"<p>{said}</p><table>{''.join(lines)}</table>"


def _facts(summary: dict[str, Any], config: dict[str, Any]) -> str:
    """One line: algorithm, modules, and how the run ended."""
    distractors = f" + {config['distractors']} distractors" if config.get("distractors") else ""
    parts = [f"{config.get('algorithm', '')} on {', '.join(config.get('modules', []))}{distractors}"]
    for name in _FACTS:
        if name in summary:
            value = summary[name]
            text = (
                f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if isinstance(value, float) else str(value)
            )
            parts.append(f"{name.removesuffix('_s')} {text}{' s' if name.endswith('_s') else ''}")
    return html.escape(" · ".join(parts if summary else [*parts, "still running, or stopped at once"]))


def _video(folder: Path) -> str:
    """The run's video, inside the page when it is not too large; nothing when there is none."""
    for name, kind in VIDEOS.items():
        path = folder / name
        if path.is_file():
            small = path.stat().st_size <= MAX_VIDEO
            source = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}" if small else name
            tag = (
                f'<img alt="" src="{source}">'
                if kind.startswith("image")
                else f'<video controls loop muted src="{source}"></video>'
            )
            return f"<h2>Video</h2>{tag}"
    return ""


def _settings(config: dict[str, Any]) -> str:
    """Every setting of config.json, by group."""
    groups = {"run": {k: v for k, v in config.items() if not isinstance(v, dict)}}
    groups |= {k: v for k, v in config.items() if isinstance(v, dict)}
    sections = []
    for group, values in groups.items():
        lines = "".join(
            f"<tr><td>{html.escape(k)}</td><td>{html.escape(_shown(v))}</td></tr>" for k, v in values.items()
        )
        sections.append(f"<section><h3>{html.escape(group)}</h3><table>{lines}</table></section>")
    return f'<div class="groups">{"".join(sections)}</div>'


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def main(argv: Sequence[str] | None = None) -> int:
    """Writes report.html of a run folder anew."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    return program.run(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    print(f"report: {write(program.only_run('report', arguments))}")
    return program.DONE


if __name__ == "__main__":
    sys.exit(main())
