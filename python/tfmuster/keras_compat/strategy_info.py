"""Query which worker this process is."""

from __future__ import annotations

from typing import Any

from ..environment import full_workers
from . import seams
from .jax_processes import jax_process_index

_made: list[Any] = []


def note_strategy(strategy: Any) -> None:
    """Remember the strategy that connects this process to others. TensorFlow allows only one."""
    _made[:] = [strategy]


def made_strategy() -> Any:
    """Return the strategy that connects this process to others; None if there is none yet."""
    return _made[0] if _made else None


def multi_worker(strategy: Any) -> bool:
    """Return whether ``strategy`` is a MultiWorkerMirroredStrategy with a cluster."""
    # The classes of TensorFlow 2 and of compat.v1 have only this part in common.
    extended = getattr(strategy, "extended", None)
    return isinstance(extended, seams.COLLECTIVE.get()) and seams.IN_MULTI_WORKER_MODE.of(extended)()


def in_multi_worker_strategy(model: Any) -> bool:
    """Return whether a Keras model trains under such a strategy."""
    return multi_worker(seams.MODEL_STRATEGY.of(model, None))


def is_chief(strategy: Any) -> bool:
    """Return whether this process prints results and writes files under ``strategy``, or on JAX."""
    if (index := jax_process_index()) is not None:
        return index == 0
    # Don't import TensorFlow for None or another object: it may not be loaded.
    if type(strategy).__module__.partition(".")[0] != "tensorflow" or not multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not chief and resolver.task_id == 0))


def batches_in_step(strategy: Any) -> int:
    """Return how many replicas' batches a step has: of all, and if hosts are lost, of as many as before."""
    workers = worker_of(strategy)[1] if multi_worker(strategy) else 1
    return int(strategy.num_replicas_in_sync) // workers * full_workers(workers)


def worker_of(strategy: Any) -> tuple[int, int]:
    """Return this worker's index among the training tasks, and their number."""
    context = seams.MAKE_INPUT_CONTEXT.of(strategy.extended)()
    return context.input_pipeline_id, context.num_input_pipelines
