"""Samples of the rows of two workers."""

from __future__ import annotations

import numpy as np
import pytest

from tfmuster.keras_compat.agreement.samples import (
    _BLOCKS,
    _MOST_BYTES,
    _numbers,
    close,
    close_sums,
    sums_of,
    values_of,
)


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


class Adapter:
    """What Keras's adapter of arrays has."""

    def __init__(self, *arrays):
        self._inputs = arrays


TEXTS = np.array([f"text {number}" for number in range(100)])


def test_one_value_changes_the_digest_and_the_sum_of_its_block():
    other = ROWS.copy()
    other[42, 3] += 0.01
    assert values_of(Adapter(ROWS, TEXTS)) == values_of(Adapter(ROWS.copy(), TEXTS.copy()))
    assert values_of(Adapter(ROWS, TEXTS)) != values_of(Adapter(other, TEXTS))
    ours, theirs = sums_of(Adapter(ROWS, TEXTS)), sums_of(Adapter(other, TEXTS))
    differing = [name for name in ours if not close_sums(ours[name], theirs[name])]
    assert differing == ["rows 42 to 42 of array 1"]


def test_one_text_changes_the_sum_of_its_block():
    other = TEXTS.copy()
    other[7] = "another"
    ours, theirs = sums_of(Adapter(ROWS, TEXTS)), sums_of(Adapter(ROWS, other))
    assert [name for name in ours if not close_sums(ours[name], theirs[name])] == ["rows 7 to 7 of array 2"]


def test_rounding_changes_the_digest_and_no_sum():
    rounded = Adapter(ROWS * (1 + 1e-7))
    assert values_of(Adapter(ROWS)) != values_of(rounded)
    ours, theirs = sums_of(Adapter(ROWS)), sums_of(rounded)
    assert all(close_sums(ours[name], theirs[name]) for name in ours)


def test_there_are_as_many_sums_for_any_number_of_arrays():
    many = [np.ones((3000, 1), "float32") for _ in range(40)]
    assert len(sums_of(Adapter(*many))) == _BLOCKS


def test_of_a_large_array_every_second_row_is_looked_at():
    large = np.zeros((_MOST_BYTES // 1024 + 2, 1024), "uint8")
    digest = values_of(Adapter(large))
    large[1] = 1
    assert values_of(Adapter(large)) == digest
    large[2] = 1
    assert values_of(Adapter(large)) != digest


def test_data_that_are_no_arrays_have_no_digest():
    assert values_of(Adapter()) is None
    assert sums_of(Adapter(None, "text")) == {}
