"""Refuse to train a model that belongs to one worker of a job only.

A program without a strategy would train a complete model on each worker, and the workers would replace each
other's files. The patches cover every way in which Keras changes weights: ``fit``, ``train_on_batch``, and
the optimizers, which custom loops use. They change nothing in a process that is not one of several workers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ...errors import StrategyError
from ...options.hints import Hint
from ...words import Code, Words, language
from .. import seams
from ..process import PROCESS, keras_backend, multi_worker, spans_all_processes
from ..step_rows import is_one_process
from .scopes import adopt, refuse_plain

if TYPE_CHECKING:
    import keras

    #: Raises a StrategyError if a call of a model or an optimizer would train it in this worker alone.
    Guard: TypeAlias = Callable[[keras.Model | keras.optimizers.Optimizer, str], None]

#: Lines that a program needs.
_STRATEGY = Code(
    'strategy = tfmuster.strategy("multi_worker_mirrored")  # before TensorFlow starts',
    'strategy <- tfmuster::strategy("multi_worker_mirrored")  # before library(keras3)',
)
_SCOPE = Code(
    "with strategy.scope():  # make and compile the model",
    "with(strategy$scope(), { ... })  # make and compile the model",
)
_LOOP_SCOPE = Code(
    "with strategy.scope():  # make the variables, and a Keras optimizer that is built for them",
    "with(strategy$scope(), { ... })  # make the variables, and an optimizer that is built for them",
)
_STEP = Code(
    "step = tfmuster.distributed_step(strategy, train)  # train() applies the gradients",
    "step <- tfmuster::distributed_step(strategy, train)  # applies the gradients",
)
_PS_FIT = Code(
    "tfmuster.ps_fit(model, dataset_fn, epochs=..., steps_per_epoch=...)  # instead of fit()",
    "ps_fit(model, dataset_fn, epochs = ..., steps_per_epoch = ...)  # instead of fit()",
)
_JAX = (
    "keras.distribution.initialize()",
    "keras.distribution.set_distribution(keras.distribution.DataParallel())",
)

LOOP_ALONE = "a loop computes or applies gradients outside of strategy.run(), so the workers do not add them"


def guard_of(package: str, workers: Callable[[], int]) -> Guard | None:
    """Return the guard of the imported ``keras`` or ``tf_keras``; None for a backend that trains nowhere."""
    # Each returns why a model or an optimizer trains in this worker alone; "" if it trains with the others.
    backends = {"tensorflow": _under_tensorflow, "jax": _under_jax, "torch": _under_torch}
    why_alone = backends["tensorflow"]
    if package == "keras":
        import keras

        if not keras.__version__.startswith("3.") or keras.config.backend() not in backends:
            return None
        why_alone = backends[keras.config.backend()]

    def guard(trained: keras.Model | keras.optimizers.Optimizer, call: str) -> None:
        count = workers()
        if count > 1 and not is_one_process() and (alone := why_alone(trained, call)):
            raise _refusal(call, alone, count)

    return guard


def refuse_loop(workers: int, found: str = LOOP_ALONE) -> StrategyError:
    """Return the error for a training loop that each worker would run alone."""
    return _refusal("apply", found, workers)


def _refusal(call: str, found: str, workers: int) -> StrategyError:
    jax = keras_backend() == "jax"
    lines: tuple[object, ...] = (_STRATEGY, _SCOPE)
    if call.startswith("apply"):
        lines = (_STRATEGY, _LOOP_SCOPE, _STEP)
    if type(PROCESS.strategy).__name__.startswith("ParameterServerStrategy"):
        lines = (_SCOPE, _PS_FIT)
    elif jax:
        lines = _JAX
    count = "three" if len(lines) == 3 else "two"
    what = f"add {count} lines:" if jax or language() == "r" else f"import tfmuster, and add {count} lines:"
    # A loop needs its own lines; everything else is distributed as it is.
    as_it_is = Words("launch it as it is with {}, or ", Hint("distribute", True))
    return StrategyError(
        f"The {workers} workers of this job must train one model together.",
        found=found,
        fix=Words(
            "{}\n  {}with {} if each worker is to train a model of its own",
            "\n    ".join(map(str, (what, *lines))),
            as_it_is if lines == (_STRATEGY, _SCOPE) else "",
            Hint("independent", True),
        ),
        strategy="default",
        reason="not-distributed",
    )


def _under_tensorflow(trained: keras.Model | keras.optimizers.Optimizer, call: str) -> str:
    import tensorflow as tf

    if call.startswith("apply"):
        strategy = tf.distribute.get_strategy()
        if multi_worker(strategy) and tf.distribute.in_cross_replica_context():
            return LOOP_ALONE
        refuse_plain(seams.TRAINED_VARIABLES.of(trained, None) or ())
        if not tf.distribute.has_strategy() and _on_parameter_servers(trained):
            return ""
    else:
        # The second name is that of Keras 2.
        strategy = seams.MODEL_STRATEGY.of(trained, seams.KERAS_2_STRATEGY.of(trained, None))
        if strategy is None and seams.MODEL_STRATEGY.has(trained):
            # The weights may have been made in a scope.
            adopt(trained)
            strategy = seams.MODEL_STRATEGY.of(trained)
        if strategy is None:
            place = "the scope of the strategy" if _made_here() else "a multi-worker strategy"
            return f"{call}() of a model that was made outside of {place}"
    if multi_worker(strategy) or isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return ""
    if tf.distribute.has_strategy() or not call.startswith("apply"):
        return f"{call}() under {type(strategy).__name__}, which is for the devices of one worker"
    return "an optimizer applies gradients outside of a multi-worker strategy"


def _on_parameter_servers(optimizer: keras.optimizers.Optimizer) -> bool:
    """Return whether a coordinator applies the gradients that it has gathered from its workers."""
    import tensorflow as tf

    strategy = seams.OPTIMIZER_STRATEGY.of(optimizer, None)
    variables = seams.TRAINED_VARIABLES.of(optimizer, None) or ()
    return isinstance(strategy, tf.distribute.ParameterServerStrategy) or any(
        "/job:ps" in str(getattr(getattr(variable, "value", variable), "device", ""))
        for variable in variables
    )


def _made_here() -> bool:
    """Return whether this process has a multi-worker strategy."""
    return seams.SERVER.of(seams.CONTEXT.get()(), None) is not None


def _under_jax(trained: object, call: str) -> str:
    import jax
    import keras

    if jax.process_count() < 2:
        return f"{call}() before keras.distribution.initialize()"
    # A custom loop may distribute its arrays itself.
    if call.startswith("apply"):
        return ""
    if (distribution := keras.distribution.distribution()) is None:
        return f"{call}() without a keras.distribution"
    if not spans_all_processes(distribution):
        return f"{call}() under a {type(distribution).__name__} without devices of all workers"
    return ""


def _under_torch(trained: object, call: str) -> str:
    from torch import distributed  # type: ignore[import-not-found]

    together = distributed.is_available() and distributed.is_initialized()
    return "" if together else f"{call}() with torch, without torch.distributed"
