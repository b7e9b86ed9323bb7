"""Many workers that need MNIST at once download it once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.digits import arrays, npz_bytes
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
