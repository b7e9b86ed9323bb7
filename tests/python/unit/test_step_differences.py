"""What of a step is not that of one process: numbers are compared, and named in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfmuster.keras_compat.proof.differences import (
    Change,
    Difference,
    Step,
    above_rounding,
    change,
    differences,
    in_words,
    largest,
)
from tfmuster.keras_compat.sums.recording import Rows

RNG = np.random.default_rng(0)
GRADIENTS = {
    "kernel": RNG.normal(size=(4, 3)).astype("float32"),
    "bias": RNG.normal(size=3).astype("float32"),
}


def step(gradient=None, log=None, metric=None, state=None) -> Step:
    return Step(log or {}, GRADIENTS if gradient is None else gradient, metric or {}, state or {})


def found(several: Step, alone: Step) -> list[tuple[str, str]]:
    return [(one.kind, one.name) for one in differences(several, alone, 1e-4)]


def test_rounding_is_no_difference() -> None:
    other = {name: value * np.float32(1 + 2e-6) for name, value in GRADIENTS.items()}
    assert not differences(step(other), step(), 1e-4)
    assert 1e-6 < largest(step(other), step(), 1e-4) < 1e-5


@pytest.mark.parametrize("factor", [0.5, 2.0, 1.001])
def test_a_factor_is_named(factor: float) -> None:
    other = GRADIENTS | {"bias": GRADIENTS["bias"] * np.float32(factor)}
    (one,) = differences(step(other), step(), 1e-4)
    assert one.name == "bias" and one.factor == pytest.approx(factor)
    assert in_words([one], step(other), step()) == f"gradients of 1 of 2 weights (bias: {factor:.4g} times)"


def test_zeros_up_to_rounding_are_equal() -> None:
    """The gradient of a key's bias in attention is zero, and each process rounds it in its own way."""
    several, alone = (GRADIENTS | {"key": np.float32([value, -value])} for value in (1e-8, -2e-8))
    assert found(step(several), step(alone)) == []
    assert found(step({"key": several["key"]}), step({"key": alone["key"]})) == [("gradient", "key")]


def test_what_is_missing_differs() -> None:
    assert found(step({"kernel": GRADIENTS["kernel"]}), step()) == [("gradient", "bias")]


def test_what_is_not_finite_must_be_so_in_both() -> None:
    bad = GRADIENTS | {"bias": np.float32([np.nan, 1, np.inf])}
    assert found(step(bad), step(bad)) == []
    assert found(step(bad), step()) == [("gradient", "bias")]


def test_other_shapes_differ() -> None:
    assert found(step(log={"out": np.ones(3)}), step(log={"out": np.ones(4)})) == [("log", "out")]


def test_rows_are_compared_by_their_places() -> None:
    values = RNG.normal(size=(2, 3)).astype("float32")
    more = np.concatenate([values, np.zeros((1, 3), "float32")])
    several = {"table": Rows(np.array([1, 5, 7]), more, more**2)}
    for places, differ in (([1, 5], []), ([1, 6], [("gradient", "table")])):
        alone = {"table": Rows(np.array(places), values, values**2)}
        assert found(step(several), step(alone)) == differ


def test_rows_are_sums_of_the_same_parts() -> None:
    """Optimizers square each part."""
    values = RNG.normal(size=(2, 3)).astype("float32")
    one, two = (Rows(np.array([1, 5]), values, values**2 / parts) for parts in (1, 2))
    assert found(step({"table": two}), step({"table": one})) == [("gradient", "table")]


def test_whole_numbers_are_exact() -> None:
    several, alone = (step(state={"seed": change(np.uint32([1, 1]), np.uint32([1, n]))}) for n in (2, 3))
    assert found(several, several) == [] and found(several, alone) == [("state", "seed")]


def test_changes_count_beyond_the_rounding_of_what_is_changed() -> None:
    old = np.float32([1000.0, 1.0])
    alone = step(state={"mean": change(old, old + np.float32([0.001, 0.5]))})
    close = step(state={"mean": change(old, old + np.float32([0.0012, 0.5]))})
    other = step(state={"mean": change(old, old + np.float32([0.001, 0.25]))})
    assert found(close, alone) == [] and found(other, alone) == [("state", "mean")]
    assert isinstance(alone.state["mean"], Change)


def test_a_sensitive_step_may_differ_by_more() -> None:
    """If other last bits of the weights change a gradient by a tenth of the difference."""
    difference = Difference("gradient", "bias", 0.05, None)
    for rounding, left in ((0.004, 1), (0.006, 0)):
        rounded = step(GRADIENTS | {"bias": GRADIENTS["bias"] * np.float32(1 + rounding)})
        assert len(above_rounding([difference], rounded, step(), 1e-4)) == left


def test_words() -> None:
    several, alone = (
        step(
            log={"loss": np.float32(loss), "all": np.full(3, loss)}, metric={"loss/total": np.float64(total)}
        )
        for loss, total in ((2.04, 32.0), (2.877, 16.0))
    )
    assert in_words(differences(several, alone, 1e-4), several, alone) == (
        "loss is 2.04, and 2.877 in one process; all is an array of shape (3,), and an array of shape (3,) "
        "in one process; 1 of 1 states of metrics (loss/total: 2 times)"
    )


def test_nothing_to_compare() -> None:
    assert largest(step({}), step({}), 1e-4) == 0.0 and math.isinf(
        differences(step(log={"a": np.ones(1)}), step(log={"b": np.ones(1)}), 1e-4)[0].size
    )
