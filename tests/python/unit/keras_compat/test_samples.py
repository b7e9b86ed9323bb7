"""Samples of the rows of two workers."""

from __future__ import annotations

import numpy as np
import pytest

from tfmuster.keras_compat.agreement.samples import _numbers, close


def sample(array):
    return " ".join(f"{number:.6g}" for number in _numbers(array))


ROWS = np.random.default_rng(0).normal(size=(100, 5))


def test_rounding_is_no_difference():
    assert close(sample(ROWS), sample(ROWS * (1 + 1e-6)))
    assert close(sample(ROWS), sample(ROWS.astype("float32")))
    assert close("nan 1", "nan 1.0000001")


@pytest.mark.parametrize(
    "other",
    [ROWS[::-1], ROWS[:, ::-1], ROWS[1:], np.roll(ROWS, 1, axis=0), np.zeros_like(ROWS), ROWS[:0]],
    ids=["reversed", "columns", "shorter", "rolled", "zeros", "empty"],
)
def test_other_rows_differ(other):
    assert not close(sample(ROWS), sample(other))


def test_files_are_compared_without_their_folders():
    here = np.array([f"/scratch/node1/{number}.jpg".encode() for number in range(9)], object)
    there = np.array([f"/scratch/node2/{number}.jpg".encode() for number in range(9)], object)
    assert close(sample(here), sample(there))
    assert not close(sample(here), sample(there[::-1]))
