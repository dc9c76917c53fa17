"""Errors in one line: what is missing, and how to get it."""

import pytest

from curious_jax.errors import ConfigError, check_installed, first_line


def test_packages_that_are_missing_are_named_with_the_extra_that_brings_them():
    check_installed("--video", "play", "json", "re")
    with pytest.raises(ConfigError) as refusal:
        check_installed("--video", "play", "json", "no_such_a", "no_such_b", otherwise=", or leave it out")
    lacks = "no_such_a and no_such_b are not installed"
    assert str(refusal.value) == f'--video: {lacks}; pip install "curious_jax[play]", or leave it out'
    with pytest.raises(ConfigError, match="^--video: no_such_a is not installed; pip"):
        check_installed("--video", "play", "no_such_a")


def test_an_error_in_one_line():
    assert first_line(ValueError("\n  no room  \nand much more")) == "no room"
    assert first_line(ValueError("x" * 300)) == "x" * 200
    assert first_line(AssertionError()) == "AssertionError"
    assert first_line(AssertionError(), "no such device") == "no such device"
