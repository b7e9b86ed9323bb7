"""What is called when TensorFlow's runtime starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

#: Threads that use TensorFlow for the first time, all at once.
STARTED_BY_THREADS = """
import threading
import tensorflow as tf
from tfmuster.keras_compat.runtime.starting import call_when_started, tensorflow_started

called = []
for number in range(200):
    call_when_started(lambda number=number: called.append((number, tensorflow_started())))
together = threading.Barrier(8)
failed = []

def begin():
    together.wait()
    try:
        tf.constant(1.0)
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=begin) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(not failed, called == [(number, True) for number in range(200)])
"""


def test_each_is_called_once_and_in_order_whoever_starts_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_BY_THREADS], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout == "True True\n", done.stderr[-2000:]
