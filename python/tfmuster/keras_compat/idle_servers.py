"""Reach idle servers again before TensorFlow calls them with Python's lock.

gRPC closes connections that nobody uses, by default after half an hour, and networks drop them. The next call
connects again. Calls that give a function to all servers, or take one away, hold Python's lock until the
servers have answered. Then no thread of this process can announce the connection to the server, whose closed
door lets in none that is not announced (:mod:`tfmuster.net.door`): after 20 seconds the call fails. Here, an
operation on each server comes first, because operations release the lock.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..net.door import QUIET_SECONDS
from . import seams


def reach_idle_servers() -> None:
    """Reach all servers before calls that hold the lock, if the last one was before doors close."""
    last = time.monotonic()

    def reaching(stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal last
            now, before = time.monotonic(), last
            last = now
            if now - before > QUIET_SECONDS:
                _reach_all()
                last = time.monotonic()
            return stock(*args, **kwargs)

        return call

    for seam in (seams.ADD_C_FUNCTION, seams.ADD_FUNCTION_DEF, seams.REMOVE_FUNCTION):
        if not seam.replaced:
            seam.replace(reaching(seam.get()))


def _reach_all() -> None:
    import tensorflow as tf

    def reach(device: str) -> None:
        # An operation without inputs: to copy one to the server would hold the lock, too. A server that does
        # not answer is reported by the call that follows.
        with contextlib.suppress(tf.errors.OpError), tf.device(device):
            tf.raw_ops.Timestamp()

    names = [device.name for device in seams.CONTEXT.get()().list_logical_devices("CPU")]
    servers = [name for name in names if "/job:chief/" not in name and "/job:localhost/" not in name]
    if servers:
        # The threads run eagerly, also if this one traces a function. While Python ends, none can be started.
        with contextlib.suppress(RuntimeError), ThreadPoolExecutor(len(servers)) as threads:
            list(threads.map(reach, servers))
