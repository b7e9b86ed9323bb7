"""Wait, with TensorFlow and Keras imported, for work: the spare process of ``launch --warm`` or `workers`.

The process has the command of a worker. Before its program is read, it imports what takes longest, and waits
on standard input for one line: a JSON object with the environment variables that make it a worker of a job,
and further arguments for the program. From then on it does what a new worker does. Without such a line, it
ends when its launcher has closed the pipe or died.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from ..net.door import filters_work
from ..system.tensorflow_import import without_gc

#: What a worker imports before its first step. A missing one is imported later or never, so they are no rows
#: of the register of seams.
_MODULES = (
    "tensorflow",
    "keras",
    "tensorflow.python.distribute.collective_all_reduce_strategy",
    "tensorflow.python.eager.polymorphic_function.polymorphic_function",
    "tfmuster.worker.import_hook",
    "tfmuster.keras_compat",
    "tfmuster.strategies.by_name",
    "tfmuster.rendezvous.task.join",
    "tfmuster.worker.progress",
)
_then: list[Callable[[], Any]] = []


def wait_for_work(then: Callable[[], Any]) -> list[str]:
    """Import, wait for work, and call ``then`` with the worker's environment in place. Or end the process.

    Return the further arguments, which ``sys.argv`` has, too.
    """
    with without_gc():
        for module in _MODULES:
            # If one is missing or broken, the program says so when it imports it itself.
            with contextlib.suppress(Exception):
                importlib.import_module(module)
    with contextlib.suppress(Exception):
        # Takes a tenth of a second.
        filters_work()
    # `sys.stdin` is the program's.
    with open(0, "rb", buffering=0, closefd=False) as orders:
        line = orders.readline()
    if not line.endswith(b"\n"):
        os._exit(0)
    work = json.loads(line)
    os.environ.update(work["variables"])
    sys.argv += work["arguments"]
    # Programs of workers have nothing to read from.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    then()
    return list(work["arguments"])


def wait_in_r() -> list[str]:
    """Do the same in the Python inside R, whose start ``startup.R`` controls."""
    return wait_for_work(_then.pop())


def keep_for_r(then: Callable[[], Any]) -> None:
    """Keep what `wait_in_r` calls: it needs what reticulate sets up after Python has started."""
    _then.append(then)
