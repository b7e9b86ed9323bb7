"""Which worker this process is, and what the workers have to agree on."""

from __future__ import annotations

import os
from typing import Any


def tensorflow_started() -> bool:
    """Whether TensorFlow's runtime has been set up, after which it can't join a cluster."""
    from tensorflow.python.eager import context

    return bool(context.context()._initialized)


def multi_worker(strategy: Any) -> bool:
    """Whether ``strategy`` is an MWMS that was made from a cluster."""
    import tensorflow as tf

    return (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and strategy.extended._in_multi_worker_mode()
    )


def is_chief(strategy: Any) -> bool:
    """Whether this process is the one that prints results and writes files under ``strategy``."""
    # Asking what a strategy is imports TensorFlow, which None and others need not have loaded.
    if type(strategy).__module__.partition(".")[0] != "tensorflow" or not multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not chief and resolver.task_id == 0))


def worker_of(strategy: Any) -> tuple[int, int]:
    """(index of this worker among the training tasks, number of them)."""
    context = strategy.extended._make_input_context()
    return context.input_pipeline_id, context.num_input_pipelines


def agree_on_seed(strategy: Any) -> None:
    """Give all workers one global TensorFlow seed, drawn by the chief, unless the user has set one.

    Unseeded shuffling would otherwise differ between workers, whose parts of a global batch would then
    overlap.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    if context.global_seed() is None:
        drawn = tf.cast(int.from_bytes(os.urandom(3), "big") if is_chief(strategy) else 0, tf.int32)
        tf.random.set_seed(int(strategy.reduce("SUM", drawn, axis=None)))
