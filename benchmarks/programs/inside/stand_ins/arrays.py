"""Files of numbers that are no tables with a header: series, archives of NumPy, columns without names."""

from __future__ import annotations

import gzip
import io
from typing import Any

import numpy as np

_ADULT = (
    *((17, 90), ["Private", "State-gov", "Local-gov"], (20000, 400000), ["Bachelors", "HS-grad", "Masters"]),
    *(
        (1, 16),
        ["Married-civ-spouse", "Divorced", "Never-married"],
        ["Sales", "Tech-support", "Craft-repair"],
    ),
    *(
        ["Husband", "Wife", "Own-child"],
        ["White", "Black"],
        ["Male", "Female"],
        (0, 9999),
        (0, 4356),
        (1, 99),
    ),
    *(["United-States", "Mexico"], ["<=50K", ">50K"]),
)
_MONTHS = "JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC,D-J-F,M-A-M,J-J-A,S-O-N,metANN"
_MPG = ((9, 46), [4, 6, 8], (68, 455), (46, 230), (1600, 5100), (8, 24), (70, 82), [1, 2, 3])


def array_of(url: str) -> bytes | None:
    """Return the content of the file at a URL, or None."""
    rng = np.random.default_rng(11)
    if "adult." in url:
        return _lines(rng, _ADULT, 600, ", ")
    if "auto-mpg.data" in url:
        return _lines(rng, _MPG, 398, " ")
    if "forda" in url:
        labels = rng.choice([-1, 1], 240)
        rows = rng.normal(size=(240, 500)).cumsum(axis=1) * labels[:, None]
        return "".join(
            "\t".join(map(str, [label, *row.round(4)])) + "\n"
            for label, row in zip(labels, rows, strict=True)
        ).encode()
    if "art_daily" in url:
        begin = np.datetime64("2014-04-01T00:00:00")
        rows = [
            f"{begin + np.timedelta64(5 * i, 'm')},{20 + i % 288 + rng.normal():.4f}" for i in range(4032)
        ]
        return ("timestamp,value\n" + "\n".join(rows)).replace("T", " ").encode()
    if "mnist.npz" in url:
        parts = {f"x_{part}": rng.integers(0, 256, (600, 28, 28), "uint8") for part in ("train", "test")}
        return _zipped(parts | {f"y_{part}": rng.integers(0, 10, 600, "uint8") for part in ("train", "test")})
    if "mnist_test_seq" in url:
        return _array(rng.integers(0, 256, (20, 60, 64, 64), "uint8"))
    if "tiny_nerf" in url:
        poses = np.tile(np.eye(4, dtype="float32"), (106, 1, 1)) + rng.normal(size=(106, 4, 4)) / 10
        images = rng.random((106, 100, 100, 3), "float32")
        return _zipped({"images": images, "poses": poses.astype("float32"), "focal": np.array(138.9)})
    if "ecg.csv" in url:
        labels = rng.integers(0, 2, (500, 1))
        return _csv(np.hstack([rng.normal(size=(500, 140)).cumsum(axis=1), labels]))
    if "station.csv" in url:
        years = np.arange(1880, 2020)[:, None]
        return f"YEAR,{_MONTHS}\n".encode() + _csv(np.hstack([years, rng.normal(8, 4, (140, 17))]))
    if "covtype" in url:
        numbers = rng.integers(0, 3000, (900, 10))
        areas = np.eye(44, dtype=int)[rng.integers(0, 44, 900)]
        return gzip.compress(_csv(np.hstack([numbers, areas, rng.integers(1, 8, (900, 1))]), "%d"))
    if "higgs" in url:
        rows = np.hstack([rng.integers(0, 2, (12000, 1)), rng.normal(size=(12000, 28))])
        return gzip.compress(_csv(rows))
    return None


def _lines(rng: np.random.Generator, columns: Any, rows: int, separator: str) -> bytes:
    lines = []
    for _ in range(rows):
        drawn = [
            values[rng.integers(0, len(values))] if isinstance(values, list) else rng.integers(*values)
            for values in columns
        ]
        lines.append(separator.join(map(str, drawn)))
    return ("\n".join(lines) + "\n").encode()


def _csv(values: Any, form: str = "%.5g") -> bytes:
    buffer = io.BytesIO()
    np.savetxt(buffer, values, form, ",")
    return buffer.getvalue()


def _array(values: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def _zipped(arrays: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
