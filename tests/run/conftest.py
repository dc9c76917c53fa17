"""A finished run that a test may change."""

import shutil

import pytest


@pytest.fixture
def run(finished_run, tmp_path):
    """A copy of the finished run: 16 episodes, an evaluation at 8 and 16."""
    return shutil.copytree(finished_run, tmp_path / "copy")
