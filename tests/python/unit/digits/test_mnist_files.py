"""Where MNIST is looked for, and what a damaged file is called."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
from pathlib import Path

import numpy as np
import pytest

from support.digits import arrays, npz_bytes
from tfmuster.digits import mnist_files
from tfmuster.digits.datasets import load, mnist
from tfmuster.environment import MNIST_VARIABLE
from tfmuster.errors import DataError

pytestmark = pytest.mark.usefixtures("empty_home")


def idx_bytes(array):
    magic = 0x0800 + array.ndim
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


def write_idx(folder, *, dots=False, zipped=False, content=None):
    folder.mkdir(exist_ok=True)
    for part, name in mnist_files._IDX_NAMES.items():
        data = idx_bytes((content or arrays())[part])
        name = name.replace("-idx", ".idx") if dots else name
        (folder / f"{name}.gz" if zipped else folder / name).write_bytes(
            gzip.compress(data) if zipped else data
        )
    return folder


def assert_same(digits, content=None):
    for part, array in (content or arrays()).items():
        np.testing.assert_array_equal(getattr(digits, part), array)
        assert getattr(digits, part).dtype == np.uint8
    assert digits.name == "mnist"


def test_reads_an_npz(tmp_path):
    file = tmp_path / "digits.npz"
    file.write_bytes(npz_bytes())
    digits = mnist(file)
    assert_same(digits)
    assert digits.source == str(file)
    assert_same(load(str(file)))
    assert load(digits) is digits


@pytest.mark.parametrize("dots", [False, True])
@pytest.mark.parametrize("zipped", [False, True])
def test_reads_a_folder_of_idx_files(tmp_path, dots, zipped):
    assert_same(mnist(write_idx(tmp_path / "idx", dots=dots, zipped=zipped)))


def test_environment_variable_comes_before_the_cache(tmp_path, monkeypatch):
    file = tmp_path / "digits.npz"
    file.write_bytes(npz_bytes())
    monkeypatch.setenv(MNIST_VARIABLE, str(file))
    assert_same(mnist())
    assert_same(load("mnist"))
    monkeypatch.setenv(MNIST_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="from TFMUSTER_MNIST"):
        mnist()


def test_cache_is_keras_own(tmp_path, monkeypatch):
    assert mnist_files.cache_path() == tmp_path / "keras" / "datasets" / "mnist.npz"
    monkeypatch.delenv("KERAS_HOME")
    assert mnist_files.cache_path() == Path.home() / ".keras" / "datasets" / "mnist.npz"


def put_in_cache(data, monkeypatch, checksum=None):
    cached = mnist_files.cache_path()
    cached.parent.mkdir(parents=True)
    cached.write_bytes(data)
    monkeypatch.setattr(mnist_files, "SHA256", checksum or hashlib.sha256(data).hexdigest())
    return cached


def test_reads_the_cache_without_the_net(monkeypatch):
    put_in_cache(npz_bytes(), monkeypatch)
    assert_same(mnist())


def test_a_cache_that_is_not_keras_file_is_named_and_kept(monkeypatch):
    cached = put_in_cache(npz_bytes(), monkeypatch, checksum="0" * 64)
    with pytest.raises(DataError, match="checksum") as caught:
        mnist()
    assert caught.value.fields == {"path": str(cached), "reason": "checksum"}
    assert cached.read_bytes() == npz_bytes()


def changed(**parts):
    return npz_bytes({**arrays(), **parts})


def without(part):
    return npz_bytes({name: array for name, array in arrays().items() if name != part})


def single_array():
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


DAMAGED_NPZ = {
    "empty": (b"", "unreadable"),
    "text": (b"<html>404</html>", "unreadable"),
    "truncated": (npz_bytes()[:-200], "unreadable"),
    "flipped-bytes": (npz_bytes()[:300] + b"\xff" * 50 + npz_bytes()[350:], "unreadable"),
    "not-an-archive": (single_array(), "format"),
    "no-labels": (without("y_test"), "format"),
    "pickled": (changed(y_test=np.array([{}] * 10, dtype=object)), "unreadable"),
    "flat": (changed(x_train=np.zeros((30, 784), np.uint8)), "shape"),
    "32x32": (changed(x_test=np.zeros((10, 32, 32), np.uint8)), "shape"),
    "float": (changed(x_train=np.zeros((30, 28, 28))), "shape"),
    "int64-labels": (changed(y_train=np.zeros(30, np.int64)), "shape"),
    "one-hot": (changed(y_train=np.zeros((30, 10), np.uint8)), "shape"),
    "lengths": (changed(y_train=np.zeros(29, np.uint8)), "lengths-differ"),
    "label-10": (changed(y_test=np.full(10, 10, np.uint8)), "labels"),
    "no-rows": (changed(x_test=np.zeros((0, 28, 28), np.uint8), y_test=np.zeros(0, np.uint8)), "empty"),
}


@pytest.mark.parametrize("case", DAMAGED_NPZ)
def test_damaged_npz(case, tmp_path):
    data, reason = DAMAGED_NPZ[case]
    file = tmp_path / "digits.npz"
    file.write_bytes(data)
    with pytest.raises(DataError) as caught:
        mnist(file)
    assert caught.value.fields == {"path": str(file), "reason": reason}
    assert str(file) in str(caught.value) and "to do:" in str(caught.value)
    assert file.read_bytes() == data


IMAGES = idx_bytes(arrays()["x_train"])
DAMAGED_IDX = {
    "empty": (b"", "truncated"),
    "half-a-header": (IMAGES[:10], "truncated"),
    "truncated": (IMAGES[:-1], "truncated"),
    "too-long": (IMAGES + b"\0", "shape"),
    "labels-for-images": (idx_bytes(arrays()["y_train"]) * 5, "magic"),
    "little-endian": (IMAGES[3::-1] + IMAGES[4:], "magic"),
    "32x32": (idx_bytes(np.zeros((30, 32, 32), np.uint8)), "shape"),
    "four-billion-rows": (IMAGES[:4] + b"\xff" * 4 + IMAGES[8:], "shape"),
    "fewer-images": (idx_bytes(arrays()["x_train"][:20]), "lengths-differ"),
}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("case", DAMAGED_IDX)
def test_damaged_idx(case, zipped, tmp_path):
    data, reason = DAMAGED_IDX[case]
    folder = write_idx(tmp_path / "idx", zipped=zipped)
    file = folder / ("train-images-idx3-ubyte" + (".gz" if zipped else ""))
    file.write_bytes(gzip.compress(data) if zipped else data)
    with pytest.raises(DataError) as caught:
        mnist(folder)
    assert caught.value.fields["reason"] == reason
    assert caught.value.fields["path"] in (str(file), str(folder))


@pytest.mark.parametrize("cut", [5, 100, -4])
def test_damaged_gzip(cut, tmp_path):
    folder = write_idx(tmp_path / "idx", zipped=True)
    file = folder / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(DataError) as caught:
        mnist(folder)
    assert caught.value.fields == {"path": str(file), "reason": "unreadable"}


def test_missing_idx_file_is_named(tmp_path):
    folder = write_idx(tmp_path / "idx")
    (folder / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte") as caught:
        mnist(folder)
    assert caught.value.fields == {"path": str(folder), "reason": "not-found"}


def test_missing_path(tmp_path):
    with pytest.raises(DataError, match="nothing at") as caught:
        mnist(tmp_path / "nowhere.npz")
    assert caught.value.fields["reason"] == "not-found"


REAL = os.environ.get("TFMUSTER_MNIST")


@pytest.mark.skipif(not REAL, reason="TFMUSTER_MNIST names no real digits")
def test_real_digits():
    digits = mnist(REAL)
    assert digits.x_test.shape == (10_000, 28, 28)
    # The official test set begins with 7, 2, 1, 0, 4.
    assert digits.y_test[:5].tolist() == [7, 2, 1, 0, 4]
    assert len(digits.x_train) in (10_000, 60_000)
