"""Plan one training on digits: its numbers, its input pipelines, and the way its strategy trains."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ..errors import DataError, ModelError, StrategyError
from ..words import Argument, Value, Words
from .recipes import Recipe


@dataclass(frozen=True)
class Plan:
    """The numbers of one training, with defaults filled in."""

    batch_size: int
    global_batch_size: int
    epochs: int
    steps_per_epoch: int
    validation_rows: int
    seed: int


def make_plan(
    defaults: Recipe,
    rows: int,
    replicas: int,
    *,
    batch_size: int | None,
    epochs: int | None,
    steps_per_epoch: int | None,
    validation_split: float | None,
    seed: int,
) -> Plan:
    """Fill in the recipe's values for missing arguments; a step takes one batch from each of ``replicas``.

    Raises
    ------
    ModelError, DataError
        The validation split is invalid, or leaves no row to train on.
    """
    from ..keras_compat.rows.local_batch import steps_in_epoch

    per_replica = defaults.batch_size if batch_size is None else batch_size
    split = defaults.validation_split if validation_split is None else validation_split
    if not 0 <= split < 1:
        raise ModelError(
            "validation_split must be at least 0 and less than 1.",
            found=str(Value(split)),
            reason="validation-split",
        )
    kept = int(rows * split)
    if rows - kept < 1:
        raise DataError("No row is left to train on.", found=f"{rows} rows", path=None, reason="empty")
    steps = defaults.steps_per_epoch if steps_per_epoch is None else steps_per_epoch
    return Plan(
        batch_size=per_replica,
        global_batch_size=per_replica * replicas,
        epochs=defaults.epochs if epochs is None else epochs,
        steps_per_epoch=steps or steps_in_epoch(rows - kept, per_replica * replicas),
        validation_rows=kept,
        seed=seed,
    )


def pipelines(
    digits: Any, plan: Plan, strategy: Any, *, shuffle: bool, one_hot: bool
) -> tuple[Any, Any, Any]:
    """Return the endless training set, the validation set or None, and the test set."""
    from ..training.batches import batches

    kept = len(digits.x_train) - plan.validation_rows
    common: dict[str, Any] = {"seed": plan.seed, "strategy": strategy, "one_hot": one_hot}
    train = batches(
        digits.x_train[:kept],
        digits.y_train[:kept],
        plan.global_batch_size,
        shuffle=shuffle,
        repeated=True,
        **common,
    )
    validation = (
        batches(digits.x_train[kept:], digits.y_train[kept:], plan.global_batch_size, shuffle=False, **common)
        if plan.validation_rows
        else None
    )
    # Evaluation stores no activations for gradients, so its batches can be larger.
    test = batches(
        digits.x_test,
        digits.y_test,
        max(plan.global_batch_size, 256 * (plan.global_batch_size // plan.batch_size)),
        shuffle=False,
        **common,
    )
    return train, validation, test


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
