"""Load digits to train on: MNIST, or a synthetic data set that needs no download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DataError
from ..words import Value
from . import mnist_files
from .synthetic import draw_digits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, eq=False, repr=False)
class Digits:
    """Images of digits with their labels, as numpy arrays, in a training set and a test set.

    Attributes
    ----------
    x_train, x_test : numpy.ndarray
        uint8, shape (n, 28, 28), 0 (paper) to 255 (ink).
    y_train, y_test : numpy.ndarray
        uint8, shape (n,), 0 to 9.
    name : str
        ``"mnist"`` or ``"synthetic"``.
    source : str
        Origin of the digits: a path, or a sentence.
    """

    __module__ = "tfmuster"

    x_train: npt.NDArray[np.uint8]
    y_train: npt.NDArray[np.uint8]
    x_test: npt.NDArray[np.uint8]
    y_test: npt.NDArray[np.uint8]
    name: str
    source: str

    def describe(self) -> str:
        """Return a line to print before training, so that nobody confuses the data sets."""
        return (
            f"{self.name}: {len(self.x_train):,} digits to train on, {len(self.x_test):,} to test on "
            f"({self.source})"
        )

    def __repr__(self) -> str:
        return f"<Digits {self.describe()}>"


def mnist(path: str | Path | None = None) -> Digits:
    """Load the MNIST digits from a file, or download them once.

    The search order is: ``path``; the environment variable ``TFMUSTER_MNIST``; Keras's cache
    (``~/.keras/datasets/mnist.npz``, or under ``KERAS_HOME``). If no file is found, Keras's ``mnist.npz`` is
    downloaded, verified by checksum, and stored in that cache, once for all workers on this machine.

    Parameters
    ----------
    path : str or Path, optional
        An ``.npz`` file with ``x_train``, ``y_train``, ``x_test``, and ``y_test``, or a folder with the four
        IDX files (``train-images-idx3-ubyte`` and so on, gzipped or not).

    Returns
    -------
    Digits

    Raises
    ------
    DataError
        The file is missing or damaged, or the download failed (fields ``path``, ``reason``).
    """
    source = mnist_files.locate(path)
    return Digits(*mnist_files.read(source), name="mnist", source=str(source))


def synthetic(seed: int = 0, train: int = 10_000, test: int = 2_000) -> Digits:
    """Generate digits that look handwritten, in the format of MNIST and without a download.

    Parameters
    ----------
    seed : int
        Seed of the digits. The same seed gives the same digits on every machine.
    train, test : int
        Number of digits to train on and to test on.

    Returns
    -------
    Digits
        Digits with the name ``"synthetic"``. An accuracy on them says nothing about MNIST.

    Raises
    ------
    DataError
        ``train`` or ``test`` is not a whole number of at least 1.
    """
    for argument, count in (("train", train), ("test", test)):
        if type(count) is not int or count < 1:
            raise DataError(
                f"`{argument}` must be a whole number of digits, at least 1.",
                found=str(Value(count)),
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
    """Load the digits that a ``dataset`` argument names. Raises DataError, as :func:`mnist` does.

    Other texts than ``"mnist"`` (also the default) and ``"synthetic"`` are the path of an ``.npz`` file or of
    a folder of IDX files.
    """
    if isinstance(dataset, Digits):
        return dataset
    if dataset is None or dataset == "mnist":
        return mnist()
    if dataset == "synthetic":
        return synthetic()
    return mnist(dataset)
