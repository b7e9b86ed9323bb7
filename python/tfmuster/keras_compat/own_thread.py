"""Run the step of a mirrored strategy in the caller's thread if this process has one replica.

TensorFlow traces each replica in a thread of its own, even a single one. R functions can be called only in
R's thread, so a layer, loss, or metric that is written in R fails there. With one replica in this process
there is nothing to interleave, and the thread of the caller does the same.
"""

from __future__ import annotations

import functools
from typing import Any


def patch_run() -> None:
    """Replace what ``strategy.run`` does with one device; calling this again does nothing."""
    from tensorflow.python import pywrap_tfe
    from tensorflow.python.distribute import mirrored_run

    stock = mirrored_run._call_for_each_replica
    if hasattr(stock, "__wrapped__"):
        return
    replica = _context_class()

    @functools.wraps(stock)
    def call_for_each_replica(strategy: Any, fn: Any, args: Any, kwargs: Any) -> Any:
        # A gradient tape belongs to one thread, so a tape around `strategy.run` records nothing. In this
        # thread it would record the gradients of this worker's rows only.
        taped = pywrap_tfe.TFE_Py_TapeSetIsStopped() or not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
        if taped or len(strategy.extended.worker_devices) != 1:
            return stock(strategy, fn, args, kwargs)
        with replica(strategy) as context:
            return context.run(fn, args, kwargs)

    mirrored_run._call_for_each_replica = call_for_each_replica


def _context_class() -> Any:
    """Return a replica context whose ``merge_call`` needs no second thread."""
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_lib, distribute_utils

    class OnlyReplica(distribute_lib.ReplicaContext):  # type: ignore[misc]
        def __init__(self, strategy: Any) -> None:
            super().__init__(strategy, strategy.extended._get_replica_id_in_sync_group(0))

        def __enter__(self) -> Any:
            super().__enter__()
            return self

        def run(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (distribute_utils.select_replica(0, each) for each in (args, kwargs))
            with tf.device(self._strategy.extended.worker_devices[0]):
                return distribute_utils.regroup((fn(*args, **kwargs),))

        def _merge_call(self, fn: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = (distribute_utils.regroup((each,)) for each in (args, kwargs))
            return distribute_utils.select_replica(0, super()._merge_call(fn, args, kwargs))

    return OnlyReplica
