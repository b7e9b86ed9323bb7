"""The steps of a ``tf.data`` pipeline, by TensorFlow's private classes, and what their functions do.

Its graph tells whether a function given to ``Dataset.map`` may run on some rows only. With the policy
``FILE``, TensorFlow divides the files of a data set, if it can.

A shuffle draws the order of each pass from a seed generator inside TensorFlow. A second shuffle with the same
seed gives the same orders only if nobody has read the first one before. If both have the same generator, they
give the same orders in every case, also without a seed. So the generator of every shuffle is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...errors import DataError
from .. import seams

if TYPE_CHECKING:
    import tensorflow as tf

    from ..rows import Tensors

_SEEDS = "_tfmuster_seed_generator"
_COMPARED = "_tfmuster_compared"


class StaysError(Exception):
    """The pipeline has a step for which all rows are needed; the text says which."""


PLAIN: dict[str, Callable[[tf.data.Dataset, tf.data.Dataset], tf.data.Dataset]] = {
    "Repeat": lambda dataset, like: dataset.repeat(seams.REPEAT_COUNT.of(like)),
    "Take": lambda dataset, like: dataset.take(seams.REPEAT_COUNT.of(like)),
    "Skip": lambda dataset, like: dataset.skip(seams.REPEAT_COUNT.of(like)),
    "Shard": lambda dataset, like: dataset.shard(seams.NUM_SHARDS.of(like), seams.SHARD_INDEX.of(like)),
}


def kind_of(dataset: tf.data.Dataset) -> str:
    """Return the kind of step, such as ``Batch``, by TensorFlow's private class."""
    kind = type(dataset)
    if not kind.__module__.startswith(f"{seams.DATA_PACKAGE.get().__name__}."):
        return ""
    return kind.__name__.removeprefix("_").removesuffix("V2").removesuffix("Dataset")


#: Steps of a data set that keep its batches.
_KEEP_BATCHES = ("Prefetch", "Map", "ParallelMap", "Options", "Repeat", "Cache")


def batch_step(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return the step that makes the batches of a data set, or else the last one that may change them."""
    while seams.BATCH_SIZE.of(dataset, None) is None and kind_of(dataset) in _KEEP_BATCHES:
        (dataset,) = seams.INPUTS.of(dataset)()
    return dataset


def name_of(dataset: tf.data.Dataset) -> str:
    """Return what to call a step in a message."""
    kind = type(dataset).__name__.removeprefix("_")
    return f"a {kind}" if kind.endswith(("Dataset", "DatasetV2")) else f"a {kind} data set"


def dense(dataset: tf.data.Dataset) -> bool:
    """Return whether all parts of an element are ordinary tensors."""
    import tensorflow as tf

    return all(isinstance(spec, tf.TensorSpec) for spec in seams.NEST.get().flatten(dataset.element_spec))


def call_of(dataset: tf.data.Dataset) -> Callable[[Tensors], Tensors]:
    """Return the function of a `map`, as it was traced."""
    structure = seams.STRUCTURE.get()
    wrapped, spec = seams.MAP_FUNCTION.of(dataset), seams.INPUTS.of(dataset)()[0].element_spec

    def apply(element: Tensors) -> Tensors:
        flat = wrapped.function(*structure.to_tensor_list(spec, element))
        return structure.from_compatible_tensor_list(wrapped.output_structure, list(flat))

    return apply


#: Operations that TensorFlow calls stateful, but which give the same result in any order.
_HARMLESS = {
    *("Assert", "LookupTableFindV2", "LookupTableSizeV2", "ReadVariableOp", "ResourceGather", "VarHandleOp"),
    *("StatefulPartitionedCall", "If", "While", "Case"),
}

#: Operations whose result for a row depends on that row only, and not on its place in the batch. Functions
#: such as `exp` are not among them: on a CPU their last digit depends on the place in the batch.
_UNARY = {
    *("Abs", "Cast", "Ceil", "Floor", "Identity", "IsFinite", "IsNan", "LogicalNot", "Neg", "OnesLike"),
    *("Relu", "Round", "Sign", "Square", "ZerosLike"),
}
_BINARY = {
    *("Add", "AddV2", "Div", "Equal", "FloorDiv", "FloorMod", "Greater", "GreaterEqual", "Less", "LessEqual"),
    *("LogicalAnd", "LogicalOr", "Maximum", "Minimum", "Mul", "NotEqual", "RealDiv", "SquaredDifference"),
    *("SelectV2", "Sub"),
}


def impure_operation(function: tf.types.experimental.ConcreteFunction) -> str | None:
    """Return an operation that draws random numbers, keeps state, or runs Python; None if there is none.

    Without one, the function gives the same result for a row whenever and wherever it runs.
    """
    for operation, stateful in operations_of(function.graph):
        if stateful and operation not in _HARMLESS:
            return operation
    return None


def compared_of(dataset: tf.data.Dataset) -> Callable[[Tensors], Tensors]:
    """Return a function of a batch of a data set: what must be equal on all workers that read it.

    Labels and sample weights tell another order, too, and take less time than inputs. Inputs that Python code
    makes may have random numbers that depend on its threads. What TensorFlow draws may differ between
    workers: an augmented row is still trained on once.
    """
    kept: Callable[[Tensors], Tensors] | None = dataset.__dict__.get(_COMPARED)
    if kept is None:
        kept = dataset.__dict__[_COMPARED] = _compared_of(dataset)
    return kept


def _compared_of(dataset: tf.data.Dataset) -> Callable[[Tensors], Tensors]:
    waiting, names = [dataset], set()
    while waiting:
        step = waiting.pop()
        waiting += seams.INPUTS.of(step)()
        for wrapper in seams.FUNCTIONS.of(step)():
            names |= {name for name, stateful in operations_of(wrapper.function.graph) if stateful}
    if any("Random" in name for name in names):
        return _nothing
    return _labels if any("PyFunc" in name for name in names) else _labels_or_rows


def _nothing(batch: Tensors) -> Tensors:
    return ()


def _labels(batch: Tensors) -> Tensors:
    return batch[1:] if isinstance(batch, tuple) else ()


def _labels_or_rows(batch: Tensors) -> Tensors:
    return _labels(batch) or batch


def operations_of(graph: tf.Graph) -> Iterator[tuple[str, bool]]:
    """Yield the operations of a graph and of the functions that it calls, and whether each is stateful."""
    definitions = seams.OP_DEFINITIONS.get()
    definition = graph.as_graph_def()
    functions = definition.library.function
    for node in (*definition.node, *(node for function in functions for node in function.node_def)):
        operation = definitions.get(node.op)
        yield node.op, operation is not None and operation.is_stateful


def keeps_rows_apart(function: tf.types.experimental.ConcreteFunction) -> bool:
    """Return whether each row of the results is known to depend on the same row of the batch only."""
    graph = function.graph
    captured = {id(tensor) for tensor in graph.internal_captures}
    rows = {id(tensor) for tensor in graph.inputs if id(tensor) not in captured}
    inputs = [tensor for tensor in graph.inputs if id(tensor) in rows]
    if any(not tensor.shape.rank or tensor.shape[0] is not None for tensor in inputs):
        return False
    for operation in graph.get_operations():
        of_rows = [id(tensor) in rows for tensor in operation.inputs]
        if not any(of_rows) or operation.type == "Placeholder":
            continue
        if not _row_by_row(operation, of_rows):
            return False
        rows.update(id(tensor) for tensor in operation.outputs)
    return all(id(tensor) in rows for tensor in graph.outputs)


def _row_by_row(operation: tf.Operation, of_rows: list[bool]) -> bool:
    """Return whether the results have a row for each row of the inputs marked by ``of_rows``."""
    import tensorflow as tf

    inputs, name = list(operation.inputs), operation.type
    ranks = [tensor.shape.rank for tensor in inputs]
    if None in ranks:
        return False
    if name in _UNARY:
        return True
    if name in _BINARY:
        rank = max(ranks)
        return all(
            ranks[i] == rank if row else ranks[i] < rank or inputs[i].shape[0] == 1
            for i, row in enumerate(of_rows)
        )
    if name == "OneHot":
        return of_rows == [True, False, False, False] and operation.get_attr("axis") in (-1, ranks[0])
    if name == "ExpandDims":
        place = tf.get_static_value(inputs[1])
        return of_rows == [True, False] and place is not None and (place > 0 or place == -1)
    if name == "GatherV2":
        axis = tf.get_static_value(inputs[2])
        return of_rows == [False, True, False] and axis == 0 and operation.get_attr("batch_dims") == 0
    return False


#: TensorFlow divides the inputs of these readers.
_READERS = ("RecordDataset", "RecordDatasetV2", "TextLineDataset", "TextLineDatasetV2")


def shard_files(
    dataset: tf.data.Dataset, strategy: tf.distribute.Strategy
) -> tf.distribute.DistributedDataset:
    """Return the data set as TensorFlow distributes it by files.

    Raises DataError if it reads no files that TensorFlow could divide, or fewer files than workers.
    """
    import tensorflow as tf

    if not _reads_files(dataset):
        raise DataError(
            "AutoShardPolicy.FILE needs a data set that reads TFRecord, text, or fixed-length record files.",
            found="a data set without such a reader",
            fix="leave the option out, so that the workers share the rows of each batch, or use "
            "tfmuster.file_batches() to share files",
            reason="file-shard",
        )
    try:
        return strategy.experimental_distribute_dataset(dataset)
    except (tf.errors.OpError, ValueError) as error:
        raise DataError(
            "AutoShardPolicy.FILE needs at least one file for each worker.",
            found=str(error).splitlines()[0][:200],
            fix="leave the option out, or use tfmuster.file_batches(), which takes any number of files",
            reason="file-shard",
        ) from error


def _reads_files(dataset: tf.data.Dataset) -> bool:
    kind = type(dataset).__name__
    if kind.endswith(_READERS):
        return True
    graphs = [wrapper.function.graph for wrapper in seams.FUNCTIONS.of(dataset)()]
    if any(name.endswith(_READERS) for graph in graphs for name, _ in operations_of(graph)):
        return True
    return any(map(_reads_files, seams.INPUTS.of(dataset)()))


class _Operations:
    """TensorFlow's operations of data sets, with a shuffle whose seed generator can be shared."""

    def __init__(self, operations: ModuleType) -> None:
        self._operations = operations

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operations, name)

    def shuffle_dataset_v3(self, input_dataset: tf.Tensor, **arguments: object) -> tf.Tensor:
        """Make the shuffle, with a generator of its own in place of one that TensorFlow hides."""
        if not seams.EXECUTING_EAGERLY.get()():
            return self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        generator = self._operations.anonymous_seed_generator(
            arguments["seed"], arguments["seed2"], arguments["reshuffle_each_iteration"]
        )
        arguments["seed_generator"] = generator.handle
        variant = self._operations.shuffle_dataset_v3(input_dataset, **arguments)
        # TensorFlow deletes the generator together with its `deleter`.
        setattr(variant, _SEEDS, generator)
        return variant


def patch_shuffle() -> None:
    """Make shuffles from now on keep their generators. You can call it more than once."""
    if not seams.SHUFFLE_OPERATIONS.replaced:
        seams.SHUFFLE_OPERATIONS.replace(_Operations(seams.SHUFFLE_OPERATIONS.get()))


def shuffled_alike(dataset: tf.data.Dataset, shuffled: tf.data.Dataset) -> tf.data.Dataset:
    """Shuffle with the buffer, seeds, and generator of ``shuffled``. Raises StaysError if it kept none."""
    seeds = getattr(seams.VARIANT.of(shuffled), _SEEDS, None)
    if seeds is None:
        raise StaysError("the data set was shuffled before Keras was imported")
    variant = seams.SHUFFLE_DATASET.get()(
        seams.VARIANT.of(dataset),
        buffer_size=seams.BUFFER_SIZE.of(shuffled),
        seed=seams.SHUFFLE_SEED.of(shuffled),
        seed2=seams.SHUFFLE_SEED2.of(shuffled),
        seed_generator=seeds.handle,
        reshuffle_each_iteration=bool(seams.RESHUFFLES.of(shuffled)),
        metadata=seams.METADATA.of(shuffled).SerializeToString(),
        **seams.FLAT_STRUCTURE.of(dataset),
    )
    alike = seams.VARIANT_DATASET.get()(variant, dataset.element_spec)
    alike._tfmuster_keeps = (dataset, seeds)
    return alike
