"""Sinks: each takes rows and none needs what is not installed."""

import sys

from rows import row

from curious_jax import metrics


class Writer:
    def __init__(self, logdir=None):
        self.scalars = {}
        self.closed = False

    def add_scalar(self, tag, value, step):
        self.scalars[tag, step] = value

    def flush(self):
        pass

    def close(self):
        self.closed = True


def test_tensorboard_gets_finite_numbers_against_episodes():
    writer = Writer()
    sink = metrics.TensorBoard(writer)
    sink.evaluation([row(10, 0.5, **{"train/q_mean": float("nan")})])
    sink.close()
    assert writer.scalars["eval/success/reach", 10] == 0.5
    assert ("train/q_mean", 10) not in writer.scalars
    assert not any(tag in metrics.COUNTERS for tag, _ in writer.scalars)
    assert writer.closed


def test_tensorboard_keeps_seeds_apart():
    writer = Writer()
    metrics.TensorBoard(writer).evaluation([row(10, 0.5, seed=3), row(10, 1.0, seed=4)])
    assert writer.scalars["seed3/eval/success/reach", 10] == 0.5
    assert writer.scalars["seed4/eval/success/reach", 10] == 1.0


def test_nothing_breaks_without_tensorboard(monkeypatch, tmp_path):
    for name in ("tensorboardX", "tensorboard", "tensorboard.summary"):
        monkeypatch.setitem(sys.modules, name, None)
    assert metrics.tensorboard(tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_a_real_event_file_when_installed(tmp_path):
    sink = metrics.tensorboard(tmp_path)
    if sink is not None:
        sink.evaluation([row(10)])
        sink.close()
        assert list((tmp_path / metrics.TENSORBOARD).iterdir())


def test_curves_are_drawn_at_first_then_rarely_and_at_the_end(monkeypatch, tmp_path):
    now, drawn = [0.0], []

    def draw(rows, path, title):
        drawn.append(len(rows))
        now[0] += 1.0  # a second to draw

    monkeypatch.setattr(metrics.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(metrics.curves, "draw", draw)
    sink = metrics.Curves(tmp_path / "curves.png", "", share=0.1)
    sink.evaluation([row(10)])
    sink.evaluation([row(20)])
    assert drawn == [1]
    now[0] = 11.5  # ten times the drawing later
    sink.evaluation([row(30)])
    assert drawn == [1, 3]
    sink.close()
    assert drawn == [1, 3]
    sink.evaluation([row(40)])
    sink.close()
    assert drawn == [1, 3, 4]
