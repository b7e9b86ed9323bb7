"""Tell how many rows the batches of a training have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import seams
from ..agreement.documents import Call
from ..data.pipelines import batch_step
from .epochs import training_epochs

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


def batch_size_of(model: keras.Model) -> int | None:
    """Return the rows of a batch of the call of ``fit`` that runs; None if that is not known.

    It is the batch of all workers, unless each of them has data of its own.
    """
    call = Call.of(model)
    epochs = call.epochs if call is not None and call.epochs is not None else training_epochs(model)
    if epochs is None:
        return None
    size = epochs.data_adapter.batch_size
    dataset = seams.ADAPTED_DATASET.of(epochs.data_adapter, None)
    return _of_pipeline(dataset) if size is None and dataset is not None else size


def _of_pipeline(dataset: tf.data.Dataset) -> int | None:
    import tensorflow as tf

    rows = {spec.shape[0] for spec in tf.nest.flatten(dataset.element_spec) if spec.shape.rank}
    if len(rows) == 1 and None not in rows:
        return int(rows.pop())
    step = batch_step(dataset)
    size = seams.BATCH_SIZE.of(step, None)
    size = seams.REBATCH_SIZES.of(step, None) if size is None else size
    known = None if size is None else tf.get_static_value(size)
    return int(known) if known is not None and known.ndim == 0 else None
