"""The way in which a strategy trains a model: Keras's ``fit``, or with parameter servers ``ps_fit``."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ..errors import StrategyError


@dataclass(frozen=True)
class Fitting:
    """How to train under a strategy.

    Attributes
    ----------
    strategy : tf.distribute.Strategy
        Made already.
    updates : str
        ``"async"`` or ``"sync"`` with parameter servers, else "".
    replicas_to_aggregate : int or None
        See :func:`tfmuster.ps_fit`.
    """

    strategy: Any
    updates: str
    replicas_to_aggregate: int | None

    @classmethod
    def of(cls, strategy: Any, updates: str | None, replicas_to_aggregate: int | None) -> Fitting:
        """The way of a strategy.

        Raises
        ------
        StrategyError
            ``updates`` or ``replicas_to_aggregate`` without parameter servers.
        """
        import tensorflow as tf

        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            return cls(strategy, updates or "async", replicas_to_aggregate)
        given = {"updates": updates, "replicas_to_aggregate": replicas_to_aggregate}
        for name, value in given.items():
            if value is not None:
                raise StrategyError(
                    f"{name} has a meaning with parameter servers only.",
                    found=f"{name}={value!r} under {type(strategy).__name__}",
                    fix="leave it out, or choose the strategy parameter_server",
                    strategy=type(strategy).__name__,
                    reason="unused-argument",
                )
        return cls(strategy, "", None)

    @property
    def replicas(self) -> int:
        """How many compute."""
        return int(self.strategy._num_workers if self.updates else self.strategy.num_replicas_in_sync)

    @property
    def batches_in_step(self) -> int:
        """How many replicas' batches go into one update of the weights."""
        return 1 if self.updates == "async" else self.replicas

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Where to make the model. `ps_fit` places the weights itself."""
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return contextlib.nullcontext() if self.updates else scope

    def fit(self, model: Any, data: Any, **arguments: Any) -> Any:
        """Train; the history."""
        if not self.updates:
            # The data come shuffled.
            return model.fit(data, shuffle=False, **arguments)
        from ..strategies.parameter_server import ps_fit

        return ps_fit(
            model,
            data,
            updates=self.updates,
            replicas_to_aggregate=self.replicas_to_aggregate,
            strategy=self.strategy,
            **arguments,
        )

    def describe(self) -> str:
        """What is updated how, in words; "" where that is plain."""
        if not self.updates:
            return ""
        word = "asynchronous" if self.updates == "async" else "synchronous"
        first = f", each of the first {self.replicas_to_aggregate}" if self.replicas_to_aggregate else ""
        return f"{word} updates by {self.replicas} workers{first}; {self.strategy._num_ps} ps"
