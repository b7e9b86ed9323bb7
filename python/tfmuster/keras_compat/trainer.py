"""Patch Keras's TensorFlow trainer, its epoch iterator, and its loss scaling for several workers."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from .building import build
from .execution import current_loss_share, local_batch, make_function, moving_statistics
from .resume import patch_epochs, remember_epochs, set_pace, training_epochs
from .sharding import without_autotuning
from .steps_per_execution import StepsPerExecution, may_choose
from .strategy_info import agree_on_seed, multi_worker, worker_of


def _local_dataset(dataset: Any, strategy: Any) -> Any:
    """Return this worker's parts of the global batches, or the data set as distributed by TensorFlow.

    A data set with the auto-shard policy ``OFF`` or ``FILE`` differs between workers, and a worker with
    several devices needs values per replica: both keep TensorFlow's own distributed iterator.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.distribute.DistributedDataset):
        return dataset
    worker, workers = worker_of(strategy)
    if (parts := getattr(dataset, "tfmuster_parts", None)) is not None:
        return parts(worker, workers)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    by_position = policy in (
        tf.data.experimental.AutoShardPolicy.DATA,
        tf.data.experimental.AutoShardPolicy.AUTO,
    )
    if not by_position or len(strategy.extended.worker_devices) > 1:
        return strategy.experimental_distribute_dataset(dataset)
    parts = dataset.map(
        lambda *batch: local_batch(batch if len(batch) > 1 else batch[0], worker, workers),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return parts.prefetch(tf.data.AUTOTUNE)


def _one_local_replica(strategy: Any) -> bool:
    """Return whether a distributed iterator would only add a thread to the data set's own iterator.

    TensorFlow 2.21 can crash in that thread (MultiDeviceIterator) when Keras drops the iterator at the end of
    a call: seen in one of 12 trainings under CentralStorageStrategy.
    """
    import tensorflow as tf

    return strategy.num_replicas_in_sync == 1 and not isinstance(
        strategy, tf.distribute.ParameterServerStrategy
    )


def patch_trainer(module: Any) -> None:
    """Replace what the trainer does with several workers; otherwise call Keras's own code."""
    import tensorflow as tf

    trainer, epochs = module.TensorFlowTrainer, module.TFEpochIterator
    stock_build, stock_init = trainer._maybe_symbolic_build, epochs.__init__

    @functools.wraps(stock_init)
    def init(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        several = multi_worker(distribute_strategy)
        if not several and not _one_local_replica(distribute_strategy):
            stock_init(self, distribute_strategy, *args, **kwargs)
            return
        if several:
            agree_on_seed(distribute_strategy)
        super(epochs, self).__init__(*args, **kwargs)
        self._distribute_strategy = distribute_strategy
        dataset = self.data_adapter.get_tf_dataset()
        if several:
            dataset = _local_dataset(dataset, distribute_strategy)
        self._distributed_dataset = without_autotuning(dataset)

    @functools.wraps(stock_build)
    def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None:
            remember_epochs(self, iterator)
        if iterator is None or not multi_worker(self._distribute_strategy):
            stock_build(self, iterator=iterator, data_batch=data_batch)
            return
        build(self, iterator)

    paces: weakref.WeakKeyDictionary[Any, StepsPerExecution | None] = weakref.WeakKeyDictionary()

    def maker(stock: Callable[..., Any], function: str, step: str) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make(self: Any, force: bool = False) -> Any:
            if not multi_worker(self._distribute_strategy):
                return stock(self, force=force)
            # TensorFlow's distributed iterator keeps one step per execution.
            local = isinstance(getattr(training_epochs(self), "_distributed_dataset", None), tf.data.Dataset)
            exact = step == "test_step" or not moving_statistics(self)
            chooses = local and exact and may_choose(self)
            made = getattr(self, function)
            if made is None or force or (paces.get(made) is not None) != chooses:
                pace = StepsPerExecution() if chooses else None
                made = make_function(self, getattr(self, step), pace)
                setattr(self, function, made)
                paces[made] = pace
            set_pace(self, paces[made])
            return made

        return make

    patch_epochs(epochs)
    epochs.__init__ = init
    trainer._maybe_symbolic_build = symbolic_build
    trainer.make_train_function = maker(trainer.make_train_function, "train_function", "train_step")
    trainer.make_test_function = maker(trainer.make_test_function, "test_function", "test_step")


def patch_loss(module: Any) -> None:
    """Scale losses by the worker's share of the rows if it is known."""
    stock_scale, stock_unscale = module.scale_loss_for_distribution, module.unscale_loss_for_distribution

    @functools.wraps(stock_scale)
    def scale(value: Any) -> Any:
        import tensorflow as tf

        share = current_loss_share()
        if share is None:
            return stock_scale(value)
        # The mean over no rows is NaN, so it must not enter the sum.
        share = tf.cast(share, value.dtype)
        return tf.where(share > 0, value * share, tf.zeros_like(value))

    @functools.wraps(stock_unscale)
    def unscale(value: Any) -> Any:
        import tensorflow as tf

        share = current_loss_share()
        if share is None:
            return stock_unscale(value)
        return tf.math.divide_no_nan(value, tf.cast(share, value.dtype))

    module.scale_loss_for_distribution = scale
    module.unscale_loss_for_distribution = unscale
