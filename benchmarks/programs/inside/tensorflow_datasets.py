"""A stand-in for tensorflow_datasets: small drawn data with the features of the real ones."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf
from stand_ins import files

ReadConfig = SimpleNamespace
core = SimpleNamespace(DatasetInfo=object)

_IMAGES = {
    "mnist": ((28, 28, 1), 10),
    "fashion_mnist": ((28, 28, 1), 10),
    "kmnist": ((28, 28, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "cifar100": ((32, 32, 3), 100),
    "cats_vs_dogs": ((None, None, 3), 2),
    "tf_flowers": ((None, None, 3), 5),
    "horses_or_humans": ((300, 300, 3), 2),
    "rock_paper_scissors": ((300, 300, 3), 3),
    "stanford_dogs": ((None, None, 3), 120),
    "oxford_flowers102": ((None, None, 3), 102),
    "food101": ((None, None, 3), 101),
    "beans": ((500, 500, 3), 3),
    "malaria": ((None, None, 3), 2),
    "svhn_cropped": ((32, 32, 3), 10),
}
_TEXTS = {"imdb_reviews": 2, "ag_news_subset": 4, "yelp_polarity_reviews": 2, "glue/sst2": 2}
_ROWS = {
    "trainA": 120,
    "trainB": 120,
    "testA": 40,
    "testB": 40,
    "unlabelled": 400,
    "train": 400,
    "test": 120,
    "validation": 120,
    "unsupervised": 50,
}


def disable_progress_bar() -> None:
    """Do nothing."""


def as_numpy(data: Any) -> Any:
    """Return the arrays of a data set or of a tensor."""
    if isinstance(data, tf.data.Dataset):
        return data.as_numpy_iterator()
    return tf.nest.map_structure(lambda value: value.numpy(), data)


def as_dataframe(data: Any, info: Any = None) -> Any:
    """Return the rows of a data set."""
    import pandas as pd

    return pd.DataFrame(list(data.as_numpy_iterator()))


def show_examples(*_: Any, **__: Any) -> None:
    """Draw nothing."""


def builder(name: str, **_: Any) -> Any:
    """Return what makes a data set."""
    return SimpleNamespace(
        info=_info(name),
        download_and_prepare=lambda **_: None,
        as_dataset=lambda split=None, **options: load(name, split=split, **options),
    )


def load(
    name: str,
    split: Any = None,
    *,
    batch_size: int | None = None,
    as_supervised: bool = False,
    with_info: bool = False,
    shuffle_files: bool = False,
    **_: Any,
) -> Any:
    """Return the data sets of a name."""
    key = name.partition(":")[0]
    splits = split if split is not None else dict.fromkeys(_info(name).splits)
    if isinstance(splits, dict):
        data: Any = {part: _part(key, part, as_supervised, batch_size) for part in splits}
    elif isinstance(splits, list | tuple):
        data = type(splits)(_part(key, part, as_supervised, batch_size) for part in splits)
    else:
        data = _part(key, str(splits), as_supervised, batch_size)
    return (data, _info(name)) if with_info else data


def _info(name: str) -> Any:
    key = name.partition(":")[0]
    shape, classes = _IMAGES.get(key, ((), _TEXTS.get(key.removesuffix("/plain_text"), 2)))
    names = [f"class {i}" for i in range(classes)]
    label = SimpleNamespace(num_classes=classes, names=names, int2str=names.__getitem__)
    features = {"label": label, "image": SimpleNamespace(shape=shape), "text": SimpleNamespace(encoder=None)}
    splits = {
        part: SimpleNamespace(num_examples=rows)
        for part, rows in _ROWS.items()
        if part in ("train", "test") or key.startswith(("oxford", "ted", "food", "beans"))
    }
    return SimpleNamespace(features=features, splits=splits, name=key, supervised_keys=("image", "label"))


def _part(key: str, split: str, supervised: bool, batch: int | None) -> tf.data.Dataset:
    """Return the rows of a split, such as ``train[:80%]``."""
    parts = [_rows(key, *_range(part.strip())) for part in split.split("+")]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    data = tf.data.Dataset.from_tensor_slices(rows)
    if key in _IMAGES and _IMAGES[key][0][0] is None:
        data = data.map(lambda row: row | {"image": _any_size(row["image"])})
    if supervised:
        first, second = list(rows)[:2]
        data = data.map(lambda row: (row[first], row[second]))
    if batch == -1:
        return next(iter(data.batch(10**6)))
    return data.batch(batch) if batch else data


def _any_size(image: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.py_function(lambda value: value, [image], tf.uint8), (None, None, 3))


def _range(split: str) -> tuple[str, int, int]:
    name, _, inside = split.partition("[")
    rows = _ROWS[name]
    begin, _, end = inside.rstrip("]").partition(":")

    def place(text: str, default: int) -> int:
        if not text:
            return default
        number = int(re.sub(r"\D", "", text))
        number = rows * number // 100 if "%" in text else min(number, rows)
        return rows - number if text.startswith("-") else number

    return name, place(begin, 0), place(end, rows)


def _rows(key: str, split: str, begin: int, end: int) -> dict[str, Any]:
    rng = np.random.default_rng(len(split))
    rows = _ROWS[split]
    if key in _IMAGES:
        shape, classes = _IMAGES[key]
        label = rng.integers(0, classes, rows)
        drawn = rng.integers(0, 200, (rows, *(size or 64 for size in shape)), "uint8")
        drawn += (label * (50 // classes + 1) % 50).astype("uint8").reshape(-1, 1, 1, 1)
        found: dict[str, Any] = {"image": drawn, "label": label}
    elif key.startswith("oxford_iiit_pet"):
        masks = rng.integers(1, 4, (rows, 64, 64, 1), "uint8")
        images = rng.integers(0, 256, (rows, 64, 64, 3), "uint8")
        found = {"image": images, "label": rng.integers(0, 37, rows), "segmentation_mask": masks}
    elif key.startswith("ted_hrlr"):
        lines = [line.split("\t") for line in files.pairs(rng, rows).splitlines()]
        found = {"pt": np.array([line[1] for line in lines]), "en": np.array([line[0] for line in lines])}
    elif key.removesuffix("/plain_text") in _TEXTS:
        label = rng.integers(0, _TEXTS[key.removesuffix("/plain_text")], rows)
        found = {"text": np.array([files.text(rng, 40, int(i)) for i in label]), "label": label}
    elif key.startswith("penguins"):
        rows_of = rng.normal(size=(rows, 4)).astype("float32")
        found = {"features": rows_of, "species": rng.integers(0, 3, rows)}
    elif key.startswith(("cycle_gan", "celeb_a", "stl10", "omniglot")):
        found = {
            "image": rng.integers(0, 256, (rows, 96, 96, 3), "uint8"),
            "label": rng.integers(0, 10, rows),
        }
    else:
        raise files.NoStandInError(f"no stand-in for the data set {key}")
    return {name: values[begin:end] for name, values in found.items()}
