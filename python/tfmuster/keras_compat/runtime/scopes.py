"""Train a model with the strategy of its weights, if the model itself was made outside of the scope.

Keras remembers a strategy only if the model object is made in its scope. A model that gets its layers in the
scope, but is made before, would train alone, or fail with a text about its variables. An optimizer that is
made outside and given to ``compile`` fails, and a metric counts one worker's rows: the variables that they
have by then are made again in the scope.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...errors import StrategyError
from .. import seams
from ..process import PROCESS, multi_worker

if TYPE_CHECKING:
    import keras
    import numpy as np
    import numpy.typing as npt
    import tensorflow as tf


@contextlib.contextmanager
def compile_scope(model: keras.Model, arguments: Mapping[str, object]) -> Iterator[None]:
    """Inside the block, compile a model, its optimizer and metrics in the scope of its weights' strategy."""
    adopt(model)
    strategy = seams.MODEL_STRATEGY.of(model)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        if _copies_variables(strategy):
            _move_optimizer(arguments.get("optimizer"), strategy)
            _move_metrics([arguments.get("metrics"), arguments.get("weighted_metrics")])
        yield


def adopt(model: keras.Model) -> None:
    """Give a model that belongs to no strategy the one of its weights.

    Raise a StrategyError if only some belong to a strategy, or none does and this is the scope of one.
    """
    import tensorflow as tf

    if seams.MODEL_STRATEGY.of(model) is not None:
        return
    owners = [_strategy_of(variable.value) for variable in model.variables]
    strategies = {id(owner): owner for owner in owners if owner is not None}
    here = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
    if not owners:
        seams.MODEL_STRATEGY.set(model, here)
    elif len(strategies) == 1 and all(owner is not None for owner in owners):
        seams.MODEL_STRATEGY.set(model, owners[0])
    elif strategies or _copies_variables(here):
        count = sum(owner is None for owner in owners)
        raise StrategyError(
            "The model was made outside of the strategy's scope.",
            found=f"{count} of {len(owners)} weights belong to no strategy",
            fix="make the layers and the model inside `with strategy.scope():`; in R, inside "
            "with(strategy$scope(), {...})",
            strategy=type(here or next(iter(strategies.values()))).__name__,
            reason="made-outside",
        )


def refuse_plain(variables: Iterable[keras.Variable | tf.Variable]) -> None:
    """Raise a StrategyError if an optimizer is to train variables of no strategy in ``strategy.run()``.

    TensorFlow would raise an AssertionError without a word.
    """
    import tensorflow as tf

    strategy = tf.distribute.get_strategy()
    if not multi_worker(strategy) or tf.distribute.in_cross_replica_context():
        return
    values = [variable_of(variable) for variable in variables]
    if count := sum(_strategy_of(value) is None for value in values):
        raise StrategyError(
            "The variables were made outside of the strategy's scope.",
            found=f"{count} of the optimizer's {len(values)} variables belong to no strategy",
            fix="make the variables inside `with strategy.scope():`; in R, inside "
            "with(strategy$scope(), {...})",
            strategy=type(strategy).__name__,
            reason="made-outside",
        )


def variable_of(source: Any) -> Any:
    """Return TensorFlow's variable of one of Keras, and anything else as it is."""
    value = getattr(source, "value", source)
    return source if callable(value) else value


def patch_scopes() -> None:
    """Build an optimizer made outside of the scope for a strategy's weights, and convert those to numbers."""
    import numpy as np

    stock_build = seams.OPTIMIZER_BUILD.get()

    @seams.OPTIMIZER_BUILD.wrap
    def build(self: Any, variables: Iterable[keras.Variable]) -> None:
        variables = list(variables)
        refuse_plain(variables)
        adopt_optimizer(self, variables)
        stock_build(self, variables)

    def array(self: Any, dtype: npt.DTypeLike = None) -> npt.NDArray[np.generic]:
        return np.asarray(self.read_value(), dtype)

    variable = seams.NUMBER_OF_VARIABLE.get()
    if not hasattr(variable, "__int__"):
        seams.NUMBER_OF_VARIABLE.add("__int__", lambda self: int(self.read_value()))
    if not hasattr(variable, "__float__"):
        seams.NUMBER_OF_VARIABLE.add("__float__", lambda self: float(self.read_value()))
    # TensorFlow's own returns a tensor.
    seams.NUMBER_OF_VARIABLE.add("__array__", array)


def adopt_optimizer(optimizer: keras.optimizers.Optimizer, variables: Iterable[keras.Variable]) -> None:
    """Give an optimizer the strategy of the weights that it will train, unless it has trained others."""
    owners = (_strategy_of(variable_of(variable)) for variable in variables)
    owner: Any = next((owner for owner in owners if owner is not None), None)
    if optimizer.built or not _copies_variables(owner) or seams.OPTIMIZER_STRATEGY.of(optimizer) is owner:
        return

    def move() -> None:
        with owner.scope():
            _move_optimizer(optimizer, owner)

    # A step may be under way in this thread, where no scope can be entered.
    with ThreadPoolExecutor(1) as other_thread:
        other_thread.submit(move).result()


def _move_optimizer(optimizer: object, strategy: tf.distribute.Strategy) -> None:
    """Give a strategy to an optimizer that was made outside of its scope, and has trained nothing yet."""
    from keras import Optimizer

    if isinstance(optimizer, Optimizer) and not optimizer.built:
        _move_optimizer(getattr(optimizer, "inner_optimizer", None), strategy)
        seams.OPTIMIZER_STRATEGY.set(optimizer, strategy)
        _move(optimizer.variables)


def _move_metrics(metrics: object) -> None:
    """Move metrics in any nesting of lists and dicts into the scope that this is."""
    import tensorflow as tf
    from keras import Metric

    for metric in tf.nest.flatten(metrics):
        if isinstance(metric, Metric):
            _move(metric.variables)


def _move(variables: Iterable[keras.Variable]) -> None:
    """Make variables anew, with their values, in the scope that this is."""
    for variable in variables:
        if _strategy_of(variable.value) is None:
            seams.INITIALIZE.of(variable)(variable.value.numpy())


def _strategy_of(variable: tf.Variable) -> Any:
    """Return the strategy that made a TensorFlow variable; None if none did, or one with a single device."""
    owner = getattr(variable, "distribute_strategy", None)
    if owner is None and "/job:ps/" in str(getattr(variable, "device", "")):
        owner = PROCESS.strategy
    return owner


def _copies_variables(strategy: tf.distribute.Strategy) -> bool:
    """Return whether each variable that a strategy makes is one of its own type, or on another machine."""
    import tensorflow as tf

    kinds = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
        tf.distribute.ParameterServerStrategy,
        tf.distribute.TPUStrategy,
    )
    return isinstance(strategy, kinds)
