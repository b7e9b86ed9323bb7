"""Find out from its graph whether a function given to ``Dataset.map`` may run on some rows only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import seams

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


def impure_operation(function: Any) -> str | None:
    """Return an operation that draws random numbers, keeps state, or runs Python; None if there is none.

    Without one, the function gives the same result for a row whenever and wherever it runs.
    """
    for operation, stateful in operations_of(function.graph):
        if stateful and operation not in _HARMLESS:
            return operation
    return None


def operations_of(graph: Any) -> Iterator[tuple[str, bool]]:
    """Yield the operations of a graph and of the functions that it calls, and whether each is stateful."""
    definitions = seams.OP_DEFINITIONS.get()
    definition = graph.as_graph_def()
    functions = definition.library.function
    for node in (*definition.node, *(node for each in functions for node in each.node_def)):
        known = definitions.get(node.op)
        yield node.op, known is not None and known.is_stateful


def keeps_rows_apart(function: Any) -> bool:
    """Return whether a function of a batch computes each row of its results from the same row of the batch.

    Only functions of a few exact operations are recognized.
    """
    graph = function.graph
    captured = {id(tensor) for tensor in graph.internal_captures}
    rows = {id(tensor) for tensor in graph.inputs if id(tensor) not in captured}
    if any(_leading(tensor) != (True, None) for tensor in graph.inputs if id(tensor) in rows):
        return False
    for operation in graph.get_operations():
        of_rows = [id(tensor) in rows for tensor in operation.inputs]
        if not any(of_rows) or operation.type == "Placeholder":
            continue
        if not _row_by_row(operation, of_rows):
            return False
        rows.update(id(tensor) for tensor in operation.outputs)
    return all(id(tensor) in rows for tensor in graph.outputs)


def _leading(tensor: Any) -> tuple[bool, int | None]:
    """Return whether the tensor has a known rank of at least 1, and the size of its first dimension."""
    rank = tensor.shape.rank
    return bool(rank), tensor.shape[0] if rank else None


def _row_by_row(operation: Any, of_rows: list[bool]) -> bool:
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
