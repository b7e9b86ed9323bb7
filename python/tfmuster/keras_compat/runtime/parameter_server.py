"""Patches of Keras 3 for models under parameter servers, which train with ``ps_fit``."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING

from ...errors import StrategyError
from ...words import Code
from .. import seams
from ..steps.epochs import remember_epochs, state_of
from ..steps.tracing import build

if TYPE_CHECKING:
    import keras

#: What trains a model under parameter servers in place of ``fit``.
PS_FIT = Code(
    "tfmuster.ps_fit(model, dataset_fn, epochs=..., steps_per_epoch=...)",
    "ps_fit(model, dataset_fn, epochs = ..., steps_per_epoch = ...)",
)


def refuse_parameter_servers(model: keras.Model) -> None:
    """Refuse ``fit`` of a model under parameter servers, and name ``ps_fit``."""
    if _under_parameter_servers(model):
        raise StrategyError(
            "Keras 3's fit does not support parameter servers.",
            fix=str(PS_FIT),
            strategy="parameter_server",
            reason="keras-fit",
        )


@contextlib.contextmanager
def on_coordinator(model: keras.Model) -> Iterator[None]:
    """Inside the block, a model under parameter servers has no strategy: the coordinator computes alone.

    It reads the weights from the parameter servers.
    """
    if not _under_parameter_servers(model):
        yield
        return
    strategy = seams.MODEL_STRATEGY.of(model)
    seams.MODEL_STRATEGY.set(model, None)
    try:
        yield
    finally:
        seams.MODEL_STRATEGY.set(model, strategy)


def _under_parameter_servers(model: keras.Model) -> bool:
    import tensorflow as tf

    return isinstance(model.distribute_strategy, tf.distribute.ParameterServerStrategy)


class Position:
    """Replacement for Keras's epoch iterator in code that builds a model or resumes training.

    ``spec`` is the type of a worker's batch, a `tf.TypeSpec` in any nesting.
    """

    def __init__(self, model: keras.Model, spec: object) -> None:
        self._model = model
        seams.EPOCHS_DATASET.set(self, SimpleNamespace(element_spec=spec))
        remember_epochs(model, self)

    def build(self) -> None:
        """Build the model, its metrics and its optimizer."""
        build(self._model, self)

    def reached(self) -> tuple[int, int]:
        """Return the epoch and step to start at, from 0: those of a restored checkpoint, else (0, 0)."""
        epoch, step = state_of(self).take_begin()
        return int(epoch), int(step)


@contextlib.contextmanager
def quiet_coordinator() -> Iterator[None]:
    """Inside the block, stop ClusterCoordinator from logging errors that it then raises or recovers from."""
    import tensorflow as tf

    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
