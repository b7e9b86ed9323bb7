"""Run the step of a mirrored strategy in the caller's thread if this process has one replica.

TensorFlow traces each replica in a thread of its own, even a single one. R functions can be called only in
R's thread, so a layer, loss, or metric that is written in R fails there. With one replica in this process
there is nothing to interleave, and the thread of the caller does the same.
"""

from __future__ import annotations

import functools
from typing import Any

from .. import seams


def patch_run() -> None:
    """Replace what ``strategy.run`` does with one device; calling this again does nothing."""
    stock = seams.CALL_REPLICAS.get()
    if seams.CALL_REPLICAS.replaced:
        return
    replica = _context_class()
    stopped, empty = seams.TAPE_STOPPED.get(), seams.TAPE_EMPTY.get()

    @functools.wraps(stock)
    def call_for_each_replica(strategy: Any, fn: Any, args: Any, kwargs: Any) -> Any:
        # A gradient tape belongs to one thread, so a tape around `strategy.run` records nothing. In this
        # thread it would record the gradients of this worker's rows only.
        taped = stopped() or not empty()
        if taped or len(strategy.extended.worker_devices) != 1:
            return stock(strategy, fn, args, kwargs)
        with replica(strategy) as context:
            return context.run(fn, args, kwargs)

    seams.CALL_REPLICAS.replace(call_for_each_replica)


def _context_class() -> Any:
    """Return a replica context whose ``merge_call`` needs no second thread."""
    import tensorflow as tf

    select_replica, regroup = seams.SELECT_REPLICA.get(), seams.REGROUP.get()

    class OnlyReplica(seams.REPLICA_CONTEXT.get()):  # type: ignore[misc]
        def __init__(self, strategy: Any) -> None:
            super().__init__(strategy, seams.REPLICA_ID.of(strategy.extended)(0))

        def __enter__(self) -> Any:
            super().__enter__()
            return self

        def run(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (select_replica(0, each) for each in (args, kwargs))
            with tf.device(self.strategy.extended.worker_devices[0]):
                return regroup((fn(*args, **kwargs),))

        def _merge_call(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (regroup((each,)) for each in (args, kwargs))
            return select_replica(0, seams.MERGE_CALL.of(super())(fn, args, kwargs))

    return OnlyReplica
