"""Where MNIST is looked for, what a damaged file is called, and that many workers download it once."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tfmuster.digits import mnist_files
from tfmuster.digits.datasets import load, mnist
from tfmuster.environment import MNIST_VARIABLE
from tfmuster.errors import DataError

PARTS = ("x_train", "y_train", "x_test", "y_test")


def arrays(train=30, test=10):
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.integers(0, 256, (train, 28, 28), np.uint8),
        "y_train": rng.integers(0, 10, train).astype(np.uint8),
        "x_test": rng.integers(0, 256, (test, 28, 28), np.uint8),
        "y_test": rng.integers(0, 10, test).astype(np.uint8),
    }


def npz_bytes(content=None):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **(content or arrays()))
    return buffer.getvalue()


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


@pytest.fixture(autouse=True)
def empty_home(tmp_path, monkeypatch):
    """Neither the machine's cache nor its settings, nor the internet, take part in these tests."""
    monkeypatch.delenv(MNIST_VARIABLE, raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setattr(mnist_files, "URL", "http://127.0.0.1:9/mnist.npz")


@pytest.fixture
def server(tmp_path):
    """A web server on loopback that serves what is put into ``root`` and counts its answers."""
    root = tmp_path / "www"
    root.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=root)

        def log_message(self, *args):
            served.append(self.path)

    served: list[str] = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        running.root, running.served = root, served
        running.url = f"http://127.0.0.1:{running.server_address[1]}/mnist.npz"
        yield running
        running.shutdown()
        thread.join()


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


def test_offline_says_where_it_looked_and_what_to_pass(tmp_path):
    with pytest.raises(DataError) as caught:
        mnist()
    message = str(caught.value)
    assert str(tmp_path / "keras" / "datasets" / "mnist.npz") in message
    assert mnist_files.URL in message and "TFMUSTER_MNIST" in message and "synthetic" in message
    assert caught.value.fields["reason"] == "download"
    assert [file.name for file in (tmp_path / "keras" / "datasets").iterdir()] == [".mnist.npz.lock"]


def test_a_cache_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "file"))
    with pytest.raises(DataError, match="cache") as caught:
        mnist()
    assert caught.value.fields["reason"] == "cache"


def test_download_with_a_wrong_checksum_leaves_the_cache_alone(server, monkeypatch):
    (server.root / "mnist.npz").write_bytes(npz_bytes())
    monkeypatch.setattr(mnist_files, "URL", server.url)
    with pytest.raises(DataError, match="checksum") as caught:
        mnist()
    assert caught.value.fields["reason"] == "checksum"
    assert [file.name for file in mnist_files.cache_path().parent.iterdir()] == [".mnist.npz.lock"]


WORKER = """
import sys
from tfmuster.digits import mnist_files
from tfmuster.digits.datasets import mnist
mnist_files.URL, mnist_files.SHA256 = sys.argv[1:]
sys.stdin.readline()
print(mnist().x_train.sum())
"""


@pytest.mark.cluster
def test_several_processes_download_once(server):
    data = npz_bytes(arrays(train=20_000))
    (server.root / "mnist.npz").write_bytes(data)
    command = [sys.executable, "-c", WORKER, server.url, hashlib.sha256(data).hexdigest()]
    python_path = str(Path(mnist_files.__file__).parents[1])
    workers = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": python_path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 5, answers
    assert len({out for out, _ in answers}) == 1
    assert server.served == ["/mnist.npz"]
    assert mnist_files.cache_path().read_bytes() == data
    leftovers = {file.name for file in mnist_files.cache_path().parent.iterdir()}
    assert leftovers == {"mnist.npz", ".mnist.npz.lock"}


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


def test_needs_no_tensorflow():
    code = "import sys, tfmuster.digits.datasets; sys.exit('tensorflow' in sys.modules)"
    python_path = str(Path(mnist_files.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": python_path}, check=True)


REAL = os.environ.get("TFMUSTER_MNIST")


@pytest.mark.skipif(not REAL, reason="TFMUSTER_MNIST names no real digits")
def test_real_digits():
    digits = mnist(REAL)
    assert digits.x_test.shape == (10_000, 28, 28)
    # The official test set begins with 7, 2, 1, 0, 4.
    assert digits.y_test[:5].tolist() == [7, 2, 1, 0, 4]
    assert len(digits.x_train) in (10_000, 60_000)
