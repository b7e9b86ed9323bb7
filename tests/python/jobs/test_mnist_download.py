"""Many workers that need MNIST at once download it once, and learn why one can not."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.digits import arrays, npz_bytes
from support.launching import python
from tfmuster.digits import mnist_files

pytestmark = pytest.mark.usefixtures("empty_home")

WORKER = """
import sys
from tfmuster.digits import mnist_files
from tfmuster.digits.datasets import mnist
mnist_files.URL, mnist_files.SHA256 = sys.argv[1:]
sys.stdin.readline()
print(mnist().x_train.sum())
"""


def test_several_processes_download_once(server):
    data = npz_bytes(arrays(train=20_000))
    (server.root / "mnist.npz").write_bytes(data)
    command = [sys.executable, "-c", WORKER, server.url, hashlib.sha256(data).hexdigest()]
    python_path = str(Path(mnist_files.__file__).parents[2])
    workers = [
        subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": python_path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 3, answers
    assert len({out.splitlines()[-1] for out, _ in answers}) == 1
    assert server.served == ["/mnist.npz"]
    assert mnist_files.cache_path().read_bytes() == data
    leftovers = {file.name for file in mnist_files.cache_path().parent.iterdir()}
    assert leftovers == {"mnist.npz"}


ERRORS = """
import json, sys
from tfmuster.digits import mnist_files
from tfmuster.digits.datasets import mnist
from tfmuster.errors import DataError

for mnist_files.URL in sys.argv[1:]:
    try:
        mnist()
    except DataError as error:
        print(json.dumps([str(error), error.fields]))
"""


def failures(home, *urls):
    done = python("-c", ERRORS, *urls, cwd=home.parent, KERAS_HOME=str(home))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


def test_a_download_that_fails_is_told(server, tmp_path):
    (server.root / "mnist.npz").write_bytes(npz_bytes())
    closed = "http://127.0.0.1:9/mnist.npz"
    offline, other_file = failures(tmp_path / "home", closed, server.url)
    cached = str(tmp_path / "home" / "datasets" / "mnist.npz")
    message, fields = offline
    assert cached in message and closed in message and "TFMUSTER_MNIST" in message
    assert "synthetic" in message and "refused" in message
    assert fields == {"path": cached, "reason": "download"}
    assert other_file[1] == {"path": cached, "reason": "checksum"} and cached in other_file[0]


def test_a_cache_that_can_not_be_made(server, tmp_path):
    (tmp_path / "file").touch()
    ((message, fields),) = failures(tmp_path / "file", server.url)
    assert "Not a directory" in message and fields["reason"] == "download"
