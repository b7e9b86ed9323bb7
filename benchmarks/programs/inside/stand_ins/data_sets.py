"""``keras.datasets`` with drawn numbers in the shapes and dtypes of the real ones."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import keras
import numpy as np

from . import replace_everywhere

Pairs = tuple[tuple[Any, Any], tuple[Any, Any]]
#: Shape of an image, number of classes, and the rows that a program gets if it has such numbers in its text.
_IMAGES = {
    "mnist": ((28, 28), 10, 60000, 10000),
    "fashion_mnist": ((28, 28), 10, 60000, 10000),
    "cifar10": ((32, 32, 3), 10, 50000, 10000),
    "cifar100": ((32, 32, 3), 100, 12000, 2000),
}

#: The real number of rows, or a slice of so many.
_ROWS = re.compile(r"\b(?:[56][05]_?000|(?<=:)\d+_?000|\d+_?000(?=:)|(?<=-)\d+_?000)\b")


def replace() -> None:
    """Replace every ``load_data``."""
    datasets = keras.datasets
    program = Path(sys.argv[0]).read_text()
    share = 1 if _ROWS.search(program) else 40
    for name, (shape, classes, train, test) in _IMAGES.items():
        rows = max(train // share, 1000), max(test // share, 250)
        _put(getattr(datasets, name), _images(shape, classes, *rows))
    _put(datasets.boston_housing, lambda **_: _table(13, 404, 102, 20))
    _put(datasets.california_housing, lambda **_: _table(8, 480, 120, 200000))
    _put(datasets.imdb, lambda **options: _texts(2, 11000, 600, **options))
    _put(datasets.reuters, lambda **options: _texts(46, 3000, 300, **options))
    for words in (datasets.imdb, datasets.reuters):
        replace_everywhere(words.get_word_index, _word_index)


def _put(module: types.ModuleType, load: Any) -> None:
    def load_data(*args: Any, **kwargs: Any) -> Pairs:
        if args and isinstance(args[0], str):
            kwargs.pop("path", None)
        kwargs.pop("label_mode", None)
        pairs: Pairs = load(**kwargs)
        return pairs

    replace_everywhere(module.load_data, load_data)


def _images(shape: tuple[int, ...], classes: int, train: int, test: int) -> Any:
    def load(**_: Any) -> Pairs:
        rng = np.random.default_rng(1)
        return _drawn(rng, train), _drawn(rng, test)

    def _drawn(rng: np.random.Generator, rows: int) -> tuple[Any, Any]:
        y = rng.integers(0, classes, rows, "uint8")
        x = rng.integers(0, 256, (rows, *shape), "uint8")
        # A bright band whose place is the class: something to learn.
        for i in range(min(classes, 10)):
            x[y == i, 2 * i : 2 * i + 2] = 255
        return x, (y if len(shape) == 2 else y[:, None].astype("int64"))

    return load


def _table(columns: int, train: int, test: int, scale: float) -> Pairs:
    rng = np.random.default_rng(2)
    x = rng.gamma(2.0, 1.0, (train + test, columns))
    y = np.abs(x @ rng.normal(size=columns)) * scale / columns
    return (x[:train], y[:train]), (x[train:], y[train:])


def _texts(classes: int, train: int, test: int, **options: Any) -> Pairs:
    rng = np.random.default_rng(3)
    words = min(options.get("num_words") or 20000, 20000)
    longest = options.get("maxlen") or 240

    def drawn(rows: int) -> tuple[Any, Any]:
        lengths = rng.integers(20, max(longest, 22), rows)
        numbers = np.minimum(rng.zipf(1.3, int(lengths.sum())) + 3, words - 1)
        x = np.empty(rows, object)
        for i, part in enumerate(np.split(numbers, np.cumsum(lengths)[:-1])):
            x[i] = [1, *part[1:].tolist()]
        return x, rng.integers(0, classes, rows)

    return drawn(train), drawn(test)


def _word_index(*_: Any, **__: Any) -> dict[str, int]:
    return {f"word{i}": i for i in range(1, 20001)}
