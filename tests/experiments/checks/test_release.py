"""A release: whole, or refused by name; what was tried and what was not is said, and failure alone is a failure."""

import io
import subprocess
import tarfile
import zipfile

import pytest

from experiments.checks import pythons, release


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Stands in for the build: a wheel and an sdist of three files; all that git is said to know."""
    names = ["curious_jax/__init__.py", "curious_jax/show/page.html", "envs/fetch/robot.xml"]
    wheel, sdist = tmp_path / "curious_jax-1-py3-none-any.whl", tmp_path / "curious_jax-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"curious_jax-1/{name}")
            member.size = 1
            archive.addfile(member, io.BytesIO(b"x"))
    monkeypatch.setattr(release, "build", lambda out: {"wheel": wheel, "sdist": sdist})
    monkeypatch.setattr(release, "tracked_files", lambda *folders: [*names, "experiments/README.md"])
    monkeypatch.setattr(release, "page_files", lambda: [])
    monkeypatch.setattr(release, "check_metadata", lambda paths: None)
    monkeypatch.setattr(pythons, "find", lambda version: None if version == "3.13" else f"python{version}")
    return names


def test_a_lost_file_is_named(built, monkeypatch, capsys):
    monkeypatch.setattr(release, "tracked_files", lambda *folders: [*built, "envs/fetch/mesh.stl"])
    assert release.main([]) == 2
    assert "lacks envs/fetch/mesh.stl" in capsys.readouterr().err


def test_the_browsers_page_must_be_there_where_it_is_built_and_is_told(built, monkeypatch, capsys):
    monkeypatch.setattr(release, "try_installed", lambda python, path, folder: "trained 16 episodes")
    assert release.main(["--kinds", "wheel"]) == 0
    assert "the browser's page: in neither, make web builds it" in capsys.readouterr().out
    monkeypatch.setattr(release, "page_files", lambda: [f"{release.PAGE}/page.js"])
    assert release.main([]) == 2
    assert "lacks curious_jax/show/browser_page/page.js" in capsys.readouterr().err


def test_the_pages_files_are_found_where_make_web_leaves_them(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.page_files() == []
    (tmp_path / release.PAGE / "licences").mkdir(parents=True)
    for name in ("page.js", "licences/three-LICENSE"):
        (tmp_path / release.PAGE / name).write_text("x")
    assert release.page_files() == [f"{release.PAGE}/licences/three-LICENSE", f"{release.PAGE}/page.js"]


def test_a_python_that_is_not_there_is_skipped_and_named(built, monkeypatch, capsys):
    monkeypatch.setattr(release, "try_installed", lambda python, path, folder: "trained 16 episodes")
    assert release.main(["--kinds", "wheel"]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert "Python 3.13: not on this machine, skipped" in lines
    assert last == "installed and trained: wheel on 3.11, wheel on 3.12; not tried, no such Python here: 3.13"


def test_one_failure_makes_the_whole_fail_and_the_rest_is_tried(built, monkeypatch, capsys):
    def one_fails(python, path, folder):
        if (python, path.suffix) == ("python3.11", ".whl"):
            raise release.ConfigError("training failed")
        return "trained 16 episodes"

    monkeypatch.setattr(release, "try_installed", one_fails)
    assert release.main(["--pythons", "3.11,3.12"]) == 1
    out = capsys.readouterr().out
    assert "Python 3.11, wheel: FAILED: training failed" in out
    assert "installed and trained: sdist on 3.11, wheel on 3.12, sdist on 3.12; failed: wheel on 3.11" in out


def test_nothing_tried_is_no_success(built, capsys):
    assert release.main(["--pythons", "3.13"]) == 1
    assert "installed and trained: nothing" in capsys.readouterr().out


def test_what_a_failed_step_printed_is_shown(tmp_path, capsys):
    with pytest.raises(release.ConfigError, match="the step failed with exit status 3"):
        release._run(["sh", "-c", "echo the reason; exit 3"], "the step", tmp_path)
    assert "the reason" in capsys.readouterr().err


def test_files_that_git_does_not_know_stay_out(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(release.ConfigError, match="clone"):
        release.tracked_files()
    (tmp_path / "known.py").write_text("")
    (tmp_path / "other.py").write_text("")
    for command in (["init", "-q"], ["add", "known.py"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert release.tracked_files() == ["known.py"]


def test_a_link_to_a_folder_stands_for_its_files(tmp_path, monkeypatch):
    """As curious_jax/run/pretrained does for the policies, which a release must hold."""
    monkeypatch.setattr(release, "ROOT", tmp_path)
    (tmp_path / "data" / "inner").mkdir(parents=True)
    (tmp_path / "data" / "inner" / "x.npz").write_text("")
    (tmp_path / "data" / "unknown").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "data").symlink_to("../data")
    for command in (["init", "-q"], ["add", "data/inner", "package"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    assert release.tracked_files("package") == ["package/data/inner/x.npz"]


def test_the_policies_are_among_what_a_release_must_hold():
    assert "curious_jax/run/pretrained/four-modules/policy.npz" in release.tracked_files(*release.PACKAGES)
