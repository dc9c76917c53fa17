"""The list of figures: true of the pages; a lost file, table, picture, folder or an unlisted table is told."""

from pathlib import Path

import pytest

from curious_jax.errors import ConfigError
from experiments.checks import results

ROOT = Path(__file__).parents[3]
ENTRY = """
[curves]
what = "the curves"
command = "python -m curious_jax.train"
files = ["docs/results/run/curves.png"]
tables = [["README.md", "| run | success"]]
"""
TABLE = "| run | success | at the end | time |\n| --- | --- | --- | --- |\n| a | 0.97 | 1.00 | 4.3 s |\n"


def test_every_figure_of_the_repository_has_its_command_and_its_files():
    figures = results.read((ROOT / results.LIST).read_text())
    assert len(figures) > 10
    assert not list(results.problems(figures, ROOT))


def test_the_pages_pictures_and_measured_tables_are_found():
    text = results.pages(ROOT)
    shown = {picture for page in text for picture in results.pictures(page, text[page], ROOT)}
    assert {"docs/results/fetch-four-modules-cpu/curves.png", "docs/pictures/browser.png"} <= shown
    heads = {table.head for page in text for table in results.tables(page, text[page]) if table.is_measured}
    assert "| batch | updates/s | TFLOP/s |" in heads and "| exit status | means |" not in heads


@pytest.fixture
def repository(tmp_path):
    """A repository with one picture, its run and a table of it."""
    (tmp_path / "docs" / "results" / "run").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "run" / "curves.png").write_text("")
    (tmp_path / "README.md").write_text(f"![curves](docs/results/run/curves.png)\n\n{TABLE}")
    return tmp_path


def told(repository, text=ENTRY):
    return list(results.problems(results.read(text), repository))


def test_a_repository_whose_figures_are_listed_is_in_order(repository):
    assert told(repository) == []


def test_a_lost_file_is_told(repository):
    (repository / "docs" / "results" / "run" / "curves.png").unlink()
    assert told(repository) == ["[curves] docs/results/run/curves.png: no such file"]


def test_a_table_that_is_not_there_is_told(repository):
    (repository / "README.md").write_text("")
    assert told(repository) == ["[curves] README.md: no table that begins with | run | success"]


def test_a_picture_a_folder_and_a_table_without_an_entry_are_told(repository):
    found = told(repository, ENTRY.replace("run/curves.png", "other/x.png").replace("| run |", "| x |"))
    assert any(line.startswith("README.md: the picture docs/results/run/curves.png belongs to no") for line in found)
    assert any(line.startswith("docs/results/run/: belongs to no") for line in found)
    assert any(line.startswith("README.md: the table | run | success") for line in found)


def test_a_table_with_its_command_needs_no_entry(repository):
    page = (repository / "README.md").read_text()
    (repository / "README.md").write_text(
        page + "\n`python -m curious_jax.benchmark` says:\n\n" + TABLE.replace("run", "x")
    )
    assert told(repository) == []


def test_a_picture_from_elsewhere_is_no_figure(repository):
    with (repository / "README.md").open("a") as page:
        page.write("\n![badge](https://elsewhere/badge.svg)\n")
    assert told(repository) == []


@pytest.mark.parametrize(
    ("old", "new"), [("command =", "order ="), ('command = "python -m curious_jax.train"', ""), ("files =", "kept =")]
)
def test_an_entry_with_other_fields_is_refused(old, new):
    with pytest.raises(ConfigError, match=r"\[curves\]"):
        results.read(ENTRY.replace(old, new))


def test_the_command_lists_and_judges(repository, monkeypatch, capsys):
    (repository / results.LIST).write_text(ENTRY)
    monkeypatch.setattr(results, "ROOT", repository)
    assert results.main([]) == 0
    assert "on README.md; 1 of 1 files" in capsys.readouterr().out
    (repository / "docs" / "results" / "run" / "curves.png").unlink()
    assert results.main([]) == 1
    assert "no such file" in capsys.readouterr().err
