"""The step of one process, traced on each worker from the program's step of several."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tensorflow as tf

from ..step_rows import as_one_process
from ..steps.tracing import compiled

if TYPE_CHECKING:
    import keras

    from ..rows import Tensors
    from ..sums.recording import GradientRecord

#: The states of Python's and NumPy's generators.
Generators: TypeAlias = tuple[Any, Any]


def generators() -> Generators:
    """Return the states that they have now."""
    return random.getstate(), np.random.get_state()


class StepAlone:
    """The step of one process, which records its gradients. It is traced once for batches of one type."""

    def __init__(
        self, model: keras.Model, step: Callable[[Tensors], Tensors], record: GradientRecord
    ) -> None:
        self._model, self._step, self._record = model, step, record
        self._strategy = model.distribute_strategy
        self._known: tuple[Tensors, Any] | None = None

    def traced(self, types: Tensors, drawn_from: Generators) -> Any:
        """Return the traced step, with the numbers that Python drew for the workers' step."""
        if self._known is None or self._known[0] != types:
            self._known = types, self._trace(types, drawn_from)
        return self._known[1]

    def forget(self) -> None:
        """Trace it again when it is needed."""
        self._known = None

    def _trace(self, types: Tensors, drawn_from: Generators) -> Any:
        def step(batch: Tensors) -> Tensors:
            def of_replica(rows: Tensors) -> Tensors:
                # Outside of the replica, a metric's variable is read as the sum of the workers'.
                return tf.nest.map_structure(tf.convert_to_tensor, self._step(rows))

            with as_one_process(self._strategy), self._record.tracing(), compiled(self._model):
                return self._strategy.run(of_replica, args=(batch,))

        later = generators()
        _set_generators(drawn_from)
        try:
            function = tf.function(tf.autograph.experimental.do_not_convert(step))
            return function.get_concrete_function(types)
        finally:
            _set_generators(later)


def _set_generators(states: Generators) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
