"""report.html: all on one page, right figures, and no error in a browser."""

import re
import shutil
import subprocess

import pytest
from helpers.rows import row

from curious_jax import report
from curious_jax.errors import ConfigError
from curious_jax.run import folder as runfolder
from curious_jax.show import curves

pytest.importorskip("plotly")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --log-level=0 --virtual-time-budget=10000"
).split()


def make(folder, rows, **config):
    folder.mkdir(exist_ok=True)
    runfolder.write_json(folder / "config.json", {"algorithm": "curious", "modules": ["reach", "push"], **config})
    (folder / "metrics.jsonl").write_text("".join(f"{runfolder.json.dumps(r)}\n" for r in rows))
    return folder


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.S)


def test_training_leaves_one(finished_run):
    page = without_scripts((finished_run / report.REPORT).read_text())
    assert "completed" in page and "capacity" in page and "reach" in page


def test_the_success_table_has_the_last_evaluation_and_wilson_intervals(tmp_path):
    page = report.build(make(tmp_path / "run", [row(10, 0.0), row(20, 0.5)]), [row(10, 0.0), row(20, 0.5)])
    (line,) = re.findall(r"<tr><td><span[^>]*></span>reach</td>.*?</tr>", page)
    # 10 of 20: Wilson gives 0.299 to 0.701.
    assert re.findall(r'class="number">([^<]*)<', line) == ["0.500", "0.299 to 0.701", "20"]
    assert "after 20 training episodes" in page
    assert not re.search(r"</span>distractor1</td>", page)  # not evaluated


def test_several_seeds_are_counted_together_with_their_range(tmp_path):
    rows = [row(20, reach, seed=seed) for seed, reach in ((0, 0.4), (1, 0.6))]
    page = report.build(make(tmp_path / "run", rows), rows)
    (line,) = re.findall(r"<tr><td><span[^>]*></span>reach</td>.*?</tr>", page)
    # 20 of 40: 0.352 to 0.648.
    assert re.findall(r'class="number">([^<]*)<', line) == ["0.500", "0.352 to 0.648", "40", "0.400 to 0.600"]


def test_the_curves_are_those_of_curves_png():
    rows = [row(10, 0.1), row(20, 0.5)]
    traces = [t for t in report.figure(rows).data if t.name == "reach" and t.line.width != 0]
    success, competence, progress, p = sorted(traces, key=lambda t: int((t.yaxis or "y")[1:] or 1))
    assert list(success.x) == [10, 20] and list(success.y) == [0.1, 0.5] and list(competence.y) == [0.1, 0.5]
    assert list(progress.y) == [0.25, 0.25]  # -0.25, without its sign
    assert list(p.y) == [0.7, 0.7]
    assert success.line.color == curves.COLOURS[0]


def test_nothing_is_fetched_from_elsewhere(finished_run):
    page = (finished_run / report.REPORT).read_text()
    assert len(page) > 3e6 and "Plotly" in page  # plotly's program is in it
    assert not re.search(r'<(script|link|img|video|iframe)[^>]+(src|href)="(?!data:)', page)


def test_a_video_is_taken_into_the_page(tmp_path):
    run = make(tmp_path / "run", [row(10)])
    assert "<h2>Video" not in report.build(run, [row(10)])
    (run / "video.gif").write_bytes(b"GIF89a")
    assert "data:image/gif;base64,R0lGODlh" in report.build(run, [row(10)])


def test_names_are_text_and_not_html(tmp_path):
    run = make(tmp_path / "<b>run", [row(10)], modules=["<i>reach"])
    page = without_scripts(report.build(run, [row(10)]))
    assert "<b>" not in page and "<i>" not in page and "&lt;b&gt;run" in page


def test_main_writes_it_anew_and_refuses_what_is_no_run(tmp_path, refuse, capsys):
    run = make(tmp_path / "run", [row(10)])
    assert report.main([str(run)]) == 0
    assert "report.html" in capsys.readouterr().out
    assert {p.name for p in run.iterdir()} == {"config.json", "metrics.jsonl", "report.html"}
    shutil.rmtree(run)
    assert "nowhere: is not the folder of a run" in refuse(report, "nowhere")
    assert "usage" in refuse(report)


def test_without_plotly_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "available", lambda: False)
    with pytest.raises(ConfigError, match=r'pip install "curious_jax\[report\]"'):
        report.write(make(tmp_path / "run", [row(10)]))


def console(chromium, page, folder):
    """What a page says in the console of a browser without a screen, and the page as it is then."""
    command = [chromium, *FLAGS, f"--user-data-dir={folder}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if ":CONSOLE:" in line], done.stdout


@pytest.mark.slow
def test_a_browser_opens_it_without_an_error(finished_run, tmp_path):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    faulty = tmp_path / "faulty.html"
    faulty.write_text("<script>thisIsNotDefined()</script>")
    assert "thisIsNotDefined" in console(chromium, faulty, tmp_path / "profile1")[0][0]  # errors are seen at all
    said, dom = console(chromium, finished_run / report.REPORT, tmp_path / "profile2")
    assert said == []
    assert dom.count('class="scatterlayer') >= 4 and ">reach</text>" in dom  # plotly drew its panels and the legend
