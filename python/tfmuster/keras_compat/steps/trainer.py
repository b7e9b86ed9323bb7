"""Patch Keras's TensorFlow trainer and its epoch iterator for several workers."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ...system.register import Seam
from .. import seams
from ..agreement.comparison import agree_on_call, agree_on_seed
from ..agreement.documents import Call
from ..data.data_errors import check_labels, generator_ended, of_whole_batch, raised
from ..data.order import in_order, refuse_servers
from ..data.pipelines import compared_of, shard_files
from ..data.python_data import Recorded, share_order, take_generator
from ..data.row_selection import select_rows
from ..data.unreadable_rows import cause_in
from ..data.worker_batches import worker_pipeline
from ..data.worker_data import only_this_worker_has, refuse_several_devices, undistributed
from ..process import is_chief, multi_worker, tell, worker_of
from ..rows import OfLength, attached_pipeline, without_autotuning, worker_rows
from .callbacks import may_choose
from .epochs import StepsPerExecution, remember_epochs, state_of, training_epochs
from .execution import Executions
from .replica_step import moving_statistics
from .tracing import build

if TYPE_CHECKING:
    import keras

    from ..agreement.documents import EpochIterator


def _distributed(
    dataset: tf.data.Dataset | tf.distribute.DistributedDataset,
    strategy: tf.distribute.Strategy,
    *,
    told: bool,
    ahead: bool,
) -> tf.data.Dataset | tf.distribute.DistributedDataset:
    """Return this worker's parts of the global batches, or the data set as distributed by TensorFlow.

    A worker with several devices needs values per replica, so it keeps TensorFlow's own distributed iterator.
    With the auto-shard policy ``FILE``, rows are selected if the worker can then leave the files of other
    rows alone; else TensorFlow divides the files. ``told`` adds to the run's notes how the worker gets its
    rows. With ``ahead``, they are read before they are asked for.
    """
    if isinstance(dataset, tf.distribute.DistributedDataset):
        return dataset
    worker, workers = worker_of(strategy)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    policies = tf.data.experimental.AutoShardPolicy
    by_position = policy in (policies.DATA, policies.AUTO, policies.FILE)
    if not by_position or len(strategy.extended.worker_devices) > 1:
        return strategy.experimental_distribute_dataset(dataset)
    refuse_servers(dataset)
    selection = select_rows(dataset, worker, workers)
    if policy == policies.FILE and selection.reads_all:
        return shard_files(dataset, strategy)
    if is_chief(strategy) and told:
        tell("input", selection.why, selected=selection.dataset is not None)
    parts = selection.dataset
    if parts is None:
        calls = tf.data.AUTOTUNE if ahead else None
        parts = worker_rows(dataset, worker, workers, compared_of(dataset), num_parallel_calls=calls)
    # In another order, the workers' parts of a batch would overlap.
    return in_order(parts.prefetch(tf.data.AUTOTUNE) if ahead else parts)


def _prepare(epochs: EpochIterator, strategy: tf.distribute.Strategy, data: object) -> None:
    """Give an epoch iterator the data of this worker, in place of those that Keras would distribute."""
    adapter, state, several = epochs.data_adapter, state_of(epochs), multi_worker(strategy)
    per_worker = several and only_this_worker_has(data)
    if several:
        state.recorded = Recorded(adapter)
        if not per_worker:
            share_order(adapter, strategy)
    dataset = adapter.get_tf_dataset()
    if several and (per_worker or only_this_worker_has(dataset)):
        refuse_several_devices(strategy)
        dataset, steps = worker_pipeline(dataset, adapter.num_batches, epochs.steps_per_epoch, strategy)
        epochs.data_adapter = OfLength(adapter, steps)
    elif state.feed is not None:
        if several:
            # Without prefetching, which would wait for batches that nobody has requested.
            dataset = worker_rows(dataset, *worker_of(strategy), compared_of(dataset))
    elif (pipeline := attached_pipeline(dataset)) is not None:
        place = worker_of(strategy) if several else (None, 1)
        state.data_from = lambda batches: pipeline(*place, skip=batches)
        if several:
            dataset = pipeline(*place)
    elif several:
        # Nobody may read data between epochs of an endless PyDataset with threads or processes.
        pauses = getattr(adapter, "enqueuer", None) is not None and adapter.num_batches is None
        made_by_program = dataset is seams.ADAPTED_DATASET.of(adapter, None)
        dataset = _distributed(dataset, strategy, told=made_by_program, ahead=not pauses)
    seams.EPOCHS_DATASET.set(epochs, without_autotuning(dataset))


def patch_trainer() -> None:
    """Replace what the trainer does with several workers; otherwise call Keras's own code."""
    epochs = seams.EPOCHS.get()
    stock_build, stock_init = seams.MAYBE_SYMBOLIC_BUILD.get(), seams.EPOCHS_INIT.get()
    stock_catch = seams.CATCH_STOP.get()

    @functools.wraps(stock_init)
    def init(
        self: Any,
        distribute_strategy: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if "x" not in kwargs:
            kwargs["x"], args = args[0], args[1:]
        data = kwargs["x"]
        if multi_worker(distribute_strategy):
            data = kwargs["x"] = undistributed(data)
        marked = isinstance(data, tf.data.Dataset) and only_this_worker_has(data)
        if marked or attached_pipeline(data) is not None:
            # They have their order, and Keras would warn that it does not shuffle them.
            kwargs["shuffle"] = False
        state_of(self).feed = take_generator(kwargs, distribute_strategy)
        if multi_worker(distribute_strategy):
            agree_on_seed(distribute_strategy)
        elif distribute_strategy.num_replicas_in_sync > 1 or isinstance(
            distribute_strategy, tf.distribute.ParameterServerStrategy
        ):
            stock_init(self, distribute_strategy, *args, **kwargs)
            return
        # With one local replica, a distributed iterator would only add a thread to the data set's own one.
        # TensorFlow 2.21 can crash in that thread (MultiDeviceIterator) when Keras drops the iterator at the
        # end of a call: seen in one of 12 trainings under CentralStorageStrategy.
        super(epochs, self).__init__(*args, **kwargs)
        seams.EPOCHS_STRATEGY.set(self, distribute_strategy)
        _prepare(self, distribute_strategy, data)
        Call.reads(self)

    @functools.wraps(stock_build)
    def symbolic_build(
        self: keras.Model, iterator: EpochIterator | None = None, data_batch: object = None
    ) -> None:
        if iterator is not None:
            remember_epochs(self, iterator)
        strategy = seams.MODEL_STRATEGY.of(self)
        fed = strategy is not None and iterator is not None and state_of(iterator).feed is not None
        if iterator is None or not (fed or multi_worker(strategy)):
            stock_build(self, iterator=iterator, data_batch=data_batch)
            return
        try:
            build(self, iterator)
        except ValueError as error:
            if (cause := of_whole_batch(error, worker_of(strategy)[1])) is None:
                raise
            raise cause from error
        check_labels(self, iterator.data_adapter)

    @functools.wraps(stock_catch)
    @contextlib.contextmanager
    def catch_stop_iteration(self: Any) -> Iterator[None]:
        recorded = state_of(self).recorded
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
                if recorded.exceptions:
                    raise raised(recorded.exceptions[0]) from recorded.exceptions[0]
                cause = cause_in(seams.ADAPTED_DATASET.of(self.data_adapter, None), error)
                if cause is None:
                    raise
                raise cause from error

    def replace_maker(seam: Seam, function: str, step: str) -> None:
        stock = seam.get()

        @functools.wraps(stock)
        def make(self: keras.Model, force: bool = False) -> Callable[..., Any]:
            if not multi_worker(seams.MODEL_STRATEGY.of(self)):
                return stock(self, force=force)  # type: ignore[no-any-return]
            current = training_epochs(self)
            # TensorFlow's distributed iterator keeps one step per execution.
            local = isinstance(seams.EPOCHS_DATASET.of(current, None), tf.data.Dataset)
            exact = step == "test_step" or not moving_statistics(self)
            chooses = agree_on_call(self, current, chooses=local and exact and may_choose(self))
            execute: Callable[..., Any] | None = getattr(self, function)
            pace: StepsPerExecution | None = getattr(execute, "pace", None)
            if execute is None or force or (pace is not None) != chooses:
                pace = StepsPerExecution() if chooses else None
                execute = Executions(self, getattr(self, step), pace)
                setattr(self, function, execute)
            if current is not None:
                state_of(current).pace = pace
            return execute

        seam.replace(make)

    seams.EPOCHS_INIT.replace(init)
    seams.CATCH_STOP.replace(catch_stop_iteration)
    seams.MAYBE_SYMBOLIC_BUILD.replace(symbolic_build)
    replace_maker(seams.MAKE_TRAIN, "train_function", "train_step")
    replace_maker(seams.MAKE_TEST, "test_function", "test_step")
