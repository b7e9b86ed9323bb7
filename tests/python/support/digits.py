"""Digits that are quickly made, and where a test may find or download them."""

from __future__ import annotations

import http.server
import io
import threading

import numpy as np
import pytest

from tfmuster.digits import mnist_files
from tfmuster.environment import MNIST_VARIABLE


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


@pytest.fixture
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
