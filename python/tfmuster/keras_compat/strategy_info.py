"""Query which worker this process is, and make the workers share a seed."""

from __future__ import annotations

import os
from typing import Any


def tensorflow_started() -> bool:
    """Return whether TensorFlow's runtime has started; after that it can't join a cluster."""
    from tensorflow.python.eager import context

    return bool(context.context()._initialized)


def multi_worker(strategy: Any) -> bool:
    """Return whether ``strategy`` is a MultiWorkerMirroredStrategy with a cluster."""
    import tensorflow as tf

    return (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and strategy.extended._in_multi_worker_mode()
    )


def is_chief(strategy: Any) -> bool:
    """Return whether this process prints results and writes files under ``strategy``."""
    # Don't import TensorFlow for None or another object: it may not be loaded.
    if type(strategy).__module__.partition(".")[0] != "tensorflow" or not multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not chief and resolver.task_id == 0))


def worker_of(strategy: Any) -> tuple[int, int]:
    """Return this worker's index among the training tasks, and their number."""
    context = strategy.extended._make_input_context()
    return context.input_pipeline_id, context.num_input_pipelines


def agree_on_seed(strategy: Any) -> None:
    """Set the same global TensorFlow seed on all workers, drawn by the chief, unless the user has set one.

    Otherwise unseeded shuffling would differ between workers, and their parts of a global batch would
    overlap.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    if context.global_seed() is None:
        drawn = tf.cast(int.from_bytes(os.urandom(3), "big") if is_chief(strategy) else 0, tf.int32)
        tf.random.set_seed(int(strategy.reduce("SUM", drawn, axis=None)))
