"""Checksums: whatever is changed in a checkpoint is noticed, or is of no importance."""

import os
import shutil

import numpy as np
import pytest

from curious_jax.run import manifest, writer


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A whole checkpoint of a small tree."""
    folder = tmp_path_factory.mktemp("written")
    made = writer.Writer(folder)
    made.start(7, {"x": np.arange(6.0).reshape(2, 3), "y": [np.ones(3)]}, {"a": 1})
    made.close()
    manifest.verify(folder / "7", writer.PARTS)
    return folder / "7"


def damaged(path):
    try:
        manifest.verify(path, writer.PARTS)
    except manifest.Damaged:
        return True
    return False


def damage(path, kind, whole, original):
    """Puts something else in place of a file that is gone."""
    {
        "lost": lambda: None,
        "empty": lambda: path.write_bytes(b""),
        "half": lambda: path.write_bytes(whole[: len(whole) // 2]),
        "longer": lambda: path.write_bytes(whole + b"x"),
        "link": lambda: path.symlink_to(original),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[kind]()


def test_every_changed_bit_is_noticed(written):
    """Orbax's own two files beside the parts are not read, and white space in the manifest means nothing."""
    random = np.random.default_rng(0)
    parts = [p for p in written.rglob("*") if p.is_file() and p.parent != written]
    assert len(parts) > 4  # how many orbax writes depends on how its writers meet
    for path in [*parts, written / manifest.MANIFEST]:
        whole = path.read_bytes()
        for bit in random.integers(8 * len(whole), size=30):
            data = bytearray(whole)
            data[bit // 8] ^= 1 << bit % 8
            path.write_bytes(data)
            assert damaged(written) or (path.name == manifest.MANIFEST and bytes([whole[bit // 8]]).isspace())
        path.write_bytes(whole)
    assert not damaged(written)


@pytest.mark.parametrize("kind", ["lost", "empty", "half", "longer", "link", "pipe", "folder"])
def test_every_damaged_file_is_noticed(written, tmp_path, kind):
    copy = shutil.copytree(written, tmp_path / "7")
    names = [p.relative_to(copy) for p in copy.rglob("*") if p.is_file() and p.parent != copy]
    for name in [*names, manifest.MANIFEST]:
        path, whole = copy / name, (copy / name).read_bytes()
        path.unlink()
        damage(path, kind, whole, written / name)
        assert damaged(copy), name
        path.rmdir() if kind == "folder" else path.unlink(missing_ok=True)
        path.write_bytes(whole)
    assert not damaged(copy)


def test_a_file_too_many_and_a_linked_folder_are_noticed(written, tmp_path):
    copy = shutil.copytree(written, tmp_path / "7")
    (copy / "state" / "more").write_text("x")
    assert damaged(copy)
    (copy / "state" / "more").unlink()
    (copy / "state" / "d").rename(tmp_path / "d")
    (copy / "state" / "d").symlink_to(tmp_path / "d")
    assert damaged(copy)
