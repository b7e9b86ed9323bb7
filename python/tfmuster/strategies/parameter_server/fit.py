"""Train a Keras model with parameter servers: ``ps_fit`` replaces ``model.fit``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...errors import ModelError, StrategyError, WorkerError
from ...keras_compat import seams
from ...keras_compat.process import PROCESS, require_tensorflow_backend
from ...keras_compat.runtime.parameter_server import Position, quiet_coordinator
from ...options.hints import Hint, Launch
from ...system.say import say
from ...words import Argument, Value, Words
from .serving import NAME, WITH_SERVERS

if TYPE_CHECKING:
    import keras
    import numpy.typing as npt
    import tensorflow as tf

    from .steps import Outcome
    from .workers import DatasetFunction

    ValidationData: TypeAlias = tf.data.Dataset | tuple[npt.ArrayLike, ...] | None

UPDATES = ("async", "sync")


def ps_fit(
    model: keras.Model,
    dataset_fn: DatasetFunction | tf.data.Dataset,
    epochs: int = 1,
    steps_per_epoch: int | None = None,
    *,
    updates: str = "async",
    replicas_to_aggregate: int | None = None,
    validation_data: ValidationData = None,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    verbose: int | str = "auto",
    strategy: tf.distribute.ParameterServerStrategy | None = None,
) -> keras.callbacks.History:
    """Train a Keras 3 model with parameter servers. Call it on the coordinator only.

    Parameters
    ----------
    model : keras.Model
        Any compiled Keras 3 model, created inside or outside the strategy's scope. Its ``call``,
        ``compute_loss``, and ``compute_metrics`` are used; a custom ``train_step`` is not. The state of its
        metrics must be a sum over batches, as it is for all Keras metrics.
    dataset_fn : callable or tf.data.Dataset
        A function of a ``tf.distribute.InputContext`` that makes a worker's own batches. It is traced once
        per worker, and the data set is repeated. With synchronous updates, the batches of all workers in a
        step form the global batch. Or a data set from :func:`~tfmuster.training.batches.batches`: with
        synchronous updates each worker gets its rows of each batch, with asynchronous updates every n-th
        batch.
    epochs, steps_per_epoch : int
        Length of the training. A step is one update of the weights; ``steps_per_epoch`` is required.
    updates : {"async", "sync"}
        ``"async"``: apply each worker's gradient when it arrives, to weights that other workers may have
        changed since it read them. ``"sync"``: every update is the mean of one gradient per worker.
    replicas_to_aggregate : int, optional
        Synchronous only: use the mean of this many gradients, the first of each step; the other workers are
        spares, and their late gradients are dropped. Default: all workers.
    validation_data : optional
        Data for ``model.evaluate``, which the coordinator calls after each epoch.
    callbacks : sequence of keras.callbacks.Callback
        Run on the coordinator. The model has the current weights at the end of each epoch and when
        :func:`tfmuster.checkpoint_callback` writes.
    verbose : int or "auto"
        The same as for ``model.fit``.
    strategy : tf.distribute.ParameterServerStrategy, optional
        Default: the strategy of this process.

    Returns
    -------
    keras.callbacks.History
        The same as from ``model.fit``. With asynchronous updates it also has ``staleness`` and
        ``max_staleness``: the mean and largest number of updates that others applied while a worker computed
        one.

    Raises
    ------
    StrategyError
        This process has no parameter-server strategy, ``updates`` or ``replicas_to_aggregate`` is invalid, or
        Keras has another backend than TensorFlow.
    ModelError, DataError
        The model is not compiled; ``dataset_fn`` makes no data set.
    WorkerError
        Too few workers are left. Asynchronous training continues until the last worker is lost.

    Examples
    --------
    >>> strategy = tfmuster.strategy("parameter_server")  # doctest: +SKIP
    >>> model = tfmuster.mnist_model("softmax")  # doctest: +SKIP
    >>> history = ps_fit(model, make_batches, epochs=2, steps_per_epoch=100)  # doctest: +SKIP
    """
    require_tensorflow_backend("ps_fit()", "train with fit under a keras.distribution")
    strategy = strategy or PROCESS.strategy
    if not getattr(model, "compiled", False):
        raise ModelError("The model must be compiled.", fix="model.compile(...) first", reason="not-compiled")
    for name, number in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if type(number) is not int or number < 1:
            raise ModelError(
                f"{name} must be a whole number of at least 1.",
                found=str(Value(number)),
                reason=name.replace("_", "-"),
            )
    workers = _check_updates(strategy, updates, replicas_to_aggregate)
    aggregate = (replicas_to_aggregate or workers) if updates == "sync" else 0
    training = _Training(model, dataset_fn, strategy, workers, aggregate)
    with quiet_coordinator():
        return training.run(epochs, steps_per_epoch or 0, validation_data, callbacks, verbose)


class _Training:
    """One call of `ps_fit`; synchronous if `aggregate`, the number of gradients per update, is positive."""

    def __init__(
        self,
        model: keras.Model,
        dataset_fn: DatasetFunction | tf.data.Dataset,
        strategy: tf.distribute.ParameterServerStrategy,
        workers: int,
        aggregate: int,
    ) -> None:
        self._model, self._dataset_fn, self._strategy = model, dataset_fn, strategy
        self._workers, self._sync, self._aggregate = workers, aggregate > 0, aggregate

    def run(
        self,
        epochs: int,
        steps_per_epoch: int,
        validation_data: ValidationData,
        callbacks: Sequence[keras.callbacks.Callback],
        verbose: int | str,
    ) -> keras.callbacks.History:
        import keras
        import tensorflow as tf

        from .steps import Steps
        from .weights import PlacedWeights
        from .workers import WorkerLoops, worker_datasets

        model = self._model
        datasets = worker_datasets(self._dataset_fn, self._workers, together=self._sync)
        spec = datasets[0].structured_outputs.element_spec
        position = Position(model, spec)
        position.build()
        if verbose == "auto":
            verbose = 1 if sys.stdout.isatty() else 2
        callback_list = keras.callbacks.CallbackList(
            list(callbacks),
            add_history=True,
            add_progbar=bool(verbose),
            verbose=verbose,
            epochs=epochs,
            steps=steps_per_epoch,
            model=model,
        )
        model.stop_training = False
        callback_list.on_train_begin()
        # A checkpoint may just have been restored into the model.
        epoch, step = position.reached()
        self._placed = placed = PlacedWeights(self._strategy, model)
        for callback in callbacks:
            if hasattr(callback, "before_writing"):
                callback.before_writing = placed.pull
        if done := epoch * steps_per_epoch + step:
            datasets = worker_datasets(self._dataset_fn, self._workers, together=self._sync, done=done)
        self._steps = Steps(model, placed, tf.data.IteratorSpec(spec), self._workers)
        function = self._steps.trace_gradients() if self._sync else self._steps.trace_update()
        self._apply = self._steps.trace_apply() if self._sync else None
        numbers = [tf.constant(worker) for worker in range(self._workers)]
        self._loops = WorkerLoops(
            self._strategy,
            self._workers,
            lambda worker: iter(datasets[worker]()),
            lambda iterator, worker: function(iterator, numbers[worker]).numpy(),
        )
        self._results = self._loops.results()
        try:
            logs: dict[str, float] = {}
            while epoch < epochs and not model.stop_training:
                model.reset_metrics()
                callback_list.on_epoch_begin(epoch)
                logs = self._epoch(range(step, steps_per_epoch), callback_list)
                placed.pull()
                if validation_data is not None:
                    x, y, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
                    values = model.evaluate(x, y, sample_weight=weights, verbose=0, return_dict=True)
                    logs.update({f"val_{name}": value for name, value in values.items()})
                callback_list.on_epoch_end(epoch, logs)
                epoch, step = epoch + 1, 0
            callback_list.on_train_end(logs)
        finally:
            self._loops.stop()
        return model.history

    def _epoch(self, steps: range, callback_list: keras.callbacks.CallbackList) -> dict[str, float]:
        staleness: list[int] = []
        advance = self._advance_together if self._sync else self._advance
        if not self._sync:
            self._loops.give_any(len(steps))
        for step in steps:
            self._placed.push_learning_rate()
            callback_list.on_train_batch_begin(step)
            outcomes = advance(step)
            self._count(outcomes)
            staleness += [outcome.staleness for outcome in outcomes]
            callback_list.on_train_batch_end(step, self._logs())
        logs = self._logs()
        if not self._sync and staleness:
            logs |= {"staleness": sum(staleness) / len(staleness), "max_staleness": float(max(staleness))}
        return logs

    def _advance(self, step: int) -> list[Outcome]:
        """Wait for the next update of any worker."""
        for worker, _, report in self._results:
            if report is not None:
                return [self._steps.outcome(report)]
            self._tell_lost(worker)
        raise AssertionError  # results() has no end

    def _advance_together(self, step: int) -> list[Outcome]:
        """Apply one update: the mean of the first gradients of this step."""
        import tensorflow as tf

        for worker in sorted(self._loops.alive):
            self._loops.give(worker, step)
        arrived: dict[int, Outcome] = {}
        self._enough()
        for worker, of_step, report in self._results:
            if report is None:
                self._tell_lost(worker)
                self._enough()
            elif of_step == step:
                arrived[worker] = self._steps.outcome(report)
                if len(arrived) == self._aggregate:
                    break
        # If a last batch has fewer rows than there are workers, some workers have none.
        taken = sorted(worker for worker, outcome in arrived.items() if outcome.rows)
        outcomes = [arrived[worker] for worker in taken]
        rows = sum(outcome.rows for outcome in outcomes)
        shares = [outcome.rows / rows for outcome in outcomes]
        moves = [tf.constant(move) for move in self._steps.combined_moves(outcomes, shares)]
        assert self._apply is not None
        self._apply(tf.constant(taken, tf.int32), tf.constant(shares, tf.float64), moves)
        return outcomes

    def _enough(self) -> None:
        loops = self._loops
        if len(loops.alive) < self._aggregate:
            worker = max(loops.lost)
            raise WorkerError(
                f"Each synchronous update needs the gradients of {self._aggregate} workers.",
                found=f"worker {worker} is lost; {len(loops.alive)} left",
                fix=Words(
                    "restart from a checkpoint ({}), or use spare workers (replicas_to_aggregate)",
                    Launch((Hint("max_restarts"),), script=None),
                ),
                task=f"worker {worker}",
                exit_code=None,
            ) from loops.lost[worker]

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        """Add to the model's metrics what steps have added."""
        for number, variable in enumerate(self._steps.metrics):
            variable.assign(variable.numpy() + sum(outcome.metrics[number] for outcome in outcomes))

    def _logs(self) -> dict[str, float]:
        return {name: float(value) for name, value in self._model.get_metrics_result().items()}

    def _tell_lost(self, worker: int) -> None:
        left = len(self._loops.alive)
        remain = "worker remains" if left == 1 else "workers remain"
        say(f"tfmuster: worker {worker} is lost; {left} {remain}")


def _check_updates(strategy: tf.distribute.Strategy, updates: str, replicas_to_aggregate: int | None) -> int:
    """Check the arguments for the updates, and return the number of workers."""
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise StrategyError(
            "ps_fit needs a parameter-server strategy, and this process has none.",
            fix=Words('call strategy("parameter_server") first, under `{}`', WITH_SERVERS),
            strategy=NAME,
            reason="no-strategy",
        )
    workers = int(seams.PS_WORKERS.of(strategy))
    if updates not in UPDATES:
        raise StrategyError(
            f"updates must be one of {', '.join(UPDATES)}.",
            found=str(Value(updates)),
            strategy=NAME,
            reason="updates",
        )
    number = replicas_to_aggregate
    if number is not None and (updates != "sync" or type(number) is not int or not 1 <= number <= workers):
        raise StrategyError(
            "replicas_to_aggregate must be from 1 to the number of workers, and needs synchronous updates.",
            found=Words("{}, with {} and {} workers", Value(number), Argument("updates", updates), workers),
            strategy=NAME,
            reason="replicas-to-aggregate",
        )
    return workers
