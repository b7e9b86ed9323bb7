"""The synthetic digits: the same everywhere, and quick."""

from __future__ import annotations

import hashlib
import time

import numpy as np
import pytest

from tfmuster.digits.datasets import synthetic
from tfmuster.digits.synthetic import draw_digits
from tfmuster.errors import DataError


def test_same_seed_same_bytes_on_every_machine():
    x, y = draw_digits(500, seed=7)
    assert hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest() == (
        "a5bc1ccf8c7acc896997d37c4fc9230a9fd733a97c61bc2f224ca21b68169c39"
    )


def test_shapes_types_and_range():
    digits = synthetic(seed=1, train=300, test=50)
    assert digits.x_train.shape == (300, 28, 28) and digits.x_test.shape == (50, 28, 28)
    assert digits.y_train.shape == (300,) and digits.y_test.shape == (50,)
    assert {array.dtype for array in (digits.x_train, digits.y_train, digits.x_test)} == {np.dtype("uint8")}
    assert digits.name == "synthetic"
    assert digits.describe() == (
        "synthetic: 300 digits to train on, 50 to test on "
        "(drawn by tfmuster with seed 1; these are not the MNIST digits)"
    )


def test_every_digit_about_as_often():
    counts = np.bincount(draw_digits(5000)[1], minlength=10)
    assert counts.min() > 400 and counts.max() < 600


def test_no_two_alike_and_more_begin_with_the_same():
    x, y = draw_digits(300)
    assert len(np.unique(x.reshape(300, -1), axis=0)) == 300
    few_x, few_y = draw_digits(20)
    np.testing.assert_array_equal(few_x, x[:20])
    np.testing.assert_array_equal(few_y, y[:20])
    assert not np.array_equal(draw_digits(20, seed=1)[0], few_x)


def test_ink_on_paper():
    x, _ = draw_digits(1000)
    # Each image has some ink and mostly paper, and the ink keeps off the corners.
    inked = (x > 90).mean(axis=(1, 2))
    assert inked.min() > 0.01 and inked.max() < 0.5
    assert (x[:, :2, :2] > 90).mean() < 0.01


@pytest.mark.parametrize("sizes", [{"train": 0}, {"test": -1}, {"train": 1.5}, {"test": True}])
def test_numbers_that_are_none(sizes):
    with pytest.raises(DataError, match="must be a whole number of digits, at least 1"):
        synthetic(**sizes)


def test_default_set_is_drawn_in_seconds():
    start = time.process_time()
    synthetic()
    assert time.process_time() - start < 5


@pytest.mark.parametrize("count,seed", [(-1, 0), (1, -1)])
def test_negative_arguments_are_refused(count, seed):
    with pytest.raises(DataError, match="at least 0"):
        draw_digits(count, seed)
