"""What a run left behind: its last checkpoint, its rows without timings, and whether two runs are the same."""

import json

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


def assert_same_files(a, b):
    """Compares every file of two runs' folders: bit for bit, but for times and the random names that others give."""
    assert_same_run(a, b)
    names = [{p.relative_to(f) for p in f.rglob("*") if p.is_file() and _named(p.relative_to(f))} for f in (a, b)]
    assert names[0] == names[1]
    for name in names[0]:
        if name.name in (runfolder.SUMMARY, runfolder.METRICS, "report.html", "manifest.json"):
            continue
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    summaries = [_untimed(json.loads((f / runfolder.SUMMARY).read_text())) for f in (a, b)]
    assert summaries[0] == summaries[1]
    assert _scalars(a) == _scalars(b)


def _named(path):
    """Tells whether a file's name is ours: orbax and TensorBoard draw some."""
    return path.parts[0] not in ("checkpoints", "tensorboard")


def _untimed(value):
    if isinstance(value, dict):
        return {k: _untimed(v) for k, v in value.items() if not k.endswith("_s")}
    return [_untimed(v) for v in value] if isinstance(value, list) else value


def _scalars(run):
    """Gives {(tag, step): value} of a run's TensorBoard files, timings aside."""
    return {
        (value.tag, event.step): value.simple_value
        for path in sorted((run / "tensorboard").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for event in events(path)
        for value in event.summary.value
        if not value.tag.endswith("_s") and "perf/" not in value.tag
    }


def events(path):
    """Reads the whole events of a TensorBoard file; the last may be cut short."""
    from tensorboardX.proto.event_pb2 import Event

    data, found = path.read_bytes(), []
    while len(data) > 12 and len(data) >= 16 + (size := int.from_bytes(data[:8], "little")):
        found.append(Event.FromString(data[12 : 12 + size]))
        data = data[16 + size :]
    return found
