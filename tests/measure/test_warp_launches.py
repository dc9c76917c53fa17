"""What a physics step of MuJoCo Warp launches, counted without a GPU."""

import json
import sys

import numpy as np
import pytest

from curious_jax import benchmark
from curious_jax.measure import warp_launches

COUNT = ("--compile-for", "h100", "--programs", "warp")
LIMIT = 90  # launches of a physics step with one iteration of the solver; MuJoCo Warp's own step has 127


def test_launches_stay_within_their_budget(capsys):
    pytest.importorskip("warp")
    assert benchmark.main([*COUNT, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["launches"] == pytest.approx(result["kernels"] + result["copies"] + result["fills"])
    assert 60 < result["kernels"] and result["launches"] <= LIMIT
    assert result["launch_floor_s"] == pytest.approx(result["launches"] * 2.5e-6)
    assert "launches" in warp_launches.text(result)


def test_kernels_that_have_something_to_do_are_counted(monkeypatch):
    wp = pytest.importorskip("warp")
    for name in ("launch", "launch_tiled"):
        monkeypatch.setattr(wp, name, lambda kernel, dim, *args, **kwargs: None)
    with warp_launches._counted() as counted:
        wp.launch("kernel", (2, 3), [], [])
        wp.launch("kernel", dim=0)
        wp.launch_tiled("kernel", dim=4, block_dim=32)
        wp.launch_tiled("kernel", dim=(4, 0))
    assert counted == {"kernels": 2}


def test_what_is_counted():
    wp = pytest.importorskip("warp")
    launch, full = wp.launch, np.zeros(3, np.float32)
    with warp_launches._counted() as counted, wp.ScopedDevice("cpu"):
        numbers, none = wp.array(full), wp.empty(0, dtype=wp.float32)
        counted.clear()  # making an array of numpy's copies
        numbers.zero_()
        numbers.fill_(2.0)
        none.zero_()
        wp.copy(numbers, wp.empty_like(numbers))
        wp.clone(numbers)
    assert counted == {"fills": 2, "copies": 2}
    assert wp.launch is launch


@pytest.mark.parametrize(
    "argv, start",
    [
        (("--compile-for", "v5e"), "--compile-for v5e: Warp runs on NVIDIA GPUs only"),
        (("--world", "point", "--modules", "reach"), "--world point: has no MuJoCo physics"),
        (("--physics", "jax"), "--physics jax: --programs warp counts Warp's launches"),
        (("--keep-hlo", "there"), "--keep-hlo there: nothing is compiled with --programs warp"),
    ],
)
def test_what_has_no_warp_is_refused_in_one_line(refuse, argv, start):
    assert refuse(benchmark, *COUNT, *argv).startswith(f"error: {start}")


def test_without_warp_lang_the_line_names_the_extra(refuse, monkeypatch):
    monkeypatch.setitem(sys.modules, "warp", None)
    line = 'error: --programs warp: warp is not installed; pip install "curious_jax[warp]"'
    assert refuse(benchmark, *COUNT) == line
