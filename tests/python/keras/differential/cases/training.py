"""What most cases have in common: some rows, and a short training with a smaller last batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .registry import Result

#: Rows of a training set. Batches of 16 leave a last one of 9, which neither 2 nor 4 workers divide.
ROWS, BATCH = 41, 16


def numbers(*shape: int, rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Return ``rows`` rows of float32 between 0 and 1."""
    return np.random.default_rng(seed).random((rows, *shape)).astype("float32")


def integers(high: int, *shape: int, rows: int = ROWS, seed: int = 1) -> np.ndarray:
    """Return ``rows`` rows of integers from 0 to ``high - 1``."""
    return np.random.default_rng(seed).integers(0, high, (rows, *shape))


def one_hot(high: int, rows: int = ROWS, seed: int = 1) -> np.ndarray:
    """Return ``rows`` rows of float32 with a single 1 among ``high`` numbers."""
    return np.eye(high, dtype="float32")[integers(high, rows=rows, seed=seed)]


def small_network(outputs: int = 1, activation: str | None = None, **last: Any) -> keras.Model:
    """Return a smooth network on 6 numbers."""
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(5, activation="tanh"),
            keras.layers.Dense(outputs, activation=activation, **last),
        ]
    )


def trained(
    model: keras.Model,
    x: Any,
    y: Any = None,
    *,
    optimizer: Any = None,
    loss: Any = "mse",
    compiling: dict[str, Any] | None = None,
    **fit: Any,
) -> Result:
    """Compile a model, fit it for two epochs, and return the result."""
    model.compile(optimizer or keras.optimizers.SGD(0.05), loss, **(compiling or {}))
    fit = {"epochs": 2, "verbose": 0, **fit}
    if isinstance(x, (np.ndarray, dict, list, tuple)):
        fit.setdefault("batch_size", BATCH)
    return Result(model, model.fit(x, y, **fit).history)
