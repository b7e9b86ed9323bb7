"""Write a custom training loop that works the same under every strategy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..errors import StrategyError
from ..keras_compat import seams
from ..keras_compat.process import multi_worker, require_tensorflow_backend, worker_of
from ..keras_compat.sums.collectives import replica_sum
from ..system.tensorflow_import import import_tensorflow
from ..words import Value

if TYPE_CHECKING:
    import tensorflow as tf

_REDUCTIONS = ("mean", "sum")


def distributed_step(
    strategy: tf.distribute.Strategy, step_fn: Callable[[Any], Any], *, reduce: str = "mean"
) -> Any:
    """Compile a step of a training loop that runs on every replica of a strategy.

    Create the model and the optimizer in ``strategy.scope()``, and build the optimizer there
    (``optimizer.build(model.trainable_variables)``), because it can't be built inside a step.

    Parameters
    ----------
    strategy : tf.distribute.Strategy
        Any strategy.
    step_fn : callable
        Takes one replica's batch, trains on it, and returns a tensor, such as the loss, or several in a
        tuple, list, or dict. For a loss over the rows of all replicas, divide the sum by the rows of the
        global batch.
    reduce : {"mean", "sum"}
        Reduction of the replicas' values.

    Returns
    -------
    callable
        ``step(iterator)`` takes the next batch and returns the reduced values. ``iterator`` is
        ``iter(strategy.experimental_distribute_dataset(dataset))``.

        With parameter servers, ``step`` returns immediately with a RemoteValue: one worker takes the next
        batch of its own from ``step.iterator(dataset_fn)``. ``step.join()`` waits for all steps.

    Raises
    ------
    StrategyError
        ``reduce`` is neither of the two (reason ``reduce``), or Keras has another backend (``backend``).

    Examples
    --------
    >>> import tensorflow as tf  # doctest: +SKIP
    >>> step = distributed_step(tf.distribute.get_strategy(), lambda batch: batch + 1)  # doctest: +SKIP
    >>> int(step(iter(tf.data.Dataset.range(3))))  # doctest: +SKIP
    1
    """
    require_tensorflow_backend(
        "distributed_step()", "compile the step with jax.jit, on arrays of the mesh of a keras.distribution"
    )
    tf = import_tensorflow()
    if reduce not in _REDUCTIONS:
        raise StrategyError(
            f"reduce must be one of {', '.join(_REDUCTIONS)}.",
            found=str(Value(reduce)),
            strategy=type(strategy).__name__,
            reason="reduce",
        )

    def run(iterator: Iterator[object]) -> Any:
        values = strategy.run(step_fn, args=(next(iterator),))
        return tf.nest.map_structure(lambda v: strategy.reduce(reduce.upper(), v, axis=None), values)

    if multi_worker(strategy) and len(strategy.extended.worker_devices) == 1:
        # `strategy.run` would call the function in another thread, and R functions run only in R's thread.
        seams.USE_MERGE_CALL.set(strategy.extended, lambda: False)

        def run(iterator: Iterator[object]) -> Any:
            batch = tf.nest.map_structure(lambda v: strategy.experimental_local_results(v)[0], next(iterator))
            context = tf.distribute.ReplicaContext(strategy, worker_of(strategy)[0])
            with context:
                values = step_fn(batch)
                return tf.nest.map_structure(total, values)

        def total(value: object) -> Any:
            tensor = tf.convert_to_tensor(value)
            if reduce == "mean" and not tensor.dtype.is_floating:
                return tf.distribute.get_replica_context().all_reduce("MEAN", tensor)
            value_sum = replica_sum(tensor)
            return value_sum / worker_of(strategy)[1] if reduce == "mean" else value_sum

    compiled = tf.function(run, autograph=False)
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return _Scheduled(strategy, compiled)
    return compiled


class _Scheduled:
    """A step that any free worker of a parameter-server job can run."""

    def __init__(self, strategy: tf.distribute.Strategy, step: Callable[..., Any]) -> None:
        import tensorflow as tf

        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._step = step

    def __call__(self, iterator: Iterator[object]) -> Any:
        """Schedule the next step and return the RemoteValue of its result."""
        return self._coordinator.schedule(self._step, args=(iterator,))

    def iterator(self, dataset_fn: Callable[[], tf.data.Dataset]) -> Iterator[object]:
        """Return an iterator with, on each worker, the data set that ``dataset_fn`` makes there."""
        return iter(self._coordinator.create_per_worker_dataset(dataset_fn))

    def join(self) -> None:
        """Wait until all steps are done. Raises the exception of a failed step."""
        self._coordinator.join()
