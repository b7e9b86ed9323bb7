"""Digits to train on: MNIST from wherever it is, or a stand-in that needs no download.

No TensorFlow import here: :func:`batches`, which makes the input pipeline, imports it when it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError
from ..keras_compat.sharding import batches, shard_description
from . import mnist_files
from .synthetic import draw_digits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["Digits", "batches", "load", "mnist", "shard_description", "synthetic"]


@dataclass(frozen=True, eq=False, repr=False)
class Digits:
    """Images of digits with their labels, as numpy arrays, to train on and to test on.

    Attributes
    ----------
    x_train, x_test : numpy.ndarray
        uint8, shape (n, 28, 28), 0 (paper) to 255 (ink).
    y_train, y_test : numpy.ndarray
        uint8, shape (n,), 0 to 9.
    name : str
        ``"mnist"`` or ``"synthetic"``.
    source : str
        Where the digits come from: a path, or a sentence.
    """

    __module__ = "tfmuster"

    x_train: npt.NDArray[np.uint8]
    y_train: npt.NDArray[np.uint8]
    x_test: npt.NDArray[np.uint8]
    y_test: npt.NDArray[np.uint8]
    name: str
    source: str

    def describe(self) -> str:
        """One line to print before training, so that nobody takes one data set for another."""
        return (
            f"{self.name}: {len(self.x_train):,} digits to train on, {len(self.x_test):,} to test on "
            f"({self.source})"
        )

    def __repr__(self) -> str:
        return f"<Digits {self.describe()}>"


def mnist(path: str | Path | None = None) -> Digits:
    """The MNIST digits, read from a file or downloaded once.

    Looked for in this order: ``path``; the environment variable ``TFMUSTER_MNIST``; Keras's own cache
    (``~/.keras/datasets/mnist.npz``, honouring ``KERAS_HOME``); else Keras's ``mnist.npz`` is downloaded, its
    checksum verified, and put into that cache, once for all the workers on this machine.

    Parameters
    ----------
    path : str or Path, optional
        An ``.npz`` with ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or a folder with the four IDX
        files (``train-images-idx3-ubyte`` and so on, gzipped or not).

    Returns
    -------
    Digits

    Raises
    ------
    DataError
        No such file, a damaged file, or no way to download (fields ``path``, ``reason``).
    """
    found = mnist_files.locate(path)
    return Digits(*mnist_files.read(found), name="mnist", source=str(found))


def synthetic(seed: int = 0, train: int = 10_000, test: int = 2_000) -> Digits:
    """A stand-in for MNIST, drawn instead of downloaded: random strokes that look like hand-writing.

    Parameters
    ----------
    seed : int
        The same seed gives the same digits on every machine.
    train, test : int
        How many digits.

    Returns
    -------
    Digits
        With the name ``"synthetic"``: figures reached on it say nothing about MNIST.

    Raises
    ------
    DataError
        A number is no whole number of at least 1.
    """
    for what, count in (("train", train), ("test", test)):
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise DataError(
                f"`{what}` must be a whole number of digits, at least 1.",
                found=repr(count),
                path=None,
                reason="empty",
            )
    x, y = draw_digits(train + test, seed)
    return Digits(
        x[:train],
        y[:train],
        x[train:],
        y[train:],
        name="synthetic",
        source=f"drawn by tfmuster with seed {seed}; these are not the MNIST digits",
    )


def load(dataset: str | Path | Digits | None = None) -> Digits:
    """The digits that a ``dataset`` argument names.

    Parameters
    ----------
    dataset : {None, "mnist", "synthetic"}, path or Digits
        ``None`` and ``"mnist"`` are :func:`mnist`; ``"synthetic"`` is :func:`synthetic`; anything else is the
        path of an ``.npz`` or of a folder of IDX files.

    Raises
    ------
    DataError
        As :func:`mnist`.
    """
    if isinstance(dataset, Digits):
        return dataset
    if dataset is None or dataset == "mnist":
        return mnist()
    if dataset == "synthetic":
        return synthetic()
    return mnist(dataset)
