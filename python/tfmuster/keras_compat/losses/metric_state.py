"""Read and restore the values of metrics in the middle of an epoch, each worker its own.

A metric keeps a sum for each worker, and TensorFlow reads it as the sum over the workers. If every worker
continued with its share of that sum, the last bit of a logged value would depend on where a training was
interrupted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..process import multi_worker, worker_of
from ..sums.collectives import sum_of_workers


def read_metrics(variables: list[Any], strategy: Any) -> list[Any]:
    """Return the values of metrics' variables, each with a first axis of workers.

    With several workers, all of them must call it. One process, and workers with several devices, have one
    row: what TensorFlow reads.
    """
    if not variables or not _one_device_each(strategy):
        return [np.asarray(variable.numpy())[np.newaxis] for variable in variables]
    own = [np.asarray(_local(variable, strategy).numpy()) for variable in variables]
    worker, workers = worker_of(strategy)
    content = b"".join(value.tobytes() for value in own)
    # Adding zeros to integers keeps every bit, which adding floats would not.
    words = np.zeros((workers, -(-len(content) // 4)), np.int32)
    words[worker].view(np.uint8)[: len(content)] = np.frombuffer(content, np.uint8)
    rows = sum_of_workers(strategy, words).numpy().view(np.uint8)
    values, begin = [], 0
    for value in own:
        part = np.ascontiguousarray(rows[:, begin : begin + value.nbytes])
        values.append(part.view(value.dtype).reshape(workers, *value.shape))
        begin += value.nbytes
    return values


def restore_metrics(variables: list[Any], values: list[Any], strategy: Any) -> None:
    """Set metrics' variables to what `read_metrics` has returned, maybe for another number of workers."""
    for variable, value in zip(variables, values, strict=True):
        if _one_device_each(strategy) and len(value) == worker_of(strategy)[1]:
            _local(variable, strategy).assign(value[worker_of(strategy)[0]])
        else:
            variable.assign(value.sum(axis=0, dtype=value.dtype))


def _one_device_each(strategy: Any) -> bool:
    return multi_worker(strategy) and len(strategy.extended.worker_devices) == 1


def _local(variable: Any, strategy: Any) -> Any:
    """Return the part of a distributed variable that is on this worker's device."""
    return strategy.experimental_local_results(variable.value)[0]
