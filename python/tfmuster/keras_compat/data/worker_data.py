"""Data that only one worker has: :func:`own_rows` marks them.

Other data sets hold the *global* batches, and every worker takes its part of each. Here a data set holds this
worker's parts: the global batch of a step is all workers' batches together.
"""

from __future__ import annotations

import functools
import types
import weakref
from typing import TYPE_CHECKING

from ...errors import DataError
from ...options.hints import Hint, Launch
from ...system.tensorflow_import import import_tensorflow
from ...words import Argument, Value, Words
from .. import seams
from ..process import multi_worker, require_tensorflow_backend

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from ..rows import Tensors

#: Name among the frameworks in a data set's options. Options stay when the data set is transformed.
_MARK = "tfmuster.own_rows"
_ATTRIBUTE = "tfmuster_own_rows"

_marked_generators: weakref.WeakSet[types.GeneratorType[object, object, object]] = weakref.WeakSet()


def own_rows(
    x: object,
    y: object = None,
    sample_weight: object = None,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tf.data.Dataset | keras.utils.PyDataset | types.GeneratorType[object, object, object]:
    """Mark data as this worker's own rows, which no other worker has.

    Use it if each worker reads its own part of the data: its own files, its own rows of a table, its own
    stream. Pass the result to ``fit``, ``evaluate``, or ``predict``, or as ``validation_data``. If all
    workers make the same data set, don't use it: ``fit`` then gives each worker its rows by itself.

    Workers can have different numbers of rows. A step trains on the batches of all workers together. A worker
    that has no more rows continues with empty steps until all workers are done, so every row counts exactly
    once in loss, gradients, and metrics. The weights equal those of one process on the combined batches.

    Parameters
    ----------
    x : tf.data.Dataset, keras.utils.PyDataset, Python generator, array, data frame, or a structure of arrays
        This worker's data. A data set, a PyDataset, and a generator yield batches of this worker.
    y, sample_weight : array or structure of arrays, optional
        Labels and weights, only for arrays.
    batch_size : int, optional
        Rows of this worker per step, only for arrays; default 32. The global batch is the sum over all
        workers.
    shuffle : bool
        Use a new order in each epoch, only for arrays. Keep the default for ``predict``.
    seed : int, optional
        Seed of the order, only with ``shuffle``.

    Returns
    -------
    tf.data.Dataset, keras.utils.PyDataset, or Python generator
        A data set for arrays, else ``x``, marked. In one process it trains like the unmarked data.

    Raises
    ------
    DataError
        An argument does not apply to ``x``, the lengths differ, or there is no batch (field ``reason``).
        Later, from ``fit``: a worker has several devices, or endless data although others end.
    StrategyError
        Keras has another backend than TensorFlow (reason ``backend``).

    Notes
    -----
    - ``fit`` and ``evaluate`` run as many steps as the worker with the most batches has; ``steps_per_epoch``
      counts steps of all workers together. With ``steps_per_epoch``, repeat the data, as in one process.
    - ``predict`` returns the predictions of this worker's rows, in their order.
    - A data set with the option ``AutoShardPolicy.OFF`` is read in the same way.
    - In a custom loop, ``strategy.experimental_distribute_dataset(own_rows(dataset))`` yields this worker's
      batches. Divide the loss by the rows of all workers.
    - BatchNormalization normalizes with the rows of all workers.

    Examples
    --------
    >>> files = sorted(folder.glob("*.tfrecord"))[worker::workers]  # doctest: +SKIP
    >>> data = tf.data.TFRecordDataset(files).map(parse).batch(64)  # doctest: +SKIP
    >>> model.fit(tfmuster.own_rows(data), epochs=3)  # doctest: +SKIP
    """
    require_tensorflow_backend(
        "own_rows()",
        Words(
            "make the distribution with {}: each worker's data set then has its own rows",
            Argument("auto_shard_dataset", False),
        ),
    )
    tf = import_tensorflow()
    _distribute_unchanged()
    if isinstance(x, tf.distribute.DistributedDataset):
        raise DataError(
            "own_rows takes a data set before it is distributed.",
            found=f"an object of class {type(x).__name__}",
            fix="strategy.experimental_distribute_dataset(own_rows(dataset))",
            reason="own-rows",
        )
    py_dataset = callable(getattr(x, "__getitem__", None)) and hasattr(x, "on_epoch_end")
    if isinstance(x, (tf.data.Dataset, types.GeneratorType)) or py_dataset:
        arguments = {"y": y, "sample_weight": sample_weight, "batch_size": batch_size}
        arguments |= {"shuffle": shuffle or None, "seed": seed}
        if wrong := [name for name, value in arguments.items() if value is not None]:
            raise DataError(
                f"own_rows takes {', '.join(wrong)} only with arrays.",
                found=f"x is a {type(x).__name__}, which yields batches with labels and weights",
                fix="leave it out",
                reason="own-rows",
            )
    if isinstance(x, tf.data.Dataset):
        return _marked(x)
    if isinstance(x, types.GeneratorType):
        _marked_generators.add(x)
        return x
    if py_dataset:
        setattr(x, _ATTRIBUTE, True)
        return x
    dataset = _of_arrays(x, y, sample_weight)
    if shuffle:
        dataset = dataset.shuffle(int(dataset.cardinality()), seed=seed, reshuffle_each_iteration=True)
    batch_size = 32 if batch_size is None else batch_size
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise DataError(
            "batch_size must be a whole number of rows per worker, at least 1.",
            found=str(Value(batch_size)),
            reason="batch-size",
        )
    return _marked(dataset.batch(int(batch_size)))


def only_this_worker_has(data: object) -> bool:
    """Return whether data that were given to ``fit`` are the worker's own rows."""
    import tensorflow as tf

    if isinstance(data, tf.data.Dataset):
        policy = data.options().experimental_distribute.auto_shard_policy
        return bool(policy == tf.data.experimental.AutoShardPolicy.OFF)
    if isinstance(data, types.GeneratorType):
        return data in _marked_generators
    return bool(getattr(data, _ATTRIBUTE, False)) or _from_function(data) is not None


def undistributed(data: object) -> object:
    """Return the data set from which a strategy has made distributed data; other data as they are.

    TensorFlow weighs each worker's part of a batch alike, however many rows it has.
    """
    import tensorflow as tf

    if (own := _from_function(data)) is not None:
        return _marked(own)
    if not isinstance(data, seams.DISTRIBUTED_DATASET.get()):
        return data
    made = seams.ORIGINAL_DATASET.of(data, None)
    # With OFF, TensorFlow divides the batches of a data set that may be each worker's own.
    return made if isinstance(made, tf.data.Dataset) and not only_this_worker_has(made) else data


def _from_function(data: object) -> tf.data.Dataset | None:
    if type(data).__name__ != "DistributedDatasetsFromFunction":
        return None
    # Several devices share the worker's data set, which TensorFlow's iterator splits among them.
    devices = seams.FUNCTION_STRATEGY.of(data).extended.worker_devices
    return seams.FUNCTION_DATASETS.of(data)[0] if len(devices) == 1 else None


def _marked(dataset: tf.data.Dataset) -> tf.data.Dataset:
    import tensorflow as tf

    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    options.framework_type = [_MARK]
    return dataset.with_options(options)


@functools.cache
def _distribute_unchanged() -> None:
    """Let ``experimental_distribute_dataset`` yield the batches of a marked data set as they are.

    TensorFlow takes every batch for a global one and would divide it by the number of replicas.
    """
    import tensorflow as tf

    stock = seams.EXPERIMENTAL_DISTRIBUTE.get()

    @functools.wraps(stock)
    def experimental_distribute_dataset(
        self: tf.distribute.Strategy,
        dataset: tf.data.Dataset,
        options: tf.distribute.InputOptions | None = None,
    ) -> tf.distribute.DistributedDataset:
        marked = isinstance(dataset, tf.data.Dataset) and _MARK in (dataset.options().framework_type or ())
        if not marked or not multi_worker(self):
            return stock(self, dataset, options)
        refuse_several_devices(self)
        return self.distribute_datasets_from_function(lambda _: dataset, options)

    seams.EXPERIMENTAL_DISTRIBUTE.replace(experimental_distribute_dataset)


def refuse_several_devices(strategy: tf.distribute.Strategy) -> None:
    """Raise DataError (reason ``own-rows``) if this worker has several devices."""
    if (devices := len(strategy.extended.worker_devices)) > 1:
        raise DataError(
            "A worker's own rows train on one device per worker.",
            found=f"{devices} devices in this process",
            fix=Words("start one worker per GPU: {}", Launch((Hint("gpus_per_worker", 1),))),
            reason="own-rows",
        )


def _of_arrays(x: object, y: object, sample_weight: object) -> tf.data.Dataset:
    """Return a data set of single rows."""
    import keras
    import numpy as np
    import tensorflow as tf

    def as_tensor(value: object) -> tf.Tensor:
        value = value.to_numpy() if hasattr(value, "to_numpy") else value
        tensor = value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(np.asarray(value))
        # As `fit` does with arrays.
        return tf.cast(tensor, keras.config.floatx()) if tensor.dtype.is_floating else tensor

    def converted(value: object) -> Tensors:
        # A data frame is one table, although it behaves like a mapping.
        if isinstance(value, dict):
            return {name: converted(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)) and any(hasattr(part, "shape") for part in value):
            return tuple(map(converted, value))
        return as_tensor(value)

    parts = tuple(converted(part) for part in (x, y, sample_weight) if part is not None)
    rows = {int(tensor.shape[0]) if tensor.shape.rank else 0 for tensor in tf.nest.flatten(parts)}
    if len(rows) != 1:
        raise DataError(
            "Data, labels, and weights must have the same number of rows.",
            found=", ".join(str(count) for count in sorted(rows)),
            reason="lengths-differ",
        )
    # Without labels a tuple of inputs would be taken for inputs, labels, and weights.
    single = len(parts) == 1 and not isinstance(parts[0], tuple)
    return tf.data.Dataset.from_tensor_slices(parts[0] if single else parts)
