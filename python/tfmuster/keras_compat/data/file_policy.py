"""Let TensorFlow divide the files of a data set among workers, or say why it can't (policy ``FILE``)."""

from __future__ import annotations

from typing import Any

from ...errors import DataError
from .. import seams
from .pipelines import operations_of

#: TensorFlow divides the inputs of these readers.
_READERS = ("RecordDataset", "RecordDatasetV2", "TextLineDataset", "TextLineDatasetV2")


def shard_files(dataset: Any, strategy: Any) -> Any:
    """Return the data set as TensorFlow distributes it by files.

    Raises
    ------
    DataError
        The data set reads no files that TensorFlow could divide, or fewer files than workers.
    """
    import tensorflow as tf

    if not _reads_files(dataset):
        raise DataError(
            "AutoShardPolicy.FILE needs a data set that reads TFRecord, text, or fixed-length record files.",
            found="a data set without such a reader",
            fix="leave the option out, so that the workers share the rows of each batch, or use "
            "tfmuster.file_batches() to share files",
            path=None,
            reason="file-shard",
        )
    try:
        return strategy.experimental_distribute_dataset(dataset)
    except (tf.errors.OpError, ValueError) as error:
        raise DataError(
            "AutoShardPolicy.FILE needs at least one file for each worker.",
            found=str(error).splitlines()[0][:200],
            fix="leave the option out, or use tfmuster.file_batches(), which takes any number of files",
            path=None,
            reason="file-shard",
        ) from error


def _reads_files(dataset: Any) -> bool:
    kind = type(dataset).__name__
    if kind.endswith(_READERS):
        return True
    graphs = [wrapper.function.graph for wrapper in seams.FUNCTIONS.of(dataset)()]
    if any(name.endswith(_READERS) for graph in graphs for name, _ in operations_of(graph)):
        return True
    return any(_reads_files(each) for each in seams.INPUTS.of(dataset)())
