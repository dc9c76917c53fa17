"""The choice of a physics backend by name, by platform and by what is installed."""

import ast
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from envs.errors import ArgumentError
from envs.fetch import scene
from envs.physics import select
from envs.physics.select import resolve


def test_auto_is_c_on_a_cpu():
    assert resolve("auto") == "c"


def test_auto_follows_the_platform(monkeypatch):
    monkeypatch.setattr(select, "_has_warp", lambda: True)
    monkeypatch.setattr(select, "_driver_cuda", lambda: (13, 0))
    assert [select._for_platform(p) for p in ("cpu", "gpu", "cuda", "tpu")] == ["c", "warp", "warp", "jax"]
    monkeypatch.setattr(select, "_has_warp", lambda: False)
    with pytest.warns(UserWarning, match=r"pip install curious_jax\[warp\]"):
        assert select._for_platform("gpu") == "jax"


def fake_driver(monkeypatch, number):
    """Lets NVIDIA's driver answer with a version of CUDA, 12080 for 12.8; None: there is no driver."""

    class Driver:
        def __init__(self, name):
            assert name == "libcuda.so.1"
            if number is None:
                raise OSError("no such file")

        def cuDriverGetVersion(self, place):
            place._obj.value = number
            return 0

    monkeypatch.setattr(select.ctypes, "CDLL", Driver)
    monkeypatch.setattr(select, "_has_warp", lambda: True)


@pytest.mark.parametrize("number", [12020, 12080])
def test_auto_takes_jax_physics_with_a_driver_too_old_for_warp(monkeypatch, number):
    fake_driver(monkeypatch, number)
    with pytest.warns(UserWarning) as said:
        assert select._for_platform("gpu") == "jax"
    (line,) = (str(warning.message) for warning in said)
    assert "R580 or newer" in line and f"CUDA 12.{number % 1000 // 10}" in line and "\n" not in line


@pytest.mark.parametrize("number", [13000, 13010])
def test_auto_takes_warp_with_a_new_driver(monkeypatch, number):
    fake_driver(monkeypatch, number)
    assert select._for_platform("gpu") == "warp"


def test_a_gpu_without_a_driver_of_nvidia_s_is_not_warp_s(monkeypatch):
    fake_driver(monkeypatch, None)
    with pytest.warns(UserWarning, match="needs an NVIDIA GPU"):
        assert select._for_platform("gpu") == "jax"


@pytest.mark.parametrize("number, says", [(12080, "R580 or newer.*choose jax"), (None, "NVIDIA GPU.*choose jax")])
def test_warp_by_name_is_refused_where_it_cannot_run(monkeypatch, number, says):
    fake_driver(monkeypatch, number)
    monkeypatch.setattr(select.jax, "default_backend", lambda: "gpu")
    with pytest.raises(ArgumentError, match=says):
        resolve("warp")
    fake_driver(monkeypatch, 13000)
    assert resolve("warp") == "warp"


def test_c_physics_beside_a_gpu_needs_jax_s_cpu(monkeypatch):
    def missing(backend):
        raise RuntimeError("Unknown backend cpu")

    model = scene.build_model(1)
    for platform, says in (("gpu", "cuda,cpu"), ("tpu", "tpu,cpu")):
        monkeypatch.setattr(select.jax, "default_backend", lambda platform=platform: platform)
        assert resolve("c") == "c" and select.build("c", model, 1)
        with monkeypatch.context() as patch, pytest.raises(ArgumentError, match=f"set JAX_PLATFORMS={says}$"):
            patch.setattr(select.jax, "local_devices", missing)
            select.build("c", model, 1)


def test_a_cpu_does_not_ask_for_a_driver(monkeypatch):
    fake_driver(monkeypatch, 12020)
    monkeypatch.setattr(select.ctypes, "CDLL", None)  # a call would fail
    assert resolve("auto") == "c"


@pytest.mark.slow
def test_the_cpu_s_path_imports_nothing_of_cuda():
    code = """
import jax, sys
import curious_jax
env = curious_jax.make(curious_jax.make_config("cpu", modules=("reach", "push"))).with_worlds(2)
states = jax.vmap(env.reset)(jax.random.split(jax.random.key(0)))
jax.jit(jax.vmap(env.step))(states, jax.numpy.zeros((2, 4)))
print(*{name.split(".")[0] for name in sys.modules} & {"warp", "nvidia", "jax_cuda12_plugin", "libtpu"})
print(*[name for name in sys.modules if name.startswith("mujoco.mjx.warp")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_no_deprecated_name_of_jax_core_is_used():
    """JAX takes these away in a later version."""
    import jax.core

    root, used = Path(__file__).parents[2], {"ShapedArray"}
    for package in ("curious_jax", "envs", "experiments"):
        for path in (root / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module == "jax.core":
                    used |= {alias.name for alias in node.names}
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "jax.core":
                    used.add(node.attr)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(getattr(jax.core, name) for name in used)


def test_warp_without_warp_lang_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(select, "_has_warp", lambda: False)
    with pytest.raises(ValueError, match=r"physics='warp'.*pip install curious_jax\[warp\]") as refusal:
        resolve("warp")
    assert "\n" not in str(refusal.value)


def test_an_unknown_backend_is_refused():
    with pytest.raises(ValueError, match="physics='bullet'.*auto, c, jax, warp"):
        resolve("bullet")
