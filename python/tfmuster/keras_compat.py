"""Make Keras 3 train under ``MultiWorkerMirroredStrategy`` (MWMS).

Keras 3's TensorFlow trainer does not run on several workers: its symbolic build hands distributed values to
``strategy.reduce``, and it reduces scalar logs along an axis that they do not have
(keras-team/keras#20585, #20601). This module replaces, under MWMS with several workers only, the parts of the
trainer that know about distribution. It is the only module of tfmuster that touches private API.

What it does instead
--------------------
- **Input.** Every worker iterates an ordinary local ``tf.data`` pipeline that yields its own rows of each
  global batch, cut by position, together with the number of rows of the whole. No distributed iterator, so
  no agreement about the end of the data in every step, and a shuffled, seeded data set keeps the order
  that it has without a strategy.
- **Loss.** A worker's loss counts by its share of the global batch, so that the summed gradients are those
  of one process on the whole batch, also for a partial last batch.
- **Logs and moving statistics.** One all-reduce of one packed vector per execution gives all workers the
  same logs and, for layers such as BatchNormalization, the same non-trainable weights.
- **Files.** Callbacks run on every worker, but only the chief writes; a backup is restored on the chief and
  sent to the others.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .sharding import Part, part_of

#: Keras releases that the tests run with, oldest and newest (``make matrix``).
TESTED = ((3, 3), (3, 15))

_scale = threading.local()
_applied = False


def apply() -> None:
    """Repair the imported Keras 3 for MWMS. Safe to call twice; does nothing to one-process training."""
    global _applied
    if _applied or os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return
    import keras

    version = tuple(int(part) for part in keras.__version__.split(".")[:2])
    if version[0] != 3:
        return
    if not TESTED[0] <= version <= TESTED[1]:
        warnings.warn(
            f"tfmuster repairs Keras for several workers; it was tested with Keras 3.{TESTED[0][1]} to "
            f"3.{TESTED[1][1]}, this is {keras.__version__}",
            stacklevel=2,
        )
    from keras.src import callbacks, models
    from keras.src.backend.tensorflow import trainer
    from keras.src.losses import loss

    _patch_trainer(trainer)
    _patch_loss(loss)
    _patch_files(models.Model, callbacks)
    _applied = True


def tensorflow_started() -> bool:
    """Whether TensorFlow's runtime has been set up, after which it can't join a cluster."""
    from tensorflow.python.eager import context

    return bool(context.context()._initialized)


def multi_worker(strategy: Any) -> bool:
    """Whether ``strategy`` is an MWMS that was made from a cluster."""
    import tensorflow as tf

    return (
        isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        and strategy.extended._in_multi_worker_mode()
    )


def is_chief(strategy: Any) -> bool:
    """Whether this process is the one that writes files under ``strategy``."""
    if not multi_worker(strategy):
        return True
    resolver = strategy.cluster_resolver
    chief = "chief" in resolver.cluster_spec().jobs
    return bool(resolver.task_type == "chief" or (not chief and resolver.task_id == 0))


# ---- input ---------------------------------------------------------------------------------------------


def worker_of(strategy: Any) -> tuple[int, int]:
    """(index of this worker among the training tasks, number of them)."""
    context = strategy.extended._make_input_context()
    return context.input_pipeline_id, context.num_input_pipelines


def _cut(batch: Any, worker: int, workers: int) -> Part:
    """The rows of one worker out of a global batch."""
    import tensorflow as tf

    rows = tf.shape(next(t for t in tf.nest.flatten(batch) if t is not None), out_type=tf.int64)[0]
    start, stop = part_of(rows, worker, workers)
    return Part(tf.nest.map_structure(lambda t: t if t is None else t[start:stop], batch), rows)


def _local_dataset(dataset: Any, strategy: Any) -> Any:
    """This worker's parts of ``dataset``, whose elements are global batches; or the data set, distributed.

    A data set with the auto-shard policies ``OFF`` or ``FILE`` is not the same on every worker, and a worker
    with several devices needs values per replica: both keep TensorFlow's own distributed iterator.
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
        lambda *batch: _cut(batch if len(batch) > 1 else batch[0], worker, workers),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    return parts.prefetch(tf.data.AUTOTUNE)


def agree_on_seed(strategy: Any) -> None:
    """Give all workers one global TensorFlow seed, drawn by the chief, unless the user has set one.

    Unseeded shuffling would otherwise differ between workers, whose parts of a global batch would then
    overlap.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    if context.global_seed() is None:
        drawn = tf.cast(int.from_bytes(os.urandom(3), "big") if is_chief(strategy) else 0, tf.int32)
        tf.random.set_seed(int(strategy.reduce("SUM", drawn, axis=None)))


def _as_spec(spec: Any) -> Any:
    """What one replica sees of ``spec``: a tensor's spec, or None for an absent value."""
    import tensorflow as tf

    values = getattr(spec, "_value_specs", None)
    if values is not None:
        return values[0]
    return spec if isinstance(spec, tf.TypeSpec) and hasattr(spec, "shape") else None


# ---- one execution: some steps, then one all-reduce ---------------------------------------------------


@contextlib.contextmanager
def _loss_share(share: Any) -> Iterator[None]:
    """Within: a loss counts by ``share``, the rows of this worker over those of the global batch."""
    _scale.share = share
    try:
        yield
    finally:
        _scale.share = None


def _moving_statistics(model: Any) -> list[Any]:
    """Weights that layers update outside of the optimizer, e.g. BatchNormalization's moving mean."""
    return [
        variable
        for layer in model._flatten_layers()
        for variable in getattr(layer, "_non_trainable_variables", [])
        if "float" in str(variable.dtype)
    ]


def _pack(tensors: list[Any]) -> Any:
    import tensorflow as tf

    return tf.concat([tf.reshape(tf.cast(t, tf.float32), [-1]) for t in tensors], axis=0)


def _unpack(packed: Any, like: list[Any]) -> list[Any]:
    import tensorflow as tf

    parts = tf.split(packed, [tf.size(t) for t in like])
    return [tf.cast(tf.reshape(part, tf.shape(t)), t.dtype) for part, t in zip(parts, like, strict=True)]


def _all_reduce_mean(tensors: list[Any]) -> list[Any]:
    """The mean over the workers of each tensor, by one collective. To be called in a replica's context."""
    import tensorflow as tf

    if not tensors:
        return []
    context = tf.distribute.get_replica_context()
    return _unpack(context.all_reduce(tf.distribute.ReduceOp.MEAN, _pack(tensors)), tensors)


def _make_function(trainer: Any, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What ``fit`` and ``evaluate`` call: take an iterator, run ``steps_per_execution`` steps, return logs."""
    import tensorflow as tf

    strategy = trainer.distribute_strategy
    if trainer.jit_compile:
        from .errors import StrategyError

        raise StrategyError(
            "jit_compile=True does not work on several workers: TensorFlow has no collectives for XLA on CPUs",
            fix="compile(..., jit_compile=False)",
            strategy="multi_worker_mirrored",
            reason="jit-compile",
        )
    # Without this, a gradient's all-reduce can't stand in a branch (gradient accumulation) or a loop.
    strategy.extended._use_merge_call = lambda: False

    def absent_to_none(data: Any) -> Any:
        return tf.nest.map_structure(lambda t: None if isinstance(t, tf.experimental.Optional) else t, data)

    def replica_step(part: Any) -> Any:
        if not isinstance(part, Part):
            return step(absent_to_none(part))
        data = absent_to_none(part.data)
        rows = tf.shape(next(t for t in tf.nest.flatten(data) if t is not None), out_type=tf.int64)[0]
        statistics = _moving_statistics(trainer)
        before = [tf.identity(v.value) for v in statistics]
        with _loss_share(tf.cast(rows, tf.float32) / tf.cast(part.global_rows, tf.float32)):
            outputs = step(data)
        # A worker without rows has nothing to say about the statistics of this batch.
        for variable, old in zip(statistics, before, strict=True):
            variable.assign(tf.where(rows > 0, variable.value, old))
        return outputs

    def agree(outputs: Any, before: list[Any]) -> Any:
        """The means of the workers' logs; statistics move by the mean of the workers' moves."""
        statistics = _moving_statistics(trainer)
        moves = [v.value - old for v, old in zip(statistics, before, strict=True)]
        logs = [tf.convert_to_tensor(t) for t in tf.nest.flatten(outputs)]
        means = _all_reduce_mean(logs + moves)
        for variable, old, move in zip(statistics, before, means[len(logs) :], strict=True):
            variable.assign(old + move)
        return tf.nest.pack_sequence_as(outputs, means[: len(logs)])

    def several(iterator: Any, first: Any) -> Any:
        """Steps until ``steps_per_execution`` or the end of the data, as one loop of the graph."""
        outputs = tf.experimental.Optional.empty(None)
        start = outputs

        def body(done: Any, _: Any, following: Any) -> Any:
            latest = tf.experimental.Optional.from_value(
                strategy.run(replica_step, args=(following.get_value(),))
            )
            # The loop's first value must have the type that only tracing the body tells.
            start._element_spec = latest.element_spec
            following = tf.cond(
                done + 1 < trainer.steps_per_execution,
                iterator.get_next_as_optional,
                lambda: following,
            )
            return done + 1, latest, following

        def more(done: Any, _: Any, following: Any) -> Any:
            return tf.logical_and(done < trainer.steps_per_execution, following.has_value())

        _, outputs, _ = tf.while_loop(more, body, (tf.constant(0), outputs, first))
        outputs._element_spec = start._element_spec
        return outputs.get_value()

    def finish(run: Callable[[], Any]) -> Any:
        before = strategy.run(lambda: [tf.identity(v.value) for v in _moving_statistics(trainer)])
        return strategy.run(agree, args=(run(), before))

    @tf.autograph.experimental.do_not_convert
    def execution(iterator: Any) -> Any:
        first = iterator.get_next_as_optional()
        spec: list[Any] = []

        def run() -> Any:
            if trainer.steps_per_execution == 1:
                return strategy.run(replica_step, args=(first.get_value(),))
            return several(iterator, first)

        def train() -> Any:
            outputs = tf.experimental.Optional.from_value(finish(run))
            spec.append(outputs.element_spec)
            return outputs

        def end() -> Any:
            return tf.experimental.Optional.empty(spec[0] if spec else tf.TensorSpec([]))

        return tf.cond(first.has_value(), train, end)

    @tf.autograph.experimental.do_not_convert
    def on_batch(part: Part) -> Any:
        return finish(lambda: strategy.run(replica_step, args=(part,)))

    if not trainer.run_eagerly:
        execution = tf.function(execution, reduce_retracing=True)
        on_batch = tf.function(on_batch, reduce_retracing=True)

    def function(iterator: Any) -> Any:
        if not isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            batch = tf.nest.map_structure(
                lambda t: t if t is None else tf.convert_to_tensor(t), next(iter(iterator))
            )
            logs = on_batch(_cut(batch, *worker_of(strategy)))
            return trainer._get_metrics_result_or_logs(logs)
        outputs = execution(iterator)
        if not outputs.has_value():
            raise StopIteration
        return outputs.get_value()

    return function


# ---- the patches -----------------------------------------------------------------------------------------


def _patch_trainer(module: Any) -> None:
    trainer, epochs = module.TensorFlowTrainer, module.TFEpochIterator
    stock_build, stock_init = trainer._maybe_symbolic_build, epochs.__init__

    @functools.wraps(stock_init)
    def init(self: Any, distribute_strategy: Any = None, *args: Any, **kwargs: Any) -> None:
        if not multi_worker(distribute_strategy):
            stock_init(self, distribute_strategy, *args, **kwargs)
            return
        agree_on_seed(distribute_strategy)
        super(epochs, self).__init__(*args, **kwargs)
        self._distribute_strategy = distribute_strategy
        self._distributed_dataset = _local_dataset(self.data_adapter.get_tf_dataset(), distribute_strategy)

    @functools.wraps(stock_build)
    def symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        import tensorflow as tf

        if iterator is None or not multi_worker(self._distribute_strategy):
            stock_build(self, iterator=iterator, data_batch=data_batch)
            return
        spec = iterator._distributed_dataset.element_spec
        spec = tf.nest.map_structure(_as_spec, spec.data if isinstance(spec, Part) else spec)
        with self.distribute_strategy.scope():
            self._symbolic_build(data_batch=spec)

    def maker(stock: Callable[..., Any], function: str, step: str) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make(self: Any, force: bool = False) -> Any:
            if not multi_worker(self._distribute_strategy):
                return stock(self, force=force)
            if getattr(self, function) is None or force:
                setattr(self, function, _make_function(self, getattr(self, step)))
            return getattr(self, function)

        return make

    stock_predict = trainer.make_predict_function

    @functools.wraps(stock_predict)
    def make_predict(self: Any, force: bool = False) -> Any:
        if multi_worker(self._distribute_strategy) and (self.predict_function is None or force):
            stock_predict(self, force=True)
            stock, worker = self.predict_function, worker_of(self.distribute_strategy)

            def parts(data: list[Any]) -> Any:
                return stock([d.data if isinstance(d, Part) else _cut(d, *worker).data for d in data])

            self.predict_function = parts
            return parts
        return stock_predict(self, force=force)

    epochs.__init__ = init
    trainer._maybe_symbolic_build = symbolic_build
    trainer.make_train_function = maker(trainer.make_train_function, "train_function", "train_step")
    trainer.make_test_function = maker(trainer.make_test_function, "test_function", "test_step")
    trainer.make_predict_function = make_predict


def _patch_loss(module: Any) -> None:
    stock_scale, stock_unscale = module.scale_loss_for_distribution, module.unscale_loss_for_distribution

    @functools.wraps(stock_scale)
    def scale(value: Any) -> Any:
        import tensorflow as tf

        share = getattr(_scale, "share", None)
        if share is None:
            return stock_scale(value)
        # The mean over no rows is not a number; it counts for nothing.
        share = tf.cast(share, value.dtype)
        return tf.where(share > 0, value * share, tf.zeros_like(value))

    @functools.wraps(stock_unscale)
    def unscale(value: Any) -> Any:
        import tensorflow as tf

        share = getattr(_scale, "share", None)
        if share is None:
            return stock_unscale(value)
        return tf.math.divide_no_nan(value, tf.cast(share, value.dtype))

    module.scale_loss_for_distribution = scale
    module.unscale_loss_for_distribution = unscale


@functools.cache
def _scratch() -> str:
    """A folder for what the workers other than the chief write and nobody reads."""
    import atexit

    folder = tempfile.mkdtemp(prefix="tfmuster-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _patch_files(model_class: Any, callbacks: Any) -> None:
    """Let all workers take part in saving, as reading distributed metrics needs them all; the chief writes."""

    def redirect_save(name: str) -> None:
        stock = getattr(model_class, name)

        @functools.wraps(stock)
        def save(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            if not is_chief(self._distribute_strategy):
                filepath = os.path.join(_scratch(), os.path.basename(os.fspath(filepath)))
                kwargs["overwrite"] = True
            return stock(self, filepath, *args, **kwargs)

        setattr(model_class, name, save)

    def redirect_callback(callback: Any, *paths: str) -> None:
        stock = callback.set_model

        @functools.wraps(stock)
        def set_model(self: Any, model: Any) -> None:
            if not is_chief(model._distribute_strategy):
                for path in paths:
                    setattr(self, path, os.path.join(_scratch(), os.path.basename(getattr(self, path))))
            stock(self, model)

        callback.set_model = set_model

    redirect_save("save")
    redirect_save("save_weights")
    redirect_callback(callbacks.TensorBoard, "log_dir")
    redirect_callback(callbacks.CSVLogger, "filename")
    redirect_callback(callbacks.BackupAndRestore, "backup_dir", "_weights_path", "_training_metadata_path")
    stock_restore = callbacks.BackupAndRestore.on_train_begin

    @functools.wraps(stock_restore)
    def restore(self: Any, logs: Any = None) -> None:
        strategy = self.model._distribute_strategy
        if is_chief(strategy):
            stock_restore(self, logs)
        if multi_worker(strategy):
            _send_from_chief(self.model, strategy)

    callbacks.BackupAndRestore.on_train_begin = restore


def _send_from_chief(model: Any, strategy: Any) -> None:
    """Give every worker the chief's epoch, weights and optimizer state, where the chief has restored some."""
    import tensorflow as tf

    chief = is_chief(strategy)

    def sent(value: Any) -> Any:
        return strategy.reduce("SUM", value if chief else tf.zeros_like(value), axis=None)

    epoch = int(sent(tf.constant((model._initial_epoch or 0) if chief else 0)))
    if not epoch:
        return
    model._initial_epoch = epoch
    for variable in [*model.weights, *model.optimizer.variables]:
        value = tf.convert_to_tensor(variable.value)
        # TensorFlow's collectives know neither booleans nor unsigned integers.
        wire = value if value.dtype.is_floating else tf.cast(value, tf.int64)
        variable.assign(tf.cast(sent(wire), value.dtype))


# ---- programs that never heard of tfmuster ---------------------------------------------------------------


def install_import_hook() -> None:
    """Call :func:`apply` as soon as Keras has been imported, now or later in this process."""
    if "keras" in sys.modules:
        apply()
    else:
        sys.meta_path.insert(0, _AfterKeras())


class _AfterKeras:
    """A finder that lets the other finders import Keras, and then repairs it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "keras":
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            apply()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
