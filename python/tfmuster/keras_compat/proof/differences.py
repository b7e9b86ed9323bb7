"""Compare the numbers of a distributed step with those of one process, and say in words what differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..sums.recording import Rows

Array: TypeAlias = npt.NDArray[Any]
#: Numbers by their names: of a loss, a weight, a metric.
Numbers: TypeAlias = Mapping[str, "Array | Rows"]

#: What is compared, in the order in which a refusal names it.
KINDS: Final = ("log", "gradient", "metric", "state")
#: What numbers may differ by, for each way in which a step computes. XLA adds in other orders. Keras takes
#: the mean of squares less the square of the mean for the variance of a batch, which costs digits.
TOLERANCES: Final = {
    "float64": 1e-4,
    "float32": 1e-4,
    "XLA": 1e-3,
    "BatchNormalization": 1e-3,
    "bfloat16": 2e-2,
    "float16": 2e-2,
}
#: Numbers are small if their norm is less than so many times what may differ, of the norm of all of a kind.
#: Then they differ if it shows in the norm of all: a gradient that is zero, such as that of a key's bias in
#: attention, is rounding.
_SMALL: Final = 10.0
#: A difference is more than rounding if it is this many times what other last bits of the weights make.
_ABOVE_ROUNDING: Final = 10.0
#: How many of what differs a refusal names.
_MOST_NAMED: Final = 3


class Change(NamedTuple):
    """What a step has added to a weight, and the rounding of the result; arrays of one shape."""

    moved: Array
    rounding: Array


class Step(NamedTuple):
    """What a step has computed."""

    #: What the step returns.
    log: Numbers
    #: Gradients as the optimizers get them.
    gradient: Numbers
    #: Variables of metrics: the sums of the workers'.
    metric: Numbers
    #: What the step has changed of other weights than those that an optimizer changes.
    state: Mapping[str, Change]


class Difference(NamedTuple):
    """A number, or an array, that is not that of one process."""

    kind: str
    name: str
    #: The size of the difference, relative to what one process computes.
    size: float
    #: By what the numbers of one process are multiplied, if that explains the difference; else None.
    factor: float | None


def differences(several: Step, alone: Step, tolerance: float) -> list[Difference]:
    """Return what differs by more than rounding, in the order of :data:`KINDS`."""
    return [
        Difference(kind, name, size, factor)
        for kind in KINDS
        for name, size, factor in _of_kind(getattr(several, kind), getattr(alone, kind), tolerance)
        if not size <= tolerance
    ]


def above_rounding(
    found: Sequence[Difference], rounded: Step, alone: Step, tolerance: float
) -> list[Difference]:
    """Return the differences that are larger than those which other last bits of the weights make.

    A step may be so sensitive to them: an activation next to zero counts, or does not.
    """
    rounding = {
        (kind, name): size
        for kind in KINDS
        for name, size, _ in _of_kind(getattr(rounded, kind), getattr(alone, kind), tolerance)
    }
    return [one for one in found if one.size > _ABOVE_ROUNDING * rounding.get((one.kind, one.name), 0.0)]


def change(old: Array, new: Array) -> Change:
    """Return what a step has changed of a weight. Of whole numbers and texts, the new ones."""
    old, new = plain(old), plain(new)
    if new.dtype.kind != "f":
        return Change(new, np.zeros(new.shape))
    return Change(new - old, 4 * np.finfo(new.dtype).eps * np.abs(new))


def plain(values: Array) -> Array:
    """Return values in a type that NumPy computes with."""
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def numbers_of(returned: object) -> dict[str, Array]:
    """Return what a step has returned, flattened, by names."""
    import tensorflow as tf

    named = returned if isinstance(returned, dict) else {"the result": returned}
    numbers: dict[str, Array] = {}
    for name, value in named.items():
        parts = tf.nest.flatten(value)
        for place, part in enumerate(parts):
            numbers[name if len(parts) == 1 else f"{name}[{place}]"] = np.asarray(part)
    return numbers


def largest(several: Step, alone: Step, tolerance: float) -> float:
    """Return the largest relative difference of a gradient, or of any number if there are no gradients."""
    kinds = ["gradient"] if alone.gradient else KINDS
    pairs = [(getattr(several, kind), getattr(alone, kind)) for kind in kinds]
    return max((size for pair in pairs for _, size, _ in _of_kind(*pair, tolerance)), default=0.0)


def _of_kind(
    several: Mapping[str, Any], alone: Mapping[str, Any], tolerance: float
) -> Iterator[tuple[str, float, float | None]]:
    """Yield for each name the relative difference, and the factor that explains it."""
    pairs = {name: _aligned(several[name], alone[name]) for name in alone if name in several}
    norms = [_norm(_floats(one)) for _, one, _ in pairs.values() if one.dtype.kind == "f"]
    floor = _SMALL * tolerance * math.sqrt(sum(norm**2 for norm in norms if math.isfinite(norm)))
    for name, (of_several, of_one, rounding) in pairs.items():
        if of_one.dtype.kind != "f":
            yield name, (0.0 if np.array_equal(of_several, of_one) else math.inf), None
            continue
        x, y = _floats(of_several), _floats(of_one)
        # What is not finite must be so in both.
        finite = np.isfinite(x)
        if not np.array_equal(finite, np.isfinite(y)):
            yield name, math.inf, None
            continue
        x, y = x[finite], y[finite]
        apart = np.where(np.abs(x - y) <= rounding.reshape(-1)[finite], 0, x - y)
        size, scale = _norm(apart), max(_norm(y), floor)
        yield name, size / scale if scale else (math.inf if size else 0.0), _factor(x, y)
    for name in several.keys() ^ alone.keys():
        yield name, math.inf, None


def _floats(values: Array) -> npt.NDArray[np.float64]:
    return values.astype(np.float64).reshape(-1)


def _factor(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float | None:
    """Return the factor by which ``y`` becomes ``x``; None if there is none."""
    square = float(y @ y)
    factor = float(x @ y) / square if square else 0.0
    explained = factor != 0.0 and _norm(x - factor * y) <= 1e-3 * _norm(x)
    return factor if explained else None


def _aligned(several: Any, alone: Any) -> tuple[Array, Array, Array]:
    """Return two arrays of one shape, and their rounding. Rows that one of them lacks are zeros."""
    if isinstance(several, Change):
        return several.moved, alone.moved, alone.rounding
    if isinstance(several, Rows):
        places = np.union1d(several.places, alone.places)
        several, alone = _spread(several, places), _spread(alone, places)
    several, alone = plain(several), plain(alone)
    if several.shape != alone.shape:
        several = np.full(alone.shape, math.nan)
    return several, alone, np.zeros(alone.shape)


def _spread(rows: Rows, places: npt.NDArray[np.int64]) -> Array:
    """Return the values at some places, and the sizes of the parts of which they are sums."""
    parts = np.stack([rows.values, np.sqrt(rows.squares)])
    spread = np.zeros((2, len(places), *rows.values.shape[1:]), parts.dtype)
    spread[:, np.searchsorted(places, rows.places)] = parts
    return spread


def _norm(values: npt.NDArray[np.float64]) -> float:
    return float(np.linalg.norm(values))


def in_words(found: Sequence[Difference], several: Step, alone: Step) -> str:
    """Return what differs, in words: ``loss is 2.04, and 2.877 in one process; ...``."""
    parts = []
    for kind in KINDS:
        of_kind = [difference for difference in found if difference.kind == kind]
        if of_kind:
            parts.append(_words(kind, of_kind, getattr(several, kind), getattr(alone, kind)))
    return "; ".join(parts)


def _words(kind: str, found: Sequence[Difference], several: Numbers, alone: Numbers) -> str:
    if kind == "log":
        pairs = [(one.name, *map(_number, (several.get(one.name), alone.get(one.name)))) for one in found]
        return "; ".join(f"{name} is {x}, and {y} in one process" for name, x, y in pairs[:_MOST_NAMED])
    names = ", ".join(f"{one.name}{_times(one)}" for one in found[:_MOST_NAMED])
    what = {
        "gradient": "gradients of {} of {} weights",
        "metric": "{} of {} states of metrics",
        "state": "what the step itself changes of {} of {} weights",
    }[kind].format(len(found), len(alone))
    return f"{what} ({names}{', ...' if len(found) > _MOST_NAMED else ''})"


def _times(one: Difference) -> str:
    if one.factor is not None:
        return f": {one.factor:.4g} times"
    return f": by {one.size:.0%}" if math.isfinite(one.size) and one.size >= 0.01 else ""


def _number(value: Array | Rows | None) -> str:
    if value is None or isinstance(value, Rows):
        return "missing"
    return f"{float(value):.4g}" if value.size == 1 else f"an array of shape {value.shape}"
