"""Patch Keras's TensorFlow trainer and its epoch iterator for several workers."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from .. import seams
from ..agreement.calls import Call
from ..agreement.comparison import agree_on_call
from ..agreement.seeds import agree_on_seed
from ..data.data_errors import check_labels, generator_ended, raised
from ..data.pipelines import is_tuple, shard_files
from ..data.python_data import Recorded, feed_of, set_feed, share_order, take_generator
from ..data.row_selection import select_rows
from ..data.unreadable_rows import cause_in
from ..data.worker_batches import read_own_rows
from ..data.worker_data import are_own_rows, local_part, refuse_several_devices
from ..process import is_chief, multi_worker, tell, worker_of
from ..rows import OfLength, local_batch, without_autotuning
from .callbacks import may_choose
from .epochs import StepsPerExecution, can_begin_at, remember_epochs, set_pace, training_epochs
from .execution import make_function, moving_statistics
from .tracing import build


def _local_dataset(dataset: Any, strategy: Any, *, told: bool, ahead: bool) -> Any:
    """Return this worker's parts of the global batches, or the data set as distributed by TensorFlow.

    A worker with several devices needs values per replica, so it keeps TensorFlow's own distributed iterator.
    With the auto-shard policy ``FILE``, rows are selected if the worker can then leave the files of other
    rows alone; else TensorFlow divides the files. ``told`` adds to the run's notes how the worker gets its
    rows. With ``ahead``, they are read before they are asked for.
    """
    import tensorflow as tf

    if isinstance(dataset, tf.distribute.DistributedDataset):
        return dataset
    worker, workers = worker_of(strategy)
    if (parts := getattr(dataset, "tfmuster_parts", None)) is not None:
        return parts(worker, workers)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    policies = tf.data.experimental.AutoShardPolicy
    by_position = policy in (policies.DATA, policies.AUTO, policies.FILE)
    if not by_position or len(strategy.extended.worker_devices) > 1:
        return strategy.experimental_distribute_dataset(dataset)
    selection = select_rows(dataset, worker, workers)
    if policy == policies.FILE and selection.reads_all:
        return shard_files(dataset, strategy)
    if is_chief(strategy) and told:
        tell("input", selection.why, selected=selection.dataset is not None)
    parts = selection.dataset
    if parts is None:
        parts = dataset.map(
            tf.autograph.experimental.do_not_convert(
                lambda *batch: local_batch(batch if is_tuple(dataset) else batch[0], worker, workers)
            ),
            num_parallel_calls=tf.data.AUTOTUNE if ahead else None,
        )
    options = tf.data.Options()
    # In another order, the workers' parts of a batch would overlap.
    options.deterministic = True
    return (parts.prefetch(tf.data.AUTOTUNE) if ahead else parts).with_options(options)


def _pauses(adapter: Any) -> bool:
    """Return whether nobody may read data between epochs: an endless PyDataset with threads or processes."""
    return getattr(adapter, "enqueuer", None) is not None and adapter.num_batches is None


def _has_its_order(data: Any) -> bool:
    """Return whether `data` is a data set that tfmuster has made, shuffled or not."""
    import tensorflow as tf

    own = isinstance(data, tf.data.Dataset) and are_own_rows(data)
    return own or getattr(data, "tfmuster_parts", None) is not None


def _one_local_replica(strategy: Any) -> bool:
    """Return whether a distributed iterator would only add a thread to the data set's own iterator.

    TensorFlow 2.21 can crash in that thread (MultiDeviceIterator) when Keras drops the iterator at the end of
    a call: seen in one of 12 trainings under CentralStorageStrategy.
    """
    import tensorflow as tf

    return strategy.num_replicas_in_sync == 1 and not isinstance(
        strategy, tf.distribute.ParameterServerStrategy
    )


def patch_trainer() -> None:
    """Replace what the trainer does with several workers; otherwise call Keras's own code."""
    import tensorflow as tf

    epochs = seams.EPOCHS.get()
    stock_build, stock_init = seams.MAYBE_SYMBOLIC_BUILD.get(), seams.EPOCHS_INIT.get()
    stock_catch = seams.CATCH_STOP.get()

    @functools.wraps(stock_init)
    def init(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        several = multi_worker(distribute_strategy)
        if _has_its_order(kwargs.get("x")):
            # Keras would warn that it does not shuffle them.
            kwargs["shuffle"] = False
        feed = take_generator(kwargs, distribute_strategy)
        set_feed(self, feed)
        if not several and not _one_local_replica(distribute_strategy):
            stock_init(self, distribute_strategy, *args, **kwargs)
            return
        if several:
            agree_on_seed(distribute_strategy)
        super(epochs, self).__init__(*args, **kwargs)
        given = kwargs["x"] if "x" in kwargs else args[0]
        seams.EPOCHS_STRATEGY.set(self, distribute_strategy)
        own_data = several and are_own_rows(given)
        if several:
            self._tfmuster_recorded = Recorded(self.data_adapter)
            if not own_data:
                share_order(self.data_adapter, distribute_strategy)
        dataset = self.data_adapter.get_tf_dataset()
        if several and (own_data or are_own_rows(dataset)):
            refuse_several_devices(distribute_strategy)
            own_rows = read_own_rows(
                local_part(dataset), self.data_adapter.num_batches, self.steps_per_epoch, distribute_strategy
            )
            self.data_adapter = OfLength(self.data_adapter, own_rows.steps)
            seams.EPOCHS_DATASET.set(self, without_autotuning(own_rows.dataset))
            Call.reads(self)
            return
        parts = getattr(dataset, "tfmuster_parts", None)
        if parts is not None and feed is None:
            own = worker_of(distribute_strategy) if several else (None, 1)
            can_begin_at(self, lambda batches: parts(*own, skip=batches))
        if several:
            own_pipeline = dataset is seams.ADAPTED_DATASET.of(self.data_adapter, None)
            ahead = not _pauses(self.data_adapter)
            dataset = _local_dataset(dataset, distribute_strategy, told=own_pipeline, ahead=ahead)
        seams.EPOCHS_DATASET.set(self, without_autotuning(dataset))
        Call.reads(self)

    @functools.wraps(stock_build)
    def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None:
            remember_epochs(self, iterator)
        strategy = seams.MODEL_STRATEGY.of(self)
        fed = strategy is not None and feed_of(iterator) is not None
        if iterator is None or not (fed or multi_worker(strategy)):
            stock_build(self, iterator=iterator, data_batch=data_batch)
            return
        build(self, iterator)
        check_labels(self, iterator.data_adapter)

    @functools.wraps(stock_catch)
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        recorded: Recorded | None = getattr(self, "_tfmuster_recorded", None)
        with stock_catch(self):
            try:
                yield
            except StopIteration:
                # Keras only warns, and trains on less.
                if recorded is not None and recorded.ended is not None and self.steps_per_epoch:
                    raise generator_ended(recorded.ended, self.steps_per_epoch) from None
                raise
            except tf.errors.OpError as error:
                if recorded is None:
                    raise
                # TensorFlow's error has the text of the exception, but not the exception.
                exceptions = recorded.exceptions
                cause = (
                    raised(exceptions[0])
                    if exceptions
                    else cause_in(local_part(seams.ADAPTED_DATASET.of(self.data_adapter, None)), error)
                )
                if cause is None:
                    raise
                raise cause from (exceptions[0] if exceptions else error)

    paces: weakref.WeakKeyDictionary[Any, StepsPerExecution | None] = weakref.WeakKeyDictionary()

    def maker(stock: Callable[..., Any], function: str, step: str) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make(self: Any, force: bool = False) -> Any:
            if not multi_worker(seams.MODEL_STRATEGY.of(self)):
                return stock(self, force=force)
            # TensorFlow's distributed iterator keeps one step per execution.
            local = isinstance(seams.EPOCHS_DATASET.of(training_epochs(self), None), tf.data.Dataset)
            exact = step == "test_step" or not moving_statistics(self)
            chooses = local and exact and may_choose(self)
            chooses = agree_on_call(self, training_epochs(self), chooses=chooses)
            made = getattr(self, function)
            if made is None or force or (paces.get(made) is not None) != chooses:
                pace = StepsPerExecution() if chooses else None
                made = make_function(self, getattr(self, step), pace)
                setattr(self, function, made)
                paces[made] = pace
            set_pace(self, paces[made])
            return made

        return make

    seams.EPOCHS_INIT.replace(init)
    seams.CATCH_STOP.replace(catch_stop_iteration)
    seams.MAYBE_SYMBOLIC_BUILD.replace(symbolic_build)
    seams.MAKE_TRAIN.replace(maker(seams.MAKE_TRAIN.get(), "train_function", "train_step"))
    seams.MAKE_TEST.replace(maker(seams.MAKE_TEST.get(), "test_function", "test_step"))
