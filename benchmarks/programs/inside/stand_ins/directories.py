"""Folders of pictures or texts that a program reads: they are made if they are missing."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import keras

from . import files, replace_everywhere
from .downloads import put

#: Classes by a part of the folder's name; other folders have two.
_CLASSES = {"flower": 5, "rps": 3, "rock": 3, "multi": 3, "food": 10, "10_food": 10, "sign": 24}


def replace() -> None:
    """Make the folders that data sets are read from, if they are missing."""
    from keras.src.legacy.preprocessing.image import ImageDataGenerator

    images, texts = keras.utils.image_dataset_from_directory, keras.utils.text_dataset_from_directory
    replace_everywhere(images, _after_making(images, ".jpg"))
    replace_everywhere(texts, _after_making(texts, ".txt"))
    flow = ImageDataGenerator.flow_from_directory

    @functools.wraps(flow)
    def flow_from_directory(self: Any, directory: Any, *args: Any, **kwargs: Any) -> Any:
        _make(directory, kwargs.get("classes"), ".jpg")
        return flow(self, directory, *args, **kwargs)

    ImageDataGenerator.flow_from_directory = flow_from_directory


def _after_making(stock: Any, kind: str) -> Any:
    @functools.wraps(stock)
    def read(directory: Any, *args: Any, **kwargs: Any) -> Any:
        _make(directory, kwargs.get("class_names"), kind)
        return stock(directory, *args, **kwargs)

    return read


def _make(directory: Any, names: Any, kind: str) -> None:
    root = Path(directory)
    if root.is_dir() and any(root.iterdir()):
        return
    count = next((count for part, count in _CLASSES.items() if part in str(root).lower()), 2)
    for path, content in files.classes(*(names or [f"class_{i}" for i in range(count)]), kind=kind).items():
        put(root / path, content)
