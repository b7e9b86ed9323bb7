"""Errors that a command has printed, for whoever has started it."""

from __future__ import annotations

import pytest

from tfmuster.errors import LaunchError, parts_of


@pytest.mark.parametrize(
    "error",
    [
        LaunchError("One."),
        LaunchError("One.", found="two\nand more"),
        LaunchError("One.", fix="three: a\n    b"),
        LaunchError("One.", found="two", fix="three"),
    ],
    ids=str,
)
@pytest.mark.parametrize("before", ["", "WARNING: x\n", "Error: of something before\n  found: x\n"])
def test_the_parts_of_an_error_that_was_printed(error: LaunchError, before: str) -> None:
    parts = parts_of(f"{before}Error: {error}\n")
    assert parts is not None
    assert str(LaunchError(**parts)) == str(error)


@pytest.mark.parametrize("said", ["", "Traceback (most recent call last):\nKeyError: 1", "exit code 1"])
def test_what_is_no_error_of_tfmuster(said: str) -> None:
    assert parts_of(said) is None
