"""Train a model with the function that its strategy needs: Keras's ``fit``, or ``ps_fit``."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ..errors import StrategyError
from ..words import Argument, Words


@dataclass(frozen=True)
class Fitting:
    """A strategy with its settings for training.

    Attributes
    ----------
    strategy : tf.distribute.Strategy
        Strategy to train under.
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
        """Make the settings for a strategy.

        Raises
        ------
        StrategyError
            ``updates`` or ``replicas_to_aggregate`` is set without parameter servers.
        """
        import tensorflow as tf

        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            return cls(strategy, updates or "async", replicas_to_aggregate)
        given = {"updates": updates, "replicas_to_aggregate": replicas_to_aggregate}
        for name, value in given.items():
            if value is not None:
                raise StrategyError(
                    f"{name} applies only to parameter servers.",
                    found=Words("{} under {}", Argument(name, value), type(strategy).__name__),
                    fix="leave it out, or choose the strategy parameter_server",
                    strategy=type(strategy).__name__,
                    reason="unused-argument",
                )
        return cls(strategy, "", None)

    @property
    def replicas(self) -> int:
        """Return the number of replicas that compute gradients."""
        from ..keras_compat import seams

        return int(seams.PS_WORKERS.of(self.strategy) if self.updates else self.strategy.num_replicas_in_sync)

    @property
    def batches_in_step(self) -> int:
        """Return the number of replicas whose batches form one update of the weights."""
        from ..keras_compat.process import batches_in_step

        if not self.updates:
            return batches_in_step(self.strategy)
        return 1 if self.updates == "async" else self.replicas

    def scope(self) -> contextlib.AbstractContextManager[Any]:
        """Return the scope for creating the model; with parameter servers, `ps_fit` places the weights."""
        scope: contextlib.AbstractContextManager[Any] = self.strategy.scope()
        return contextlib.nullcontext() if self.updates else scope

    def fit(self, model: Any, data: Any, **arguments: Any) -> Any:
        """Train the model and return the history."""
        if not self.updates:
            # The data is already shuffled.
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
        """Describe the updates in words; "" if each replica computes a batch."""
        if not self.updates:
            lost = self.batches_in_step != self.replicas
            return f"{self.batches_in_step} batches a step on {self.replicas} replicas" if lost else ""
        from ..keras_compat import seams

        word = "asynchronous" if self.updates == "async" else "synchronous"
        first = f", each of the first {self.replicas_to_aggregate}" if self.replicas_to_aggregate else ""
        return f"{word} updates by {self.replicas} workers{first}; {seams.PS_SERVERS.of(self.strategy)} ps"
