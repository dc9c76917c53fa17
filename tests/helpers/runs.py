"""What a run left behind: its last checkpoint, its rows without timings, and whether two runs are the same."""

from curious_jax.cli import environment
from curious_jax.run import folder as runfolder
from curious_jax.run import resume
from helpers.parts import assert_same

TIMINGS = ("wall_s", "perf/env_steps_per_s", "perf/updates_per_s")


def without_timings(rows):
    return [{k: v for k, v in row.items() if k not in TIMINGS} for row in runfolder.plain(rows)]


def saved(run):
    """(checkpoint, progress) of a run's last checkpoint."""
    found = resume.find(run)
    return found, resume.load(found, found.config, environment.make_env(found.config))


def assert_same_run(a, b):
    (found_a, progress_a), (found_b, progress_b) = saved(a), saved(b)
    assert found_a.path.name == found_b.path.name and found_a.config == found_b.config
    assert_same(progress_a.state, progress_b.state)
    assert_same(progress_a.total, progress_b.total)
    assert without_timings(runfolder.read_rows(a)) == without_timings(runfolder.read_rows(b))
    assert found_a.info["best"] == found_b.info["best"]
