"""What a traced step may change: variables, on this worker's device; and what it does besides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import tensorflow as tf

from .. import seams
from ..agreement.values import attributes_of
from ..losses.metrics import every_metric

if TYPE_CHECKING:
    import keras

#: Operations that change no resource.
_READS: Final = {"LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2"}
#: Operations whose random numbers have a state of their own on each worker.
DRAWS_FROM_STATE: Final = {
    *("Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2", "RandomShuffle"),
    *("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal"),
    *("StatefulStandardNormalV2", "StatefulTruncatedNormal", "StatefulUniform", "StatefulUniformInt"),
    *("StatefulUniformFullInt", "StatefulRandomBinomial", "RngReadAndSkip"),
}


class Variables:
    """Variables of traced functions, by their handles."""

    def __init__(self) -> None:
        self.known: dict[int, tf.Variable] = {}

    def add(self, variables: Iterable[tf.Variable]) -> None:
        """Add variables, such as those of a traced function."""
        self.known |= {id(variable.handle): variable for variable in variables}

    def values(self) -> dict[int, tf.Tensor]:
        """Return the values that they have now."""
        return {key: variable.read_value() for key, variable in self.known.items()}

    def assign(self, values: Mapping[int, tf.Tensor]) -> None:
        """Give them values."""
        for key, value in values.items():
            self.known[key].assign(value, read_value=False)


def local(variables: Iterable[Any], strategy: tf.distribute.Strategy) -> list[tf.Variable]:
    """Return what this worker's device has of variables of Keras or TensorFlow."""
    values = [getattr(variable, "value", variable) for variable in variables]
    return [strategy.experimental_local_results(value)[0] for value in values]


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that a model has: those it is compiled with, and those that its code keeps."""
    import keras

    kept = [getattr(model, "optimizer", None), *attributes_of(model).values()]
    found = {id(one): one for one in _leaves(kept) if isinstance(one, keras.optimizers.Optimizer)}
    inner = [getattr(one, "inner_optimizer", None) for one in found.values()]
    return [*found.values(), *(one for one in inner if one is not None)]


def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        elif isinstance(value, dict):
            yield from _leaves(value.values())
        else:
            yield value


def optimized_by(optimizers: Iterable[keras.optimizers.Optimizer]) -> list[keras.Variable]:
    """Return what optimizers change: the weights that they train, and their own variables."""
    return [v for one in optimizers for v in (*one.variables, *seams.TRAINED_VARIABLES.of(one))]


def added_up(model: keras.Model) -> list[keras.Variable]:
    """Return the variables to which each worker adds what its rows have: of metrics, sums of gradients."""
    gradients = [v for one in optimizers_of(model) for v in seams.ACCUMULATED.of(one, None) or ()]
    return [*(v for one in every_metric(model) for v in seams.METRIC_VARIABLES.of(one)), *gradients]


def has_other_state(function: Any, variables: Variables) -> bool:
    """Return whether a traced function uses resources that it may change and that are not known variables.

    A collective operation has such a resource, too, by which TensorFlow orders them.
    """
    return any(
        operation.type not in _READS
        for outside, inside in function.graph.captures
        if outside.dtype == tf.resource and id(outside) not in variables.known
        for operation in inside.consumers()
    )


def operations_of(function: Any) -> set[str]:
    """Return the kinds of the operations of a traced function, and of those in it."""
    graph = function.graph.as_graph_def()
    inside = [node for one in graph.library.function for node in one.node_def]
    return {node.op for node in (*graph.node, *inside)}
