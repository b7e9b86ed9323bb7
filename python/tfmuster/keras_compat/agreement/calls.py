"""The calls of ``fit``, ``evaluate``, and ``predict`` that run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ...system.activity import ACTIVITY


class Call:
    """A call of ``fit``, ``evaluate``, or ``predict`` that runs."""

    current: list[Call] = []  # noqa: RUF012 - one list for all

    def __init__(self, name: str, model: Any, arguments: Mapping[str, Any]) -> None:
        self.name, self.model, self.arguments = name, model, arguments
        #: The epoch iterator of the call; for ``fit`` that of the training data.
        self.epochs: Any = None
        self.compared = False
        #: What was compared (:mod:`.documents`).
        self.document: dict[str, Any] = {}

    @classmethod
    def of(cls, model: Any) -> Call | None:
        """Return the innermost call, if it is one of this model."""
        return cls.current[-1] if cls.current and cls.current[-1].model is model else None

    @classmethod
    def reads(cls, epochs: Any) -> None:
        """Note the epoch iterator that the innermost call has made."""
        if cls.current and cls.current[-1].epochs is None:
            cls.current[-1].epochs = epochs


@contextlib.contextmanager
def noted_call(name: str, model: Any, arguments: Mapping[str, Any]) -> Iterator[None]:
    """Note that a call runs, as long as the block does.

    Parameters
    ----------
    name : {"fit", "evaluate", "predict"}
        The method.
    model : keras.Model
        The model, which has several workers.
    arguments : mapping
        Its arguments by name.
    """
    Call.current.append(Call(name, model, arguments))
    try:
        with ACTIVITY.call(name):
            yield
    finally:
        Call.current.pop()
