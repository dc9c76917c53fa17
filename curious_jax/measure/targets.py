"""Describes the accelerators that programs can be compiled for without one, by their makers' data sheets."""

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

from curious_jax.errors import ConfigError, first_line


@dataclass(frozen=True)
class Target:
    """One device: what XLA must know of it, and the peaks that a program's floors come from."""

    name: str  # as --compile-for has it
    device: str
    platform: str  # "cuda" or "tpu"
    bytes_per_s: float  # of its memory
    product_flop_per_s: float  # of dense matrix products at JAX's default precision: TF32 on GPUs, bf16 on TPUs
    memory: int  # bytes
    launch_s: float | None = None  # from the start of one small kernel to that of the next; None: a TPU launches none
    compute_capability: tuple[int, int] = (0, 0)
    multiprocessors: int = 0
    lanes: int = 0  # float32 units of a multiprocessor
    clock_ghz: float = 0.0  # boost
    cache: int = 0  # bytes, level 2
    shared: int = 0  # bytes of shared memory in a multiprocessor
    topology: str = ""  # of TPUs: the smallest slice


GIB, KIB = 2**30, 2**10
# Not measured here: back-to-back launches of empty kernels take about as long on each of these cards.
LAUNCH_S = 2.5e-6
_HOPPER: dict[str, Any] = {
    "compute_capability": (9, 0),
    "multiprocessors": 132,
    "lanes": 128,
    "clock_ghz": 1.98,
    "cache": 50 * 2**20,
    "shared": 228 * KIB,
    "launch_s": LAUNCH_S,
}
_AMPERE: dict[str, Any] = {
    "compute_capability": (8, 0),
    "multiprocessors": 108,
    "lanes": 64,
    "clock_ghz": 1.41,
    "cache": 40 * 2**20,
    "shared": 164 * KIB,
    "launch_s": LAUNCH_S,
}
TARGETS = {
    target.name: target
    for target in (
        Target("h100", "NVIDIA H100 SXM 80 GB", "cuda", 3.35e12, 494e12, 80 * GIB, **_HOPPER),
        Target("h200", "NVIDIA H200 SXM 141 GB", "cuda", 4.8e12, 494e12, 140 * GIB, **_HOPPER),
        Target("a100", "NVIDIA A100 SXM 80 GB", "cuda", 2.04e12, 156e12, 80 * GIB, **_AMPERE),
        Target("v5e", "TPU v5e", "tpu", 0.82e12, 197e12, 16 * GIB, topology="v5e:2x2"),
        Target("v6e", "TPU v6e", "tpu", 1.64e12, 918e12, 32 * GIB, topology="v6e:2x2"),
    )
}
# What each platform's compiler comes in: a module that shows that it is there, and the extra that brings it.
COMPILERS = {"cuda": ("jax_plugins.xla_cuda12", "compile-gpu"), "tpu": ("libtpu", "compile-tpu")}


def find(name: str, compiler: bool = True) -> Target:
    """Returns the target of this name, with its compiler installed (unless `compiler` is false).

    Raises:
      ConfigError: for an unknown name, and where the compiler is missing.
    """
    if name not in TARGETS:
        raise ConfigError(f"--compile-for {name}: unknown, choose one of {', '.join(TARGETS)}")
    module, extra = COMPILERS[TARGETS[name].platform]
    if compiler and not _is_installed(module):
        raise ConfigError(f"--compile-for {name}: needs a compiler for it: pip install 'curious_jax[{extra}]'")
    return TARGETS[name]


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def make_device(target: Target) -> Any:
    """Makes a JAX device to compile for, which can run nothing.

    Raises:
      ConfigError: when the compiler is there, but cannot be used.
    """
    from jax.experimental import topologies

    try:
        if target.platform == "tpu":
            # libtpu otherwise asks the cloud which machine it is on, and lets one process at a time load it.
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
            os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
            os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v6e-4" if target.name == "v6e" else "v5litepod-4")
            topology = topologies.get_topology_desc(target.topology, "tpu")
        else:
            text = describe(target)
            topology = topologies.get_topology_desc(target.name, "cuda", topology="1x1x1", target_config=text)
    except Exception as error:  # JAX raises its own kinds, and plain RuntimeErrors
        extra = COMPILERS[target.platform][1]
        raise ConfigError(
            f"--compile-for {target.name}: its compiler does not start ({first_line(error)}); "
            f"install curious_jax[{extra}] again, as constraints.txt pins it"
        ) from None
    return topology.devices[0]


def describe(target: Target) -> str:
    """Writes a GPU as XLA's protocol buffer GpuTargetConfigProto in text form; what CUDA fixes for all is the same."""
    major, minor = target.compute_capability
    accelerated = "ACCELERATED_FEATURES" if major >= 9 else "NONE"
    numbers = {
        "core_count": target.multiprocessors,
        "fpus_per_core": target.lanes,
        "clock_rate_ghz": target.clock_ghz,
        "memory_bandwidth": int(target.bytes_per_s),
        "device_memory_size": target.memory,
        "l2_cache_size": target.cache,
        "shared_memory_per_core": target.shared,
        "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": target.shared - KIB,
        "threads_per_warp": 32,
        "threads_per_block_limit": 1024,
        "threads_per_core_limit": 2048,
        "registers_per_core_limit": 64 * KIB,
        "registers_per_block_limit": 64 * KIB,
        "block_dim_limit_x": 2**31 - 1,
        "block_dim_limit_y": 2**16 - 1,
        "block_dim_limit_z": 2**16 - 1,
        "thread_dim_limit_x": 1024,
        "thread_dim_limit_y": 1024,
        "thread_dim_limit_z": 64,
    }
    lines = [f"  {name}: {number}" for name, number in numbers.items()]
    return "\n".join(
        [
            "gpu_device_info {",
            f"  cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {accelerated} }}",
            *lines,
            "}",
            'platform_name: "CUDA"',
            "dnn_version_info { major: 9 minor: 10 }",
            f'device_description_str: "{target.device}"',
        ]
    )
