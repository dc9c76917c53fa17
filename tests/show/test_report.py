"""report: curves.png and report.html, all on one page, right numbers, no error in a browser, and where they go."""

import json
import os
import re
import shutil
import subprocess

import pytest
from helpers.rows import row

from curious_jax import report
from curious_jax.run import folder as runfolder
from curious_jax.show import curves, page

pytest.importorskip("plotly")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr --log-level=0 --virtual-time-budget=10000"
).split()


def make(folder, rows, **config):
    folder.mkdir(exist_ok=True)
    runfolder.write_json(folder / "config.json", {"algorithm": "curious", "modules": ["reach", "push"], **config})
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    return folder


def without_scripts(page):
    return re.sub(r"<script.*?</script>", "", page, flags=re.S)


def test_training_leaves_one(finished_run):
    text = without_scripts((finished_run / page.REPORT).read_text())
    assert "completed" in text and "capacity" in text and "reach" in text


def test_the_success_table_has_the_last_evaluation_and_wilson_intervals(tmp_path):
    text = page.build(make(tmp_path / "run", [row(10, 0.0), row(20, 0.5)]), [row(10, 0.0), row(20, 0.5)])
    (line,) = re.findall(r"<tr><td><span[^>]*></span>reach</td>.*?</tr>", text)
    # 10 of 20: Wilson gives 0.299 to 0.701.
    assert re.findall(r'class="number">([^<]*)<', line) == ["0.500", "0.299 to 0.701", "20"]
    assert "after 20 training episodes" in text
    assert not re.search(r"</span>distractor1</td>", text)  # not evaluated


def test_of_several_seeds_the_seed_is_the_unit(tmp_path):
    rows = [row(20, reach, seed=seed) for seed, reach in ((0, 0.5), (1, 0.52), (2, 0.54), (3, 0.56))]
    text = page.build(make(tmp_path / "run", rows), rows)
    (line,) = re.findall(r"<tr><td><span[^>]*></span>reach</td>.*?</tr>", text)
    # Standard error 0.0129, t(0.975, 3) = 3.182; the episodes together would give 0.421 to 0.637.
    numbers = re.findall(r'class="number">([^<]*)<', line)
    assert numbers == ["0.530", "0.489 to 0.571", "80", "0.500 to 0.560"]


def test_the_curves_are_those_of_curves_png():
    rows = [row(10, 0.1), row(20, 0.5)]
    traces = [t for t in page.figure(rows).data if t.name == "reach" and t.line.width != 0]
    success, competence, progress, p = sorted(traces, key=lambda t: int((t.yaxis or "y")[1:] or 1))
    assert list(success.x) == [10, 20] and list(success.y) == [0.1, 0.5] and list(competence.y) == [0.1, 0.5]
    assert list(progress.y) == [0.25, 0.25]  # -0.25, without its sign
    assert list(p.y) == [0.7, 0.7]
    assert success.line.color == curves.COLOURS[0]


def test_nothing_is_fetched_from_elsewhere(finished_run):
    text = (finished_run / page.REPORT).read_text()
    assert len(text) > 3e6 and "Plotly" in text  # plotly's program is in it
    assert not re.search(r'<(script|link|img|video|iframe)[^>]+(src|href)="(?!data:)', text)


def test_a_video_is_taken_into_the_page(tmp_path):
    run = make(tmp_path / "run", [row(10)])
    assert "<h2>Video" not in page.build(run, [row(10)])
    (run / "video.gif").write_bytes(b"GIF89a")
    assert "data:image/gif;base64,R0lGODlh" in page.build(run, [row(10)])


def test_names_are_text_and_not_html(tmp_path):
    run = make(tmp_path / "<b>run", [row(10)], modules=["<i>reach"])
    text = without_scripts(page.build(run, [row(10)]))
    assert "<b>" not in text and "<i>" not in text and "&lt;b&gt;run" in text


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_only_a_file_of_the_run_is_taken_as_its_video(tmp_path, kind):
    run, secret = make(tmp_path / "run", [row(10)]), tmp_path / "secret"
    secret.write_bytes(b"GIF89a")
    if kind == "link":
        (run / "video.gif").symlink_to(secret)
    else:
        os.mkfifo(run / "video.gif")
    assert "<h2>Video" not in page.build(run, [row(10)])


def own(run):
    """Makes a run's folder one that holds a checkpoint, as training leaves it."""
    (run / "checkpoints" / "400").mkdir(parents=True)
    return run


def test_a_run_s_curves_and_page_go_into_its_folder(tmp_path, empty_folder, capsys):
    run = own(make(tmp_path / "run", [row(10)]))
    assert report.main([str(run)]) == 0
    shown = capsys.readouterr().out
    assert f"report: {run}/report.html" in shown and f"curves: {run}/curves.png" in shown and "success: " in shown
    files = {path.name for path in run.iterdir()}
    assert files == {"config.json", "metrics.jsonl", "checkpoints", "curves.png", "report.html"}


def test_a_copy_without_checkpoints_is_left_alone(tmp_path, empty_folder, capsys):
    """Such as docs/results/NAME, whose files are tracked."""
    run = make(tmp_path / "copy", [row(10)])
    assert report.main([str(run)]) == 0
    assert {path.name for path in run.iterdir()} == {"config.json", "metrics.jsonl"}
    assert {path.name for path in empty_folder.glob("copy-*")} == {"copy-curves.png", "copy-report.html"}
    assert "report: copy-report.html" in capsys.readouterr().out


def test_out_names_another_folder(tmp_path, capsys):
    run = own(make(tmp_path / "run", [row(10)]))
    assert report.main([str(run), "--out", str(tmp_path / "a" / "b")]) == 0
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"curves.png", "report.html"}
    assert not (run / "report.html").exists()


def test_bad_input_is_refused(tmp_path, refuse):
    assert "nowhere: no such folder; give the folder of a run" in refuse(report, "nowhere")
    assert "is for evaluate and play" in refuse(report, "nowhere")  # what to do with a policy alone
    assert "RUN" in refuse(report) or "run" in refuse(report)
    assert "--out" in refuse(report, make(tmp_path / "run", [row(10)]), "--out", "/dev/null/x")
    assert "has no evaluation yet" in refuse(report, make(tmp_path / "new", []))


def test_help_is_there(capsys):
    with pytest.raises(SystemExit, match="^0$"):
        report.main(["--help"])
    assert "--out DIR" in capsys.readouterr().out


def test_a_full_disk_is_one_line(tmp_path, monkeypatch, capsys):
    run = own(make(tmp_path / "run", [row(10)]))

    def full(*args):
        raise OSError(28, "No space left on device", str(run / "curves.png"))

    monkeypatch.setattr(os, "replace", full)
    assert report.main([str(run)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device" in said
    assert {path.name for path in run.iterdir()} == {"config.json", "metrics.jsonl", "checkpoints"}


def test_without_plotly_the_curves_are_drawn_and_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(page, "available", lambda: False)
    run = own(make(tmp_path / "run", [row(10)]))
    assert report.main([str(run)]) == 0
    assert 'pip install "curious_jax[report]"' in capsys.readouterr().out
    assert (run / "curves.png").exists() and not (run / "report.html").exists()


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
    said, dom = console(chromium, finished_run / page.REPORT, tmp_path / "profile2")
    assert said == []
    assert dom.count('class="scatterlayer') >= 4 and ">reach</text>" in dom  # plotly drew its panels and the legend


def test_a_large_video_is_found_from_where_the_page_lies(tmp_path, monkeypatch):
    run = tmp_path / "a run"
    run.mkdir()
    (run / "video.mp4").write_bytes(b"0123")
    monkeypatch.setattr(page, "MAX_VIDEO", 3)
    assert 'src="video.mp4"' in page._video(run)
    assert 'src="../a%20run/video.mp4"' in page._video(run, tmp_path / "pages")
