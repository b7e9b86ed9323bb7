"""Train a model with the strategy of its weights, if the model itself was made outside of the scope.

Keras remembers a strategy only if the model object is made in its scope. A model that gets its layers in the
scope, but is made before, would train alone, or fail with a text about its variables. An optimizer that is
made outside and given to ``compile`` fails, and a metric counts one worker's rows: the variables that they
have by then are made again in the scope.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import StrategyError
from .. import seams
from ..process import PROCESS


@contextlib.contextmanager
def compile_scope(model: Any, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Inside the block, compile a model in the scope of the strategy of its weights.

    Parameters
    ----------
    model : keras.Model
        The model.
    arguments : mapping
        The arguments of ``compile``, of which an optimizer and metrics move into the scope.
    """
    adopt(model)
    strategy = seams.MODEL_STRATEGY.of(model)
    with contextlib.nullcontext() if strategy is None else strategy.scope():
        if _copies_variables(strategy):
            _move_optimizer(arguments.get("optimizer"), strategy)
            _move_metrics([arguments.get("metrics"), arguments.get("weighted_metrics")])
        yield


def adopt(model: Any) -> None:
    """Give a model that belongs to no strategy the one of its weights.

    Raises
    ------
    StrategyError
        Only some of its weights belong to a strategy, or none does and this is the scope of one.
    """
    import tensorflow as tf

    if seams.MODEL_STRATEGY.of(model) is not None:
        return
    owners = [_strategy_of(variable.value) for variable in model.variables]
    found = {id(owner): owner for owner in owners if owner is not None}
    here = tf.distribute.get_strategy() if tf.distribute.has_strategy() else None
    if not owners:
        seams.MODEL_STRATEGY.set(model, here)
    elif len(found) == 1 and all(owner is not None for owner in owners):
        seams.MODEL_STRATEGY.set(model, next(iter(found.values())))
    elif found or _copies_variables(here):
        count = sum(owner is None for owner in owners)
        raise StrategyError(
            "The model was made outside of the strategy's scope.",
            found=f"{count} of {len(owners)} weights belong to no strategy",
            fix="make the layers and the model inside `with strategy.scope():`; in R, inside "
            "with(strategy$scope(), {...})",
            strategy=type(here or next(iter(found.values()))).__name__,
            reason="made-outside",
        )


def patch_builds() -> None:
    """Let an optimizer that was made outside of the scope be built for weights of a strategy."""
    stock_build = seams.OPTIMIZER_BUILD.get()

    @functools.wraps(stock_build)
    def build(self: Any, variables: Any) -> None:
        adopt_optimizer(self, variables)
        stock_build(self, variables)

    seams.OPTIMIZER_BUILD.replace(build)


def patch_numbers() -> None:
    """Convert variables of a strategy to numbers and arrays, as in ``int(optimizer.iterations)``."""
    import numpy as np

    def number(kind: type) -> Callable[[Any], Any]:
        return lambda self: kind(self.read_value())

    def array(self: Any, dtype: Any = None) -> Any:
        return np.asarray(self.read_value(), dtype)

    variable = seams.NUMBER_OF_VARIABLE.get()
    for name, kind in (("__int__", int), ("__float__", float)):
        if not hasattr(variable, name):
            seams.NUMBER_OF_VARIABLE.add(name, number(kind))
    # TensorFlow's own returns a tensor.
    seams.NUMBER_OF_VARIABLE.add("__array__", array)


def adopt_optimizer(optimizer: Any, variables: Any) -> None:
    """Give an optimizer the strategy of the weights that it will train, unless it has trained others."""
    owners = (_strategy_of(getattr(variable, "value", variable)) for variable in variables)
    owner = next((owner for owner in owners if owner is not None), None)
    if owner is None or optimizer.built or seams.OPTIMIZER_STRATEGY.of(optimizer) is owner:
        return
    if not _copies_variables(owner):
        return

    def move() -> None:
        with owner.scope():
            _move_optimizer(optimizer, owner)

    # A step may be under way in this thread, where no scope can be entered.
    with ThreadPoolExecutor(1) as other_thread:
        other_thread.submit(move).result()


def _move_optimizer(optimizer: Any, strategy: Any) -> None:
    """Give a strategy to an optimizer that was made outside of its scope, and has trained nothing yet."""
    from keras import Optimizer

    if isinstance(optimizer, Optimizer) and not optimizer.built:
        _move_optimizer(getattr(optimizer, "inner_optimizer", None), strategy)
        seams.OPTIMIZER_STRATEGY.set(optimizer, strategy)
        _move(optimizer.variables)


def _move_metrics(metrics: Any) -> None:
    """Move metrics in any nesting of lists and dicts."""
    import tensorflow as tf
    from keras import Metric

    for metric in tf.nest.flatten(metrics):
        if isinstance(metric, Metric):
            _move(metric.variables)


def _move(variables: list[Any]) -> None:
    """Make variables anew, with their values, in the scope that this is."""
    for variable in variables:
        if _strategy_of(variable.value) is None:
            seams.INITIALIZE.of(variable)(variable.value.numpy())


def _strategy_of(variable: Any) -> Any:
    """Return the strategy that made a TensorFlow variable; None if none did, or one with a single device."""
    owner = getattr(variable, "distribute_strategy", None)
    if owner is None and "/job:ps/" in str(getattr(variable, "device", "")):
        owner = PROCESS.strategy
    return owner


def _copies_variables(strategy: Any) -> bool:
    """Tell whether each variable that a strategy makes is one of its own type, or on another machine."""
    import tensorflow as tf

    kinds = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
        tf.distribute.ParameterServerStrategy,
        tf.distribute.TPUStrategy,
    )
    return isinstance(strategy, kinds)
