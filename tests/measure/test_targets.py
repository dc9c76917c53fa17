"""The devices that programs are compiled for: their description for XLA, and compilers that are missing or broken."""

import sys
import types

import pytest

from curious_jax import benchmark
from curious_jax.errors import ConfigError
from curious_jax.measure import targets


def test_a_gpu_is_described_in_xla_s_words():
    text = targets.describe(targets.TARGETS["a100"])
    assert "cuda_compute_capability { major: 8 minor: 0 feature_extension: NONE }" in text
    assert "  core_count: 108\n" in text and "  memory_bandwidth: 2040000000000\n" in text
    assert f"  shared_memory_per_block_optin: {163 * 1024}\n" in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("name", targets.TARGETS)
def test_peaks_are_a_device_s(name):
    """A multiprocessor's tensor cores do 16 times (A100: 8 times) its float32 units' work in TF32."""
    target = targets.TARGETS[name]
    assert 1e11 < target.bytes_per_s < target.product_flop_per_s < 1e15
    assert (target.launch_s is None) == (target.platform == "tpu")
    if target.platform == "cuda":
        lanes = 2 * target.multiprocessors * target.lanes * target.clock_ghz * 1e9
        assert target.product_flop_per_s == pytest.approx(8 * lanes, rel=0.1)


@pytest.mark.parametrize("name, extra", [("h100", "compile-gpu"), ("v5e", "compile-tpu")])
def test_a_missing_compiler_names_its_extra(refuse, monkeypatch, name, extra):
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda module: None)
    assert refuse(benchmark, "--compile-for", name).endswith(f"pip install 'curious_jax[{extra}]'")


def test_a_compiler_that_does_not_start_is_named(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no such plugin\nand more")

    monkeypatch.setitem(sys.modules, "jax.experimental.topologies", types.SimpleNamespace(get_topology_desc=broken))
    monkeypatch.setattr("jax.experimental.topologies", sys.modules["jax.experimental.topologies"], raising=False)
    with pytest.raises(ConfigError, match=r"--compile-for h100: its compiler does not start \(no such plugin\)"):
        targets.make_device(targets.TARGETS["h100"])


def test_an_unknown_device(refuse):
    line = refuse(benchmark, "--compile-for", "h1000")
    assert line == "error: --compile-for h1000: unknown, choose one of h100, h200, a100, v5e, v6e"


@pytest.mark.parametrize(
    "argv, start",
    [
        (("--programs", "update"), "--programs update: must be updates, physics, cycle, all or warp"),
        (("--profile", "here"), "--profile and --compile-for: give one of them"),
        (("--physics", "c"), "--physics c: runs on CPUs"),
        (("--physics", "warp"), "--physics warp: is compiled on the GPU itself"),
    ],
)
def test_options_that_do_not_go_together(refuse, monkeypatch, argv, start):
    monkeypatch.setattr(targets, "_is_installed", lambda module: True)
    assert refuse(benchmark, "--compile-for", "h100", *argv).startswith(f"error: {start}")


@pytest.mark.parametrize("option", ["--programs", "--keep-hlo"])
def test_options_of_compile_for_alone(refuse, option):
    assert refuse(benchmark, option, "cycle") == f"error: {option} cycle: give it with --compile-for"
