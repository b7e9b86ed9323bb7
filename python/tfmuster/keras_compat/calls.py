"""One wrapper for each method with which a program trains or uses a model, and the order of its parts.

A part is a function of the module that its name leads to. A wrapper calls its parts from the outside in,
around Keras's own method:

================  =====================================================================================
Method            Parts
================  =====================================================================================
fit               multiply the batch size (``--scale-batch``); refuse a model that one of several workers
                  would train alone; note the call, so that workers compare it; give the model the
                  strategy of its weights; refuse parameter servers
evaluate          note the call; leave parameter servers
predict           note the call; leave parameter servers; gather the predictions of all workers
train_on_batch    refuse a model that one of several workers would train alone
apply             refuse an optimizer that one of several workers would use alone
compile           give the model the strategy of its weights, and enter its scope; afterwards, note whether
                  the program chose the steps per execution
================  =====================================================================================

What acts depends on the process: each function below that is not private switches parts on. It may come
before or after the others, and a part that is off is left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..system.register import Seam, require
from . import seams
from .agreement.calls import noted_call
from .process import in_multi_worker_strategy
from .runtime.alone import Guard, guard_of
from .runtime.distribute import scaled_batches
from .runtime.parameter_server import on_coordinator, refuse_parameter_servers
from .runtime.scopes import adopt, compile_scope
from .steps.callbacks import callbacks_in, note_choice
from .steps.predicting import predict_on_all


@dataclasses.dataclass
class _Parts:
    """The parts that act in a package."""

    #: Multiply the batch size of ``fit``.
    scales: bool = False
    #: Refuses training in one worker alone.
    guard: Guard | None = None
    #: Tells whether a model has several workers, whose calls are noted.
    together: Callable[[Any], bool] | None = None
    #: The parts for strategies of TensorFlow.
    strategies: bool = False

    def refuse_alone(self, trained: Any, call: str) -> None:
        if self.guard is not None:
            self.guard.check(trained, call)

    def noted(self, call: str, model: Any, arguments: Mapping[str, Any] | None) -> Any:
        """Return the context of a call."""
        # If the arguments are wrong, Keras itself says what is.
        if arguments is None or self.together is None or not self.together(model):
            return contextlib.nullcontext()
        return noted_call(call, model, arguments)


_PARTS = {"keras": _Parts(), "tf_keras": _Parts()}


def wrap_calls(together: Callable[[Any], bool] = in_multi_worker_strategy, *, strategies: bool) -> None:
    """Note the calls of the imported Keras 3, and with `strategies`, prepare them for those of TensorFlow.

    Parameters
    ----------
    together : callable
        Tells whether a model has several workers.
    strategies : bool
        Whether models may have a strategy of TensorFlow.
    """
    parts = _PARTS["keras"]
    parts.together, parts.strategies = together, strategies
    _wrap("keras", "fit", "evaluate", "predict", *(["compile"] if strategies else []))


def refuse_alone(workers: Callable[[], int], package: str = "keras") -> None:
    """Refuse training outside of a multi-worker strategy in the imported Keras. Calling it again is harmless.

    Parameters
    ----------
    workers : callable
        Returns the number of workers that must train together with this process; below 2 allows everything.
    package : {"keras", "tf_keras"}
        The package to patch: Keras 3, or Keras 2 for ``TF_USE_LEGACY_KERAS=1``.
    """
    if _PARTS[package].guard is None and (guard := guard_of(package, workers)):
        _PARTS[package].guard = guard
        _wrap(package, "fit", "train_on_batch", "apply")


def scale_batches(package: str) -> None:
    """Multiply the batch size that ``fit`` gets or assumes by the number of workers, if none is lost."""
    _PARTS[package].scales = True
    _wrap(package, "fit")


def _fit(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        if parts.scales:
            args, kwargs = scaled_batches(signature, self, args, kwargs)
        parts.refuse_alone(self, "fit")
        arguments = _arguments(signature, self, args, kwargs)
        with parts.noted("fit", self, arguments):
            if parts.strategies:
                adopt(self)
                refuse_parameter_servers(self)
            return stock(self, *args, **kwargs)

    return fit


def _evaluate(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = _arguments(signature, self, args, kwargs)
        with parts.noted("evaluate", self, arguments):
            if not parts.strategies:
                return stock(self, *args, **kwargs)
            with on_coordinator(self):
                return stock(self, *args, **kwargs)

    return evaluate


def _predict(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def predict(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = _arguments(signature, self, args, kwargs)
        with parts.noted("predict", self, arguments):
            if not parts.strategies:
                return stock(self, *args, **kwargs)
            with on_coordinator(self):
                return predict_on_all(self, callbacks_in(arguments), lambda: stock(self, *args, **kwargs))

    return predict


def _train_on_batch(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    @functools.wraps(stock)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        parts.refuse_alone(self, "train_on_batch")
        return stock(self, *args, **kwargs)

    return train_on_batch


def _apply(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    call = stock.__name__

    @functools.wraps(stock)
    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        parts.refuse_alone(self, call)
        return stock(self, *args, **kwargs)

    return apply


def _compile(stock: Callable[..., Any], parts: _Parts) -> Callable[..., Any]:
    signature = inspect.signature(stock)

    @functools.wraps(stock)
    def compile(self: Any, *args: Any, **kwargs: Any) -> None:
        arguments = _arguments(signature, self, args, kwargs)
        with compile_scope(self, arguments or {}):
            stock(self, *args, **kwargs)
            note_choice(self, chosen="steps_per_execution" in (arguments or {}))

    return compile


def _arguments(
    signature: inspect.Signature, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, Any] | None:
    """Return the arguments of a call by name; None if they are wrong."""
    try:
        return signature.bind(model, *args, **kwargs).arguments
    except TypeError:
        return None


_WRAPPERS: dict[str, Callable[[Callable[..., Any], _Parts], Callable[..., Any]]] = {
    "fit": _fit,
    "evaluate": _evaluate,
    "predict": _predict,
    "train_on_batch": _train_on_batch,
    "apply": _apply,
    "compile": _compile,
}

_METHODS: dict[str, dict[str, tuple[Seam, ...]]] = {
    "keras": {
        "fit": (seams.FIT,),
        "evaluate": (seams.EVALUATE,),
        "predict": (seams.PREDICT,),
        "train_on_batch": (seams.TRAIN_ON_BATCH,),
        "apply": (seams.APPLY,),
        "compile": (seams.COMPILE,),
    },
    "tf_keras": {
        "fit": (seams.KERAS_2_FIT,),
        "train_on_batch": (seams.KERAS_2_TRAIN_ON_BATCH,),
        "apply": (seams.KERAS_2_APPLY, seams.KERAS_2_OLD_APPLY),
    },
}


def _wrap(package: str, *methods: str) -> None:
    """Wrap methods, unless they have their wrapper."""
    missing = [(name, seam) for name in methods for seam in _METHODS[package][name] if not seam.replaced]
    require(seam for _, seam in missing)
    for name, seam in missing:
        seam.replace(_WRAPPERS[name](seam.get(), _PARTS[package]))
