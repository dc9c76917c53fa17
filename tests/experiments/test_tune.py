"""The search for settings: what it varies, how it scores, and that it continues."""

import concurrent.futures
import contextlib
import json
import threading

import pytest

from experiments import tune


class Trial:
    """Chooses the last of choices and the upper end of ranges, and is behind from its `patience`-th look on."""

    def __init__(self, patience=None):
        self.patience, self.looks, self.notes = patience, [], {}

    def suggest_categorical(self, name, values):
        return values[-1]

    def suggest_float(self, name, low, high, log):
        return high

    suggest_int = suggest_float

    def report(self, value, step):
        self.looks.append((step, value))

    def should_prune(self):
        return self.patience is not None and len(self.looks) >= self.patience

    def set_user_attr(self, name, value):
        self.notes[name] = value


def test_what_is_varied_is_read():
    space = tune.read_space(["updates-per-cycle=64,192", "mirror=off,on", "actor_lr=3e-4:3e-3:log", "num_envs=8:16"])
    assert space == {
        "updates_per_cycle": [64, 192],
        "mirror": [False, True],
        "actor_lr": (3e-4, 3e-3, True, False),
        "num_envs": (8.0, 16.0, False, True),
    }
    chosen = tune.suggest(Trial(), space)
    assert chosen == {"updates_per_cycle": 192, "mirror": True, "actor_lr": 3e-3, "num_envs": 16}
    assert isinstance(chosen["num_envs"], int)


def test_the_default_space_is_one():
    assert {"num_envs", "guide", "mirror"} <= set(tune.read_space(tune.SPACE))


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--vary", "actor-lrr=1,2"], "--vary actor-lrr=1,2"),
        (["--vary", "actor_lr"], "--vary actor_lr"),
        (["--vary", "actor_lr=0:1:log"], "more than 0"),
        (["--vary", "actor_lr=2:1"], "less than HIGH"),
        (["--vary", "actor_lr=0.1:0.2:lin"], "LOW:HIGH:log"),
        (["--vary", "actor_lr=1e-3,200"], "--actor-lr"),
        (["--vary", "mirror=maybe"], "maybe"),
        (["--minutes", "0"], "--minutes 0"),
        (["--minutes", "inf"], "--minutes inf"),
        (["--vary", "seed=1,2"], "--vary seed=1,2"),
        (["--vary", "num_envs=4,8", "--num-envs", "8"], "--vary num_envs"),
        (["--modules", "fly"], "unknown module 'fly'"),
        (["--modules", "reach,push", "--batch-size", "1"], "--batch-size 1"),
        (["--trials", "none"], "--trials"),
        (["--seeds", "1000,x"], "--seeds"),
        (["--seed", "3"], "--seed"),
        (["--num-env", "3"], "--num-envs"),
    ],
)
def test_bad_options_are_refused_in_a_line(refuse, argv, named):
    assert named in refuse(tune, "--out", "search", *argv)


def test_the_score_is_the_mean_over_seeds(monkeypatch):
    pytest.importorskip("optuna")
    took = {1000: (2.0, False), 1001: (4.0, False)}
    monkeypatch.setattr(tune, "minutes_to_target", lambda settings, seed, minutes, look: took[seed])
    assert tune.score(Trial(), {}, {"num_envs": [8]}, [1000, 1001], 5.0) == 3.0


def test_a_trial_that_is_behind_is_given_up_at_once(monkeypatch):
    optuna = pytest.importorskip("optuna")
    trial, seeds = Trial(patience=2), []

    def train(settings, seed, minutes, look):
        seeds.append(seed)
        return 9.0, any(look(s, 0.5) for s in (5.0, 6.0, 30.0, 50.0))  # the second look is in the first's time

    monkeypatch.setattr(tune, "minutes_to_target", train)
    with pytest.raises(optuna.TrialPruned):
        tune.score(trial, {}, {}, [1000, 1001], 5.0)
    assert seeds == [1000] and trial.looks == [(0, 0.5), (1, 0.5)]


def test_a_continued_search_draws_anew(monkeypatch, tmp_path):
    """Two trials and two more are four different ones."""
    optuna = pytest.importorskip("optuna")
    drawn = []
    monkeypatch.setattr(
        tune, "minutes_to_target", lambda settings, *_: (drawn.append(settings["actor_lr"]) or 1.0, False)
    )
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    command = ["--out", str(tmp_path / "search"), "--world", "point", "--vary", "actor_lr=1e-3:3e-3"]
    for trials in ("2", "4"):
        assert tune.main([*command, "--trials", trials]) == 0
    assert optuna and len(set(drawn)) == 4


def test_two_that_search_at_once_draw_apart_and_end_together(monkeypatch, tmp_path):
    """Both begin before either has a trial, and their trials take the same time."""
    pytest.importorskip("optuna")
    drawn, together, check = [], threading.Barrier(2), tune.check_continued

    def train(settings, *_):
        drawn.append(settings["actor_lr"])
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(5)
        return 1.0, False

    def begin(*given):
        check(*given)
        together.wait(30)

    monkeypatch.setattr(tune, "minutes_to_target", train)
    monkeypatch.setattr(tune, "check_continued", begin)
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    command = ["--out", str(tmp_path / "search"), "--world", "point", "--vary", "actor_lr=1e-3:3e-3", "--trials", "6"]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(tune.main.__wrapped__, [command, command])) == [0, 0]
    assert 6 <= len(drawn) <= 7 and len(set(drawn)) == len(drawn)


def test_a_search_can_be_repeated(monkeypatch, tmp_path):
    pytest.importorskip("optuna")
    drawn = []
    monkeypatch.setattr(tune, "minutes_to_target", lambda settings, *_: (drawn.append(settings["actor_lr"]) or 1.0, 0))
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    for place in ("here", "there"):
        command = ["--out", str(tmp_path / place / "search"), "--world", "point", "--vary", "actor_lr=1e-3:3e-3"]
        assert tune.main([*command, "--trials", "3"]) == 0
    assert drawn[:3] == drawn[3:]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--minutes", "2"], "--minutes 2: the search in search has 5; ask for that, or name another --out"),
        (["--modules", "reach"], "--modules reach: the search in search has its default"),
        (["--seeds", "1000,1001"], "--seeds 1000,1001: the search in search has 1000"),
        (["--vary", "mirror=on,off"], "--vary actor_lr=1e-3:3e-3 mirror=on,off: the search in search has actor_lr"),
    ],
)
def test_a_search_is_not_continued_with_other_settings(argv, line, monkeypatch, empty_folder, capsys):
    pytest.importorskip("optuna")
    monkeypatch.setattr(tune, "minutes_to_target", lambda *_: (1.0, False))
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    command = ["--out", "search", "--world", "point", "--vary", "actor_lr=1e-3:3e-3", "--trials", "1"]
    assert tune.main(command) == 0
    capsys.readouterr()
    assert tune.main([*command, *argv]) == 2
    assert capsys.readouterr().err.startswith(f"error: {line}")


def test_what_the_user_gives_is_not_varied(monkeypatch, tmp_path):
    pytest.importorskip("optuna")
    tried = []
    monkeypatch.setattr(tune, "minutes_to_target", lambda settings, *_: (tried.append(settings) or 1.0, False))
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    given = ["--world", "point", "--batch-size", "64", "--num-envs", "16", "--trials", "3"]
    assert tune.main(["--out", str(tmp_path / "search"), *given]) == 0
    assert {(one["batch_size"], one["num_envs"]) for one in tried} == {(64, 16)}
    assert len({one["actor_lr"] for one in tried}) == 3


def test_an_interrupted_search_keeps_its_trials(monkeypatch, tmp_path):
    """Its exit status says so, and the trial under way is made up for."""
    pytest.importorskip("optuna")
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    command = ["--out", str(tmp_path / "search"), "--world", "point", "--vary", "actor_lr=1e-3:3e-3", "--trials", "2"]
    ends = [1.0, None, 1.0]

    def train(settings, *_):
        if (end := ends.pop(0)) is None:
            raise KeyboardInterrupt
        return end, False

    monkeypatch.setattr(tune, "minutes_to_target", train)
    assert tune.main(command) == 130
    assert tune.main(command) == 0 and ends == []


def test_a_refused_trial_says_why(monkeypatch, tmp_path, capsys):
    pytest.importorskip("optuna")
    monkeypatch.setattr(tune.start, "start_jax", lambda cache: None)
    command = ["--world", "point", "--vary", "perturb_at=900,1000", "--episodes", "100", "--trials", "1"]
    assert tune.main(["--out", str(tmp_path / "search"), *command]) == 0
    assert "trial 0: refused (perturb_at=" in capsys.readouterr().out


@pytest.mark.slow
def test_a_search_continues_and_names_its_best(tmp_path, capsys):
    pytest.importorskip("optuna")
    small = ["--world", "point", "--modules", "reach", "--episodes", "128", "--evaluation-interval", "64"]
    small += ["--evaluation-episodes", "8", "--target-success", "0.2", "--vary", "actor_lr=1e-3,3e-3"]
    command = ["--out", str(tmp_path / "search"), "--minutes", "0.5", *small]
    assert tune.main([*command, "--trials", "1"]) == 0
    assert tune.main([*command, "--trials", "2"]) == 0
    told = [line.split(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["trial 0", "best of 1 whole trials", "trial 1", "best of 2 whole trials"]
    best = json.loads((tmp_path / "search" / "best.json").read_text())
    assert best["trials"] == 2 and best["minutes"] < 1 and best["settings"]["actor_lr"] in (1e-3, 3e-3)
