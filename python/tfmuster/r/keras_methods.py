"""What R's methods for Keras models need from Python."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

#: The columns of the data frame that a model was first fitted to.
_columns: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()

#: What a model was first fitted to by R's formulas and factors, as R has serialized it.
_tables: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


def call_method(model: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a method of a Keras model, so that tfmuster's own errors become R conditions."""
    return getattr(model, name)(*args, **kwargs)


def check_optimizer(name: str) -> None:
    """Check the name of an optimizer for ``compile()``, whose own error says how it was looked up.

    Raises
    ------
    ModelError
        Keras has no such optimizer. The error has the name that was probably meant.
    """
    import keras

    from ..digits.optimizers import not_made

    try:
        keras.optimizers.get(name)
    except (TypeError, ValueError) as error:
        raise not_made(keras, name, {}, error) from error


def columns_of(model: Any, columns: Sequence[str] | None = None) -> list[str] | None:
    """Return the names of the columns that a model was fitted to; None if they are not known.

    Parameters
    ----------
    model : keras.Model
        The model.
    columns : sequence of str, optional
        Names to record if the model has none.
    """
    if columns is not None:
        _columns.setdefault(model, list(columns))
    return _columns.get(model)


def table_of(model: Any, table: bytes | None = None) -> bytes | None:
    """Return what R knows of the table that a model was fitted to; None if there is none.

    Parameters
    ----------
    model : keras.Model
        The model.
    table : bytes, optional
        What to record.
    """
    if table is not None:
        _tables[model] = bytes(table)
    return _tables.get(model)


def ready_for_generators() -> None:
    """Patch Keras, so that it calls generators in R's thread."""
    from ..rendezvous.task.agreement import prepare_keras

    prepare_keras()
