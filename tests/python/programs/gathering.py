"""Gather rows of many types from all workers, eagerly and in a graph, and compare them with what all have."""

import json
import os

import numpy as np
import tensorflow as tf

import tfmuster
from tfmuster.collectives import current_group
from tfmuster.keras_compat.sums.collectives import gather_rows

strategy = tfmuster.strategy("multi_worker_mirrored")
found = json.loads(os.environ["TF_CONFIG"])
workers, here = len(found["cluster"]["worker"]), found["task"]["index"]
TYPES = ("float64", "int64", "int32", "bool", "uint8", "int16", "float16", "bfloat16")
MORE = ("complex64", "complex128", "uint32")  # which TensorFlow's own collectives do not know


def rows_of(worker, type, rows):
    """A worker's rows: any bits, and so also NaN, infinity and -0."""
    bits = np.random.default_rng([worker, rows, len(type)]).integers(0, 2, (rows, 3), dtype=np.int64)
    if type == "float32":
        special = np.array([np.nan, -np.inf, -0.0, 1e-45, 0.1], "float32")
        return tf.constant(np.resize(np.roll(special, worker), (rows, 3)))
    return tf.cast(tf.constant(bits * (worker + 1)), type)


def same(one, other):
    """Whether two tensors are equal bit by bit."""
    return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()


types = ("float32", *TYPES, *(MORE if current_group() else ()))
in_a_graph = tf.function(lambda tensors: gather_rows(strategy, tensors), reduce_retracing=True)
# Some worker has no rows, and the numbers of rows differ.
for counts in (
    [2] * workers,
    [0, *range(1, workers)],
    [5] * (workers - 1) + [0],
    [700_000 // workers] * workers,
):
    for gather in (lambda tensors: gather_rows(strategy, tensors), in_a_graph):
        for gathered, type in zip(
            gather([rows_of(here, type, counts[here]) for type in types]), types, strict=True
        ):
            wanted = tf.concat([rows_of(worker, type, counts[worker]) for worker in range(workers)], axis=0)
            assert same(gathered, wanted), (counts, type)
            assert gathered.shape[1:] == (3,)
print("all equal", current_group() is not None, flush=True)
