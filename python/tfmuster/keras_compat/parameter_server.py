"""What Keras 3 is told about parameter servers: that ``ps_fit`` is their ``fit``."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ..errors import StrategyError
from .building import build
from .resume import remember_epochs


def patch_fit(trainer: Any) -> None:
    """Have ``fit`` say which function to call, and the other methods work, for models made in the scope."""

    def needs(stock: Any) -> Any:
        @functools.wraps(stock)
        def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
            if _under_parameter_servers(self):
                raise StrategyError(
                    "Keras 3's fit does not know parameter servers.",
                    fix="tfmuster.ps_fit(model, dataset_fn, epochs=..., steps_per_epoch=...)",
                    strategy="parameter_server",
                    reason="keras-fit",
                )
            return stock(self, *args, **kwargs)

        return fit

    def local(stock: Any) -> Any:
        @functools.wraps(stock)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not _under_parameter_servers(self):
                return stock(self, *args, **kwargs)
            # The coordinator does it by itself, on weights that it reads from the parameter servers.
            made, self._distribute_strategy = self._distribute_strategy, None
            try:
                return stock(self, *args, **kwargs)
            finally:
                self._distribute_strategy = made

        return method

    trainer.fit = needs(trainer.fit)
    trainer.evaluate = local(trainer.evaluate)
    trainer.predict = local(trainer.predict)


def _under_parameter_servers(model: Any) -> bool:
    import tensorflow as tf

    return isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy)


class Position:
    """Stands in for Keras's epoch iterator, for those who build a model by it or move it on.

    Parameters
    ----------
    model : keras.Model
        What is trained.
    spec : nested tf.TypeSpec
        Of a worker's batch.
    """

    def __init__(self, model: Any, spec: Any) -> None:
        self._model = model
        self._distributed_dataset = SimpleNamespace(element_spec=spec)
        remember_epochs(model, self)

    def build(self) -> None:
        """Build the model, its metrics and its optimizer."""
        build(self._model, self)

    def reached(self) -> tuple[int, int]:
        """Epoch and step to begin at, counted from 0: where a checkpoint was written, else the start."""
        epoch, step = self.__dict__.pop("_tfmuster_skip", (0, 0))
        return int(epoch), int(step)


@contextlib.contextmanager
def quiet_coordinator() -> Iterator[None]:
    """Within: ClusterCoordinator does not print what it then raises, or survives."""
    import tensorflow as tf

    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
