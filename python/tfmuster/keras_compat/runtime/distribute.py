"""Make one multi-worker strategy the default of a program that makes none.

Under the default strategy every model of the program belongs to all workers, whatever makes it: layers, a
subclass, ``keras.models.load_model``, ``keras.applications``.

TensorFlow can join a cluster only before it starts, and its devices can be set only before. So the strategy
is made when TensorFlow is about to start, by the first tensor or variable, or when Keras or the program first
asks for the strategy in force, as every model does. It is not made at the import of Keras, because ``import
tensorflow`` imports Keras, and a program sets devices after that. A
``tf.distribute.MultiWorkerMirroredStrategy()`` of the program itself is or becomes this strategy. Any other
strategy is refused, because TensorFlow doesn't enter one strategy inside of another.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ...environment import full_workers
from ...errors import StrategyError
from ...options.hints import Hint
from ...system.register import Seam
from ...words import Words
from .. import seams
from ..data.pipelines import batch_step
from ..data.worker_data import only_this_worker_has
from ..process import PROCESS, multi_worker, worker_of

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

_SCALED = "_tfmuster_scaled"


def patch_default_strategy(after: Callable[[], None]) -> None:
    """Make one strategy before the imported TensorFlow starts, and call ``after`` once when it is made."""
    import tensorflow as tf

    stock_init, stock_start = seams.COLLECTIVE_INIT.get(), seams.START.get()
    # Not the function of tf.compat.v1: a later "import tensorflow.compat.v1" makes that module anew.
    stock_reset, stock_variable = seams.RESET_GRAPHS.get(), seams.MAKE_VARIABLE.get()

    def new(cls: Any, *args: object, **kwargs: object) -> Any:
        return PROCESS.default or object.__new__(cls)

    @seams.COLLECTIVE_INIT.wrap
    def init(self: Any, *args: object, **kwargs: object) -> None:
        if PROCESS.default:
            return
        PROCESS.makes_default = True
        stock_init(self, *args, **kwargs)
        if multi_worker(self):
            PROCESS.default = self
            after()
            _set_default()

    @seams.START.wrap
    def start(self: Any) -> None:
        if not seams.STARTED.of(self):
            _make()
        stock_start(self)

    @seams.MAKE_VARIABLE.wrap
    def variable(cls: Any, *args: object, **kwargs: object) -> Any:
        # It looks for a strategy before its first value starts TensorFlow. A layer of a functional model may
        # be the first thing that a program makes.
        if not PROCESS.makes_default:
            _make()
            _set_default()
        return stock_variable(cls, *args, **kwargs)

    @seams.RESET_GRAPHS.wrap
    def reset() -> None:
        # Keras's clear_session() discards the graph to which the default strategy belongs.
        if PROCESS.default and tf.distribute.has_strategy():
            tf.distribute.experimental_set_strategy(None)
        stock_reset()
        _set_default()

    def ask_after_default(seam: Seam) -> None:
        stock = seam.get()

        @seam.wrap
        def ask() -> Any:
            _make()
            _set_default()
            return stock()

    seams.STRATEGY_NEW.replace(staticmethod(_new_other))
    seams.COLLECTIVE_NEW.replace(staticmethod(new))
    for seam in seams.ASKED_FOR_STRATEGY:
        ask_after_default(seam)


def _new_other(cls: Any, *args: object, **kwargs: object) -> Any:
    """Refuse a strategy that is not the one of all workers."""
    if cls.__name__.startswith("_Default"):
        return object.__new__(cls)
    api = [*cls.__dict__.get("_tf_api_names", ())]
    api += [f"compat.v1.{name}" for name in cls.__dict__.get("_tf_api_names_v1", ())]
    raise StrategyError(
        Words(
            "A program under {} has one strategy, tf.distribute.MultiWorkerMirroredStrategy.",
            Hint("distribute", True),
        ),
        found=f"tf.{api[0]}" if api else cls.__name__,
        fix=Words(
            "leave this strategy out of the program; or leave {} out, and train under a strategy of all "
            "workers",
            Hint("distribute", True),
        ),
        strategy="multi_worker_mirrored",
        reason="distribute",
    )


def _make() -> None:
    """Make the strategy, unless it exists, or is being made by this call or by the program."""
    import tensorflow as tf

    if not PROCESS.makes_default and threading.current_thread() is threading.main_thread():
        tf.distribute.MultiWorkerMirroredStrategy()


def _set_default() -> None:
    """Make the strategy the default one, unless this is inside of a function, a scope or another thread."""
    inside = (
        PROCESS.default is None
        or threading.current_thread() is not threading.main_thread()
        or not seams.EXECUTING_EAGERLY.get()()
        or seams.HAS_STRATEGY.get()()
        or seams.CONTEXT.get()().device_name
        or seams.VARIABLE_CREATORS.of(seams.DEFAULT_GRAPH.get()())
    )
    if not inside:
        seams.SET_STRATEGY.get()(PROCESS.default)


def require_tensorflow(package: str) -> None:
    """Raise a StrategyError if the imported ``keras`` or ``tf_keras`` has another backend than TensorFlow."""
    module: Any = importlib.import_module(package)
    backend = "tensorflow" if package == "tf_keras" else module.config.backend()
    if backend != "tensorflow":
        raise StrategyError(
            Words("{} is for Keras on TensorFlow.", Hint("distribute", True)),
            found=f"the backend {backend}",
            fix="leave it out; on JAX, call keras.distribution.initialize() and set_distribution()",
            strategy="multi_worker_mirrored",
            reason="distribute",
        )


def scaled_batches(
    signature: inspect.Signature, model: keras.Model, args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments of a ``fit`` with the batch size multiplied by the number of workers."""
    strategy = model.distribute_strategy
    workers = full_workers(worker_of(strategy)[1] if multi_worker(strategy) else 1)
    if workers == 1:
        return args, kwargs
    bound = signature.bind(model, *args, **kwargs)
    bound.arguments.update(_scaled(bound.arguments, workers))
    return bound.args[1:], bound.kwargs


def _scaled(arguments: Mapping[str, Any], workers: int) -> dict[str, Any]:
    """Return the arguments of ``fit`` that change so that its batches have ``workers`` times as many rows."""
    import tensorflow as tf

    data = arguments.get("x")
    if only_this_worker_has(data):
        # Their batch size is that of a worker already.
        return {}
    if isinstance(data, tf.data.Dataset):
        # A later `fit` continues with the orders and the cached rows of this one.
        if (scaled := data.__dict__.get(_SCALED)) is None:
            rows, drop_remainder = _batches_of(data)
            data.__dict__[_SCALED] = scaled = data.rebatch(workers * rows, drop_remainder)
        return {"x": scaled}
    if hasattr(data, "__len__") or hasattr(data, "shape"):
        from keras.utils import PyDataset

        if not isinstance(data, PyDataset):
            size = arguments.get("batch_size")
            return {"batch_size": workers * (32 if size is None else size)}
    raise _not_scaled(type(data).__name__)


def _batches_of(dataset: tf.data.Dataset) -> tuple[int, bool]:
    """Return the rows of a data set's batches, and whether a smaller last one is left out."""
    import tensorflow as tf

    step = batch_step(dataset)
    if (size := seams.BATCH_SIZE.of(step, None)) is None:
        raise _not_scaled(f"a data set that ends in {type(step).__name__}")
    return int(tf.get_static_value(size)), bool(tf.get_static_value(seams.DROP_REMAINDER.of(step)))


def _not_scaled(found: str) -> StrategyError:
    return StrategyError(
        Words(
            "{} multiplies the batch size of arrays and of tf.data's batch() only.", Hint("scale_batch", True)
        ),
        found=found,
        fix=Words("leave {} out, and choose larger batches in the program", Hint("scale_batch", True)),
        strategy="multi_worker_mirrored",
        reason="scale-batch",
    )
