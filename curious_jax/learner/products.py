"""Says how XLA is to compute matrix products on CPUs.

XLA hands products to YNNPACK, which computes small ones on one core. Eigen shares them out from about 128 × 128 × 128
on: an update of `--preset fast` took 2.46 ms with YNNPACK and 1.86 ms with Eigen on two cores (AMD EPYC).
"""

import functools

import jax

from curious_jax.config import TrainConfig

EIGEN: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}  # no kind of operation goes to YNNPACK


def compiler_options(config: TrainConfig) -> dict[str, str | bool] | None:
    """The options of the compiler for a run; None for its defaults.

    With `--eigen on` on a CPU all products go to Eigen, where this version of XLA can be told so.
    """
    wanted = config.ddpg.eigen and jax.default_backend() == "cpu"
    return EIGEN if wanted and _can_be_told() else None


@functools.cache
def _can_be_told() -> bool:
    """Says whether XLA knows the option: it is experimental, and may go."""
    try:
        jax.jit(lambda: 0, compiler_options=EIGEN).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
