"""Writes a policy for programs without JAX: its arrays in a safetensors or a JSON file, or the whole as an ONNX graph.

docs/export.md describes the files. The packages that write them are imported when they are needed.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from curious_jax.errors import ConfigError, check_installed

if TYPE_CHECKING:
    from curious_jax.run.portable import Portable

FOLDER = "folder"  # what policies.save writes
FILES = {"safetensors": "actor.safetensors", "onnx": "actor.onnx", "json": "actor.json"}
FORMATS = (FOLDER, *FILES)
PACKAGES = {"safetensors": "safetensors", "onnx": "onnx"}  # what writes a format


def check(name: str) -> None:
    """Refuses a format that does not exist, or whose package is not installed. Raises ConfigError, naming --format."""
    if name not in FORMATS:
        raise ConfigError(f"--format {name}: must be one of {', '.join(FORMATS)}")
    if name in PACKAGES:
        check_installed(f"--format {name}", "formats", PACKAGES[name], otherwise=", or take --format json")


def write(policy: "Portable", name: str, path: Path) -> None:
    """Writes a policy in one of FILES' formats.

    Args:
      path: a file in a folder that does not have its final name yet (files.atomic_folder).
    """
    if name == "json":
        path.write_text(json.dumps({**policy.about, "arrays": _lists(policy.arrays)}, allow_nan=False) + "\n")
    elif name == "safetensors":
        from safetensors.numpy import save

        path.write_bytes(save(policy.arrays, as_text(policy.about)))
    else:
        from curious_jax.run import onnx_graph

        path.write_bytes(onnx_graph.build(policy.arrays, policy.about, as_text(policy.about)))


def as_text(about: dict[str, Any]) -> dict[str, str]:
    """Gives plain data as formats keep it that hold texts alone: what is no text as JSON."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in about.items()}


def _lists(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Gives arrays as nested lists, float32 numbers in the fewest digits that give them back."""
    return {
        name: (array.astype(str).astype(float) if array.dtype == np.float32 else array).tolist()
        for name, array in arrays.items()
    }
