"""The evaluate program: success with intervals from a run folder."""

import json
from pathlib import Path

import pytest

from curious_jax import errors, evaluate, evaluation


def measured(capsys, *argv):
    assert evaluate.main([str(a) for a in argv]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_rates_and_intervals_per_achievable_module(finished_run, capsys):
    result = measured(capsys, finished_run, "--episodes", "10", "--json")
    assert set(result["success"]) == {"reach", "push"}
    for name, rate in result["success"].items():
        assert result["episodes"][name] >= 10
        assert rate == result["successes"][name] / result["episodes"][name]
        low, high = result["interval"][name]
        assert 0 <= low <= rate <= high <= 1
    assert result["mean_success"] == pytest.approx(sum(result["success"].values()) / 2)
    assert result["trained_episodes"] == 16


def test_the_same_seed_gives_the_same_figures(finished_run, capsys):
    first = measured(capsys, finished_run, "--episodes", "10", "--seed", "3", "--json")
    assert first == measured(capsys, finished_run, "--episodes", "10", "--seed", "3", "--json")


def test_the_table_for_people(finished_run, capsys):
    assert evaluate.main([str(finished_run), "--episodes", "10", "--checkpoint", "best"]) == 0
    text = capsys.readouterr().out
    assert "95 % interval" in text and "reach" in text and "best: curious, seed 0" in text


def test_lost_contacts_end_it_with_one_line(finished_run, monkeypatch, capsys):
    def evaluate_that_loses_contacts(*args, **kwargs):
        raise errors.OverflowedBuffers("physics ran out of contact buffers")

    monkeypatch.setattr(evaluation, "evaluate", evaluate_that_loses_contacts)
    assert evaluate.main([str(finished_run), "--episodes", "10"]) == 1
    assert capsys.readouterr().err == "error: physics ran out of contact buffers\n"


def test_seed_index_picks_one_of_several_seeds(two_seed_run, capsys):
    found = [measured(capsys, two_seed_run, "--episodes", "10", "--seed-index", i, "--json") for i in (0, 1)]
    assert [r["trained_seed"] for r in found] == [5, 6]


def test_a_run_s_own_config_reaches_the_policy(finished_run, capsys):
    result = measured(capsys, finished_run / "policies" / "last", "--episodes", "10", "--json")
    assert result["algorithm"] == "curious"


@pytest.mark.parametrize(
    "argv, mentions",
    [
        (["--episodes", "0"], "--episodes 0: must be a whole number between 1 and"),
        (["--episodes", "many"], "--episodes many: must be a whole number"),
        (["--seed", "-1"], "--seed -1"),
        (["--seed-index", "1"], "--seed-index 1: must be 0"),
        (["--checkpoint", "first"], "--checkpoint first: must be one of last, best"),
        (["--episode", "5"], "--episode: no such option; did you mean --episodes?"),
        (["--physics", "quantum"], "--physics quantum: must be one of"),
        (["--env", "FetchPush-v2"], "--env FetchPush-v2: refused, as it starts from wrong or irreproducible states"),
        (["--env", "FetchSlide-v4"], "--env FetchSlide-v4: must be one of FetchReach-v4"),
        (["--env", "FetchPush-v4"], "--env FetchPush-v4: the run is of --world point"),
    ],
)
def test_bad_options(finished_run, refuse, argv, mentions):
    assert mentions in refuse(evaluate, finished_run, *argv)


@pytest.mark.slow
def test_the_committed_policy_picks_and_places_in_the_official_environment_as_in_ours(capsys):
    run = Path(__file__).parent.parent / "docs" / "results" / "fetch-four-modules-cpu"
    result = measured(capsys, run, "--env", "FetchPickAndPlace-v4", "--episodes", "40", "--json")
    assert result["module"] == "pnp" and result["episodes"] == 40
    assert result["official"]["success"] >= 0.9 and result["ours"]["success"] >= 0.9
    assert result["official"]["any_step_success"] >= result["official"]["success"]
    assert result["difference"] == pytest.approx(result["official"]["success"] - result["ours"]["success"])


def test_missing_and_foreign_folders(refuse, tmp_path_factory):
    assert "nowhere: no such folder" in refuse(evaluate, "nowhere")
    assert "is not the folder of a run" in refuse(evaluate, tmp_path_factory.mktemp("foreign"))
    assert "required: RUN" in refuse(evaluate)
