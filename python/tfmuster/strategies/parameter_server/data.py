"""Make each worker's data set, on that worker, from the function or pipeline that the user passes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...errors import DataError
from ...keras_compat.rows import attached_pipeline
from ...words import Code, Words


def worker_datasets(dataset_fn: Any, workers: int, *, together: bool, done: int = 0) -> list[Any]:
    """Trace one function per worker that makes the worker's data set when called on the worker.

    Parameters
    ----------
    dataset_fn : callable or tf.data.Dataset
        A function of a ``tf.distribute.InputContext``, or a data set from
        :func:`~tfmuster.training.batches.batches`.
    workers : int
        Number of workers.
    together : bool
        Whether the workers' batches of a step form one global batch (synchronous updates).
    done : int
        Number of steps of all workers that were trained before; their data is skipped.

    Returns
    -------
    list of tf.function
        One concrete function per worker.

    Raises
    ------
    DataError
        ``dataset_fn`` is neither a function nor such a data set, or returns something else than a data set.
    """
    import tensorflow as tf

    passed = done if together else -(-done // workers)
    made = []
    for worker in range(workers):
        if (pipeline := attached_pipeline(dataset_fn)) is not None:
            make = _of_pipeline(pipeline, worker, workers, together, passed)
        elif callable(dataset_fn):
            make = _of_function(dataset_fn, worker, workers, passed)
        else:
            raise _not_a_function(type(dataset_fn).__name__)
        with warnings.catch_warnings():
            # Ignore a warning about options that are read early: they do not change afterwards.
            warnings.filterwarnings("ignore", "To make it possible to preserve tf.data options")
            made.append(tf.function(make, autograph=False).get_concrete_function())
    return made


def _of_function(
    dataset_fn: Callable[[Any], Any], worker: int, workers: int, passed: int
) -> Callable[[], Any]:
    import tensorflow as tf

    context = tf.distribute.InputContext(
        num_input_pipelines=workers, input_pipeline_id=worker, num_replicas_in_sync=workers
    )

    def make() -> Any:
        dataset = dataset_fn(context)
        if not isinstance(dataset, tf.data.Dataset):
            raise _not_a_function(f"a function that returns {type(dataset).__name__}")
        dataset = dataset.repeat()
        return dataset.skip(passed) if passed else dataset

    return make


def _of_pipeline(
    pipeline: Callable[..., Any], worker: int, workers: int, together: bool, passed: int
) -> Callable[[], Any]:
    def make() -> Any:
        if together:
            return pipeline(worker, workers, skip=passed)
        return pipeline(every=(worker, workers), skip=passed)

    return make


def _not_a_function(found: str) -> DataError:
    return DataError(
        "dataset_fn must be a function that returns a tf.data.Dataset, because each worker makes its own.",
        found=found,
        fix=Words(
            "{} of {}; or a data set from {}",
            Code(
                "dataset_fn=lambda context: ..., with context.input_pipeline_id",
                "dataset_fn = function(context) ..., with context$input_pipeline_id",
            ),
            Code("context.num_input_pipelines", "context$num_input_pipelines"),
            Code("tfmuster.batches()", "batches()"),
        ),
        path=None,
        reason="dataset-fn",
    )
