"""Models of ``keras.applications`` with drawn weights."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import keras
import numpy as np

from . import replace_everywhere


def replace() -> None:
    """Draw weights instead of downloading them; name predicted classes by their numbers."""
    packages = [value for value in vars(keras.applications).values() if inspect.ismodule(value)]
    for package in packages:
        for name, value in list(vars(package).items()):
            if inspect.isfunction(value) and name[0].isupper():
                replace_everywhere(value, _without_download(value))
            elif name == "decode_predictions":
                replace_everywhere(value, _decode)


def _without_download(stock: Any) -> Any:
    takes = inspect.signature(stock)

    @functools.wraps(stock)
    def make(*args: Any, **kwargs: Any) -> Any:
        given = takes.bind(*args, **kwargs)
        given.arguments["weights"] = None
        return stock(*given.args, **given.kwargs)

    return make


def _decode(preds: Any, top: int = 5) -> list[list[tuple[str, str, float]]]:
    best = np.argsort(-np.asarray(preds), axis=-1)[:, :top]
    return [
        [(f"n{i:08}", f"class_{i}", float(row[i])) for i in order]
        for row, order in zip(preds, best, strict=True)
    ]
