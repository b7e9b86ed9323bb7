"""Two recordings of a program, call by call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = dict[str, Any]

#: Relative and absolute difference of a number that a call returns.
_NUMBER = (2e-3, 1e-4)
#: One row that falls on the other side of a threshold changes such a metric.
_COUNTS = re.compile("acc|auc|precision|recall|iou|f1|top|positives|negatives|error_rate|dice", re.IGNORECASE)
_COUNTED = (0.03, 0.03)
#: Difference of all weights together, relative to their norm and to how far they have moved.
_OF_NORM = 1e-3
_OF_MOVE = 2e-2


@dataclass(frozen=True)
class Difference:
    """What differs in one call, such as ``weights``, and by how much."""

    call: str
    what: str
    text: str


def compare(one: Path, two: Path, calls: int) -> list[Difference]:
    """Return what differs between one process and the first worker, and between the two workers."""
    names = [(f"call-{i:03}", True) for i in range(calls)]
    names += [("end", False)] if (one / "end-0.npz").is_file() and not calls else []
    differences: list[Difference] = []
    for name, is_call in names:
        found = [_arrays(one, name, 0), _arrays(two, name, 0), _arrays(two, name, 1)]
        label = next((path.stem.rpartition("-")[0] for path in one.glob(f"{name}*-0.npz")), name)
        if any(arrays is None for arrays in found):
            differences.append(Difference(label, "calls", "not recorded by all workers"))
            break
        first, second, other = (arrays or {} for arrays in found)
        differences += _of_call(label, first, second, is_call)
        differences += [
            Difference(each.call, f"between workers: {each.what}", each.text)
            for each in _of_call(label, second, other, is_call)
        ]
    return differences


def largest(one: Path, two: Path, calls: int) -> float:
    """Return the largest difference of weights relative to their move, over all calls."""
    sizes = [0.0]
    for i in range(calls):
        first, second = (_arrays(folder, f"call-{i:03}", 0) for folder in (one, two))
        if first and second and not _different_weights(first, second):
            distance, norm, moved = _distances(first, second)
            sizes.append(distance / (moved or norm or 1.0))
    return max(sizes)


def counted(folder: Path) -> int:
    """Return how many weights a program has left that made no call."""
    return len(_arrays(folder, "end", 0) or {})


def finite(folder: Path, calls: int) -> bool:
    """Return whether all weights of one process are numbers: others are equal to anything of their kind."""
    recorded = [_arrays(folder, f"call-{i:03}", 0) or {} for i in range(calls)]
    weights = [value for arrays in recorded for value in _of(arrays, "weight").values()]
    return all(np.isfinite(value).all() for value in weights if value.dtype.kind == "f")


def _arrays(folder: Path, name: str, worker: int) -> Arrays | None:
    path = next(iter(folder.glob(f"{name}*-{worker}.npz")), None)
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _of_call(label: str, one: Arrays, two: Arrays, is_call: bool) -> list[Difference]:
    if not is_call:
        one, two = ({f"weight/{key}": value for key, value in arrays.items()} for arrays in (one, two))
    found = []
    keys = [key for key in one if key.startswith("result/")]
    others = [key for key in two if key.startswith("result/")]
    if keys != others:
        found.append(Difference(label, "results", f"{keys} and {others}"))
    for key in set(keys) & set(others):
        if text := _result(key.partition("/")[2], one[key], two[key]):
            found.append(Difference(label, "results", text))
    if text := _different_weights(one, two):
        return [*found, Difference(label, "weights", text)]
    if text := _first_weights(one, two):
        found.append(Difference(label, "weights before", text))
    if text := _weights(one, two):
        found.append(Difference(label, "weights", text))
    return found


def _result(key: str, one: Any, two: Any) -> str:
    if one.shape != two.shape or one.dtype != two.dtype:
        return f"{key}: {one.dtype}{list(one.shape)} and {two.dtype}{list(two.shape)}"
    if one.dtype.kind in "USO":
        return "" if np.array_equal(one, two) else f"{key}: other texts"
    relative, absolute = _COUNTED if _COUNTS.search(key) else _NUMBER
    one, two = one.astype("float64"), two.astype("float64")
    if one.size > 100:
        distance, norm = np.linalg.norm(np.nan_to_num(one - two)), np.linalg.norm(np.nan_to_num(one))
        near = distance <= relative * norm + absolute * one.size**0.5
        return (
            ""
            if near and np.array_equal(np.isnan(one), np.isnan(two))
            else f"{key}: {distance / (norm or 1):.1e} of the norm"
        )
    if np.allclose(two, one, relative, absolute, equal_nan=True):
        return ""
    return f"{key}: {_short(one)} and {_short(two)}"


def _short(values: Any) -> str:
    return ", ".join(f"{value:.5g}" for value in np.ravel(values)[:4])


def _of(arrays: Arrays, part: str) -> dict[str, Any]:
    return {key: value for key, value in arrays.items() if key.startswith(f"{part}/")}


def _different_weights(one: Arrays, two: Arrays) -> str:
    first, second = _of(one, "weight"), _of(two, "weight")
    if len(first) != len(second):
        return f"{len(first)} and {len(second)} weights"
    for key, value in first.items():
        if key not in second or (value.shape, value.dtype) != (second[key].shape, second[key].dtype):
            return f"other shapes or types of {key}"
    return ""


def _numeric(values: Any) -> Any:
    return np.nan_to_num(np.ravel(values).astype("float64")) if values.dtype.kind in "fiub" else np.zeros(0)


def _not_finite(values: Any) -> Any:
    return ~np.isfinite(values) if values.dtype.kind == "f" else np.zeros(0)


def _norm(arrays: list[Any]) -> float:
    return float(sum(float(np.sum(array**2)) for array in arrays) ** 0.5)


def _distances(one: Arrays, two: Arrays) -> tuple[float, float, float]:
    """Return how far weights are from each other and from zero, and how far one process moved them."""
    first, second = _of(one, "weight"), _of(two, "weight")
    before = _of(one, "before")
    moved = 0.0
    if len(before) == len(first):
        starts = [_numeric(value) for value in before.values()]
        ends = [_numeric(value) for value in first.values()]
        pairs = zip(starts, ends, strict=True)
        moved = _norm([end - start for start, end in pairs if end.shape == start.shape])
    distance = _norm([_numeric(first[key]) - _numeric(second[key]) for key in first])
    return distance, _norm([_numeric(value) for value in first.values()]), moved


def _first_weights(one: Arrays, two: Arrays) -> str:
    first, second = _of(one, "before"), _of(two, "before")
    if [value.shape for value in first.values()] != [value.shape for value in second.values()]:
        return f"{len(first)} and {len(second)}, or other shapes"
    distance = _norm([_numeric(first[key]) - _numeric(second[key]) for key in first])
    norm = _norm([_numeric(value) for value in first.values()])
    return f"{distance / norm:.1e} of the norm" if distance > _OF_NORM * norm else ""


def _weights(one: Arrays, two: Arrays) -> str:
    first, second = _of(one, "weight"), _of(two, "weight")
    if any(not np.array_equal(_not_finite(first[key]), _not_finite(second[key])) for key in first):
        return "other weights are not finite"
    distance, norm, moved = _distances(one, two)
    if distance <= _OF_NORM * norm and (not moved or distance <= _OF_MOVE * moved):
        return ""
    text = f"{distance / (norm or 1):.1e} of the norm"
    return f"{text}, {distance / moved:.1e} of the move" if moved else text
