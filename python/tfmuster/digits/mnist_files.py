"""Find the files of MNIST, or let Keras download its own, and read them.

An error about a damaged file names the file and the problem. Of Keras's cache, only a file with the right
checksum is read.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..environment import MNIST_VARIABLE, UNPACKED_GB_VARIABLE
from ..errors import DataError
from ..system.archives import TooLargeError, check_zip_file
from ..system.tensorflow_import import import_tensorflow

#: Keras's own data set and its checksum (keras/src/datasets/mnist.py).
URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"

_IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}
# Magic numbers of the IDX format: two zero bytes, 0x08 for unsigned bytes, the number of dimensions.
_IDX_IMAGES, _IDX_LABELS = 0x0803, 0x0801
# The largest MNIST-like data set, QMNIST, has 402,953 digits; a header with far more rows is damaged.
_MOST_ROWS = 1_000_000
_FIX = f"pass the path of mnist.npz or of a folder with the four IDX files, or set {MNIST_VARIABLE} to it"

_Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


def cache_path() -> Path:
    """Return the path of ``mnist.npz`` in Keras's cache, under ``KERAS_HOME`` or ``~/.keras``."""
    home = os.environ.get("KERAS_HOME")
    return (Path(home) if home else Path.home() / ".keras") / "datasets" / "mnist.npz"


def locate(path: str | Path | None = None) -> Path:
    """Return the file or folder with MNIST; download it into the cache if there is none. Raises DataError."""
    named, origin = path, ""
    if path is None:
        named, origin = os.environ.get(MNIST_VARIABLE), f" (from {MNIST_VARIABLE})"
    if named:
        chosen = Path(named).expanduser()
        if not chosen.exists():
            raise DataError(
                "The digits must be in an .npz file or a folder of IDX files.",
                found=f"nothing at {chosen}{origin}",
                fix=_FIX,
                path=str(chosen),
                reason="not-found",
            )
        return chosen
    cached = cache_path()
    if not cached.exists():
        cached = _download()
    _verify(cached)
    return cached


def _verify(cached: Path) -> None:
    """Check that the cached file is Keras's own: any other one is damaged or was replaced."""
    digest = hashlib.sha256(cached.read_bytes()).hexdigest()
    if digest != SHA256:
        raise DataError(
            f"Keras's cache must hold Keras's own mnist.npz, with the SHA-256 checksum {SHA256}.",
            found=f"{cached} with {digest}",
            fix=f"delete it, so that it is downloaded again; or, if it is what you want, {_FIX}",
            path=str(cached),
            reason="checksum",
        )


def read(path: Path) -> _Arrays:
    """Read ``x_train, y_train, x_test, y_test`` from an ``.npz`` file or a folder of IDX files.

    Raises DataError unless they are 28 x 28 uint8 images, each with a label from 0 to 9.
    """
    if path.is_dir():
        arrays = {part: _read_idx(_idx_file(path, part), images=part.startswith("x_")) for part in _IDX_NAMES}
    else:
        arrays = _read_npz(path)
    for split in ("train", "test"):
        _check(path, split, arrays[f"x_{split}"], arrays[f"y_{split}"])
    x_train, y_train, x_test, y_test = (arrays[part] for part in _IDX_NAMES)
    return x_train, y_train, x_test, y_test


def _damaged(path: Path, reason: str, found: str) -> DataError:
    return DataError(
        "This file does not hold MNIST.", found=f"{path}: {found}", fix=_FIX, path=str(path), reason=reason
    )


def _check(path: Path, split: str, x: npt.NDArray[np.uint8], y: npt.NDArray[np.uint8]) -> None:
    if x.dtype != np.uint8 or x.ndim != 3 or x.shape[1:] != (28, 28):
        raise _damaged(path, "shape", f"x_{split} is {x.dtype} {x.shape}, not uint8 (n, 28, 28)")
    if y.dtype != np.uint8 or y.ndim != 1:
        raise _damaged(path, "shape", f"y_{split} is {y.dtype} {y.shape}, not uint8 (n,)")
    if len(x) != len(y):
        raise _damaged(path, "lengths-differ", f"{len(x)} images and {len(y)} labels in {split}")
    if len(x) == 0:
        raise _damaged(path, "empty", f"no {split} images")
    if y.max() > 9:
        raise _damaged(path, "labels", f"y_{split} has the label {y.max()}, not 0 to 9")


def _read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        check_zip_file(path)
        # allow_pickle=False: a data file must not be able to run code.
        loaded = np.load(path, allow_pickle=False)
        if not isinstance(loaded, np.lib.npyio.NpzFile):
            raise _damaged(path, "format", "a single array, not an .npz archive")
        with loaded as archive:
            missing = [part for part in _IDX_NAMES if part not in archive.files]
            if missing:
                raise _damaged(path, "format", f"no {', '.join(missing)} in it")
            return {part: archive[part] for part in _IDX_NAMES}
    except TooLargeError as error:
        raise DataError(
            "The data must not unpack to more than its limit.",
            found=f"{path}: {error}",
            fix=f"If you trust the file, set {UNPACKED_GB_VARIABLE} to a larger number of GB.",
            path=str(path),
            reason="large",
        ) from None
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise _damaged(path, "unreadable", f"not a readable .npz: {error}") from error


def _idx_file(folder: Path, part: str) -> Path:
    name = _IDX_NAMES[part]
    # Some mirrors and unpackers write a dot instead of the first hyphen of "idx3".
    names = [base + end for base in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    for candidate in names:
        if (folder / candidate).is_file():
            return folder / candidate
    raise DataError(
        "The folder must hold the four IDX files of MNIST.",
        found=f"no {name} (nor {', '.join(names[1:])}) in {folder}",
        fix=_FIX,
        path=str(folder),
        reason="not-found",
    )


def _read_idx(path: Path, *, images: bool) -> npt.NDArray[np.uint8]:
    """Read one IDX file: big-endian magic number, one length per dimension, then the bytes.

    The format is described at http://yann.lecun.com/exdb/mnist/.
    """
    dimensions = 3 if images else 1
    header_size = 4 * (1 + dimensions)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            header = file.read(header_size)
            if len(header) < header_size:
                raise _damaged(path, "truncated", f"{len(header)} bytes, less than a header")
            magic, rows, *rest = struct.unpack(f">{1 + dimensions}I", header)
            expected = _IDX_IMAGES if images else _IDX_LABELS
            if magic != expected:
                raise _damaged(path, "magic", f"magic number {magic:#06x} instead of {expected:#06x}")
            if (images and rest != [28, 28]) or rows > _MOST_ROWS:
                raise _damaged(path, "shape", f"a header for {(rows, *rest)}, not (n, 28, 28)")
            size = rows * (28 * 28 if images else 1)
            # Read one extra byte to detect a file that is too long without reading all of it.
            body = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path, "unreadable", str(error)) from error
    if len(body) != size:
        raise _damaged(
            path,
            "truncated" if len(body) < size else "shape",
            f"{'more' if len(body) > size else len(body)} bytes after the header, which says {size}",
        )
    return np.frombuffer(body, np.uint8).reshape((rows, *rest))


def _download() -> Path:
    """Let Keras download its file, once on each machine: the workers wait for each other."""
    import_tensorflow()
    import keras

    from ..keras_compat import install

    install()
    try:
        return Path(keras.utils.get_file("mnist.npz", origin=URL))
    except Exception as error:  # Keras raises no narrower one
        raise DataError(
            "The MNIST digits are not on this machine, and can't be downloaded.",
            found=f"no {MNIST_VARIABLE}, nothing at {cache_path()}, and {URL}: {error}",
            fix=f'{_FIX}; or use the data set "synthetic", which needs no file',
            path=str(cache_path()),
            reason="download",
        ) from error
