"""Plan one training on digits: its numbers, its input pipelines, and the way its strategy trains."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import DataError, ModelError, StrategyError
from ..keras_compat import seams
from ..keras_compat.process import batches_in_step
from ..keras_compat.rows import steps_in_epoch
from ..training.batches import batches
from ..words import Argument, Value, Words
from .datasets import Digits
from .recipes import Recipe

if TYPE_CHECKING:
    import keras
    import tensorflow as tf


@dataclass(frozen=True, kw_only=True)
class Plan(Recipe):
    """A recipe with the numbers of one training."""

    global_batch_size: int
    validation_rows: int
    seed: int


def make_plan(settings: Recipe, rows: int, replicas: int, seed: int) -> Plan:
    """Plan a training on ``rows`` rows; a step takes one batch from each of ``replicas``."""
    split = settings.validation_split
    if not 0 <= split < 1:
        raise ModelError(
            "validation_split must be at least 0 and less than 1.",
            found=str(Value(split)),
            reason="validation-split",
        )
    validation_rows = int(rows * split)
    if rows - validation_rows < 1:
        raise DataError("No row is left to train on.", found=f"{rows} rows", reason="empty")
    global_batch_size = settings.batch_size * replicas
    steps = settings.steps_per_epoch or steps_in_epoch(rows - validation_rows, global_batch_size)
    return Plan(
        **vars(replace(settings, steps_per_epoch=steps)),
        global_batch_size=global_batch_size,
        validation_rows=validation_rows,
        seed=seed,
    )


def pipelines(
    digits: Digits, plan: Plan, strategy: tf.distribute.Strategy
) -> tuple[tf.data.Dataset, tf.data.Dataset | None, tf.data.Dataset]:
    """Return the endless training set, the validation set or None, and the test set."""
    train_rows, size = len(digits.x_train) - plan.validation_rows, plan.global_batch_size
    x, y = digits.x_train, digits.y_train
    common: dict[str, Any] = {"seed": plan.seed, "strategy": strategy, "one_hot": plan.one_hot}
    train = batches(x[:train_rows], y[:train_rows], size, shuffle=plan.shuffle, repeated=True, **common)
    validation = None
    if plan.validation_rows:
        validation = batches(x[train_rows:], y[train_rows:], size, shuffle=False, **common)
    # Evaluation stores no activations for gradients, so its batches can be larger.
    test_size = max(size, 256 * (size // plan.batch_size))
    test = batches(digits.x_test, digits.y_test, test_size, shuffle=False, **common)
    return train, validation, test


@dataclass(frozen=True)
class Fitting:
    """A strategy with its settings for training; ``updates`` is "" without parameter servers."""

    strategy: tf.distribute.Strategy
    updates: str
    replicas_to_aggregate: int | None

    @classmethod
    def for_strategy(
        cls, strategy: tf.distribute.Strategy, updates: str | None, replicas_to_aggregate: int | None
    ) -> Fitting:
        """Return a strategy's settings. Raises StrategyError if one is set that needs parameter servers."""
        import tensorflow as tf

        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            return cls(strategy, updates or "async", replicas_to_aggregate)
        for name, value in (("updates", updates), ("replicas_to_aggregate", replicas_to_aggregate)):
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
        return int(seams.PS_WORKERS.of(self.strategy) if self.updates else self.strategy.num_replicas_in_sync)

    @property
    def batches_in_step(self) -> int:
        """Return the number of replicas whose batches form one update of the weights."""
        if not self.updates:
            return batches_in_step(self.strategy)
        return 1 if self.updates == "async" else self.replicas

    def scope(self) -> contextlib.AbstractContextManager[object]:
        """Return the scope for creating the model; with parameter servers, `ps_fit` places the weights."""
        scope: contextlib.AbstractContextManager[object] = self.strategy.scope()
        return contextlib.nullcontext() if self.updates else scope

    def fit(self, model: keras.Model, data: tf.data.Dataset, **arguments: Any) -> keras.callbacks.History:
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
        word = "asynchronous" if self.updates == "async" else "synchronous"
        first = f", each of the first {self.replicas_to_aggregate}" if self.replicas_to_aggregate else ""
        return f"{word} updates by {self.replicas} workers{first}; {seams.PS_SERVERS.of(self.strategy)} ps"
