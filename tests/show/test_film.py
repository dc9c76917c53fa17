"""The film of a run's learning: its stages, the columns that join one after the other, the curve that grows below."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.rows import row
from PIL import Image

import envs
from curious_jax import play
from curious_jax.errors import ConfigError
from curious_jax.run import policies
from curious_jax.show import film, video


def keep(run, episodes, success=None):
    """Keeps the run's last policy once more, as if after so many episodes."""
    found = policies.find(run)
    loaded = policies.load(found)
    policies.save(
        run / "policies" / str(episodes), loaded.params, found.config, {"episodes": episodes, "mean_success": success}
    )


@pytest.fixture(scope="module")
def kept(finished_run, tmp_path_factory):
    """A copy of the finished run, of 16 episodes, with policies kept after 0 and 8."""
    run = shutil.copytree(finished_run, tmp_path_factory.mktemp("runs") / "kept")
    keep(run, 0)
    keep(run, 8, [0.25])
    return run


def test_the_stages_are_the_policies_kept_and_the_last(kept):
    found = film.stages(kept)
    assert [stage.title for stage in found[:2]] == ["untrained", "8 episodes: 0.25"]
    assert [stage.episodes for stage in found] == [0, 8, 16]
    assert found[-1].policy.path.name == "last"


def test_a_last_policy_that_was_kept_too_is_shown_once(kept, tmp_path):
    run = shutil.copytree(kept, tmp_path / "run")
    keep(run, 16, [0.5])
    assert [stage.episodes for stage in film.stages(run)] == [0, 8, 16]


def test_of_many_stages_eight_are_shown_the_first_and_the_last_among_them(monkeypatch, tmp_path):
    monkeypatch.setattr(film.milestones, "find", lambda run: list(range(0, 300, 10)))
    found = lambda run, name="last": SimpleNamespace(  # noqa: E731
        info={"episodes": 300 if name == "last" else int(name), "mean_success": [0.1, 0.5]}
    )
    monkeypatch.setattr(film.policies, "find", found)
    stages = film.stages(tmp_path, seed_index=1)
    assert len(stages) == 8 and (stages[0].episodes, stages[-1].episodes) == (0, 300)
    gaps = np.diff([stage.episodes for stage in stages])
    assert gaps.max() - gaps.min() <= 10
    assert stages[3].success == 0.5


def test_a_run_that_kept_none_says_how_to_keep_some(finished_run, refuse):
    line = refuse(play, finished_run, "--progress", "--video", "out.mp4")
    assert f"--progress: {finished_run} keeps no policies of its way; train with --keep-policies 6" in line


def test_a_policy_alone_has_no_way_to_show(finished_run, refuse):
    line = refuse(play, finished_run / "policies" / "last", "--progress", "--video", "out.mp4")
    assert "is a policy alone, without those of its way; give the folder of a run" in line


@pytest.mark.parametrize("option", [["--viewer"], ["--rounds", "1"], ["--checkpoint", "best"]])
def test_options_without_a_meaning_are_refused(kept, refuse, option):
    assert refuse(play, kept, "--progress", *option).startswith(f"error: {option[0]}: --progress shows one round")


def test_rows_are_those_of_the_seed(two_seed_run):
    found = film.rows(two_seed_run, 6)
    assert found and {row["seed"] for row in found} == {6}
    with pytest.raises(ConfigError, match="has no evaluation yet"):
        film.rows(two_seed_run, 9)


class Painter:
    """A renderer of one colour per state."""

    def frame(self, state, goals):
        return np.full((60, 80, 3), state, np.uint8)


def recording(shade):
    """Two episodes of three states each, all of one shade."""
    return SimpleNamespace(
        length=3,
        module=np.array([0, 1]),
        goal=np.zeros((3, 2, 4)),
        solved=np.zeros((3, 2), bool),
        states=SimpleNamespace(obs=np.zeros((3, 2, 6))),
        state=lambda time, episode: shade,
    )


MODULES = envs.make("point", ("reach", "push")).modules


def test_each_part_has_a_column_more_and_the_curve_grows_at_its_end():
    stages = [film.Stage(None, episodes, None) for episodes in (0, 20, 40)]
    rows = [row(episodes, episodes / 40) for episodes in (10, 20, 30, 40)]
    recordings = [recording(shade) for shade in (10, 60, 110)]
    goal = lambda *mark: mark  # noqa: E731
    pages = list(film.frames(Painter(), MODULES, stages, recordings, rows, goal))
    assert len(pages) == film.count(recordings) == 3 * (2 + video.HOLD)
    part = len(pages) // 3
    columns = [slice(index * 84, index * 84 + 80) for index in range(3)]
    title = pages[0].shape[0] - 2 * 64 - 120
    middle = slice(title + 25, title + 50)  # of the first row's tiles, below their labels
    for number in range(3):
        page = pages[number * part]
        shown = [int(np.median(page[middle, column])) for column in columns]
        assert shown == [*(10, 60, 110)[: number + 1], *[255] * (2 - number)]
    lines = [_line(page) for page in pages]
    assert lines == sorted(lines)
    assert lines[0] == lines[2] < lines[part] == lines[part + 2] < lines[2 * part] == lines[-1]


def _line(page):
    """The column in which the curve ends: dark from the top of the plot on."""
    dark = (page[-118:-40] < 60).all(axis=(0, 2))
    return int(np.flatnonzero(dark)[-1])


def test_the_curve_is_drawn_up_to_the_line_and_not_beyond():
    rows = [row(episodes, 0.5) for episodes in (10, 20, 30, 40)]
    growth = film.Growth(rows, (0, 40), 400)
    blue = [
        np.flatnonzero((growth.picture(at)[..., 2].astype(int) - growth.picture(at)[..., 0] > 120).any(axis=0))
        for at in (20, 40)
    ]
    assert blue[0].size and blue[1].max() > blue[0].max() + 100


@pytest.mark.parametrize("width", [16, 64, 160])
def test_the_curve_is_drawn_in_the_narrowest_film_too(width):
    growth = film.Growth([row(episodes, 0.5) for episodes in (10, 20)], (0, 20), width)
    assert growth.picture(20).shape[1] == width


@pytest.mark.parametrize(("number", "suffix", "size"), [(2, ".mp4", (320, 240)), (8, ".mp4", (236, 177)),
                                                        (6, ".gif", (156, 117))])  # fmt: skip
def test_tiles_fit_beside_one_another(number, suffix, size):
    assert film.tile_size(number, suffix) == size


def test_a_film_of_a_run(kept, empty_folder, capsys):
    assert play.main([str(kept), "--progress", "--video", "out.gif", "--size", "80x64", "--modules", "reach"]) == 0
    shown = capsys.readouterr().out
    assert "playing 1 episode at 3 stages" in shown and "video: out.gif" in shown
    with Image.open("out.gif") as image:
        assert image.size == (3 * 84 - 4, 64 + 4 + 16 + 120)
