"""A cell's training process: `curious_jax.train` that ends with its supervisor and keeps to its cores.

    python -m experiments.engine.child --cores=0,1 --world point --out DIR

Where the system can tell a process of its parent's death (Linux), it gets SIGTERM then: it saves and stops.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Trains; the exit status is that of curious_jax.train."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    cores = arguments.pop(0).removeprefix("--cores=")
    end_with_parent()
    if cores and hasattr(os, "sched_setaffinity"):  # before JAX counts them
        os.sched_setaffinity(0, [int(core) for core in cores.split(",")])
    from curious_jax import train

    return train.main(arguments)


def end_with_parent() -> None:
    """Asks for SIGTERM when the thread that started this process ends; does nothing where that cannot be asked."""
    if not sys.platform.startswith("linux"):
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it was gone already
        sys.exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
