"""One wrapper for each method with which a program trains or uses a model, and the order of its parts.

A part is a function of the module that its name leads to. What acts depends on the process: each function
below that is not private switches parts on, before or after the others, and a part that is off is left out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ..system.register import Seam, require
from . import seams
from .agreement.documents import noted_call
from .agreement.state import agree_on_rows
from .process import in_multi_worker_strategy
from .runtime.alone import guard_of
from .runtime.distribute import scaled_batches
from .runtime.parameter_server import on_coordinator, refuse_parameter_servers
from .runtime.scopes import adopt, compile_scope
from .steps.callbacks import callbacks_in, note_choice
from .steps.predicting import predict_on_all

if TYPE_CHECKING:
    import keras

    from .runtime.alone import Guard


@dataclasses.dataclass
class _Parts:
    """The parts that act in a package."""

    #: Multiply the batch size of ``fit``.
    scales: bool = False
    #: Refuses training in one worker alone.
    guard: Guard | None = None
    #: Tells whether a model has several workers, whose calls are noted.
    together: Callable[[keras.Model], bool] | None = None
    #: The parts for strategies of TensorFlow.
    strategies: bool = False

    def refuse_alone(self, trained: keras.Model | keras.optimizers.Optimizer, call: str) -> None:
        if self.guard is not None:
            self.guard(trained, call)

    def noted(
        self, call: str, model: keras.Model, arguments: Mapping[str, object] | None
    ) -> AbstractContextManager[None]:
        """Return the context of a call."""
        # If the arguments are wrong, Keras itself says what is.
        if arguments is None or self.together is None or not self.together(model):
            return contextlib.nullcontext()
        return noted_call(call, model, arguments)


_PARTS = {"keras": _Parts(), "tf_keras": _Parts()}


def wrap_calls(
    together: Callable[[keras.Model], bool] = in_multi_worker_strategy, *, strategies: bool
) -> None:
    """Note the calls of the imported Keras 3, and with `strategies`, prepare them for those of TensorFlow."""
    parts = _PARTS["keras"]
    parts.together, parts.strategies = together, strategies
    _wrap("keras", "fit", "evaluate", "predict", *(["compile"] if strategies else []))


def refuse_alone(workers: Callable[[], int], package: str = "keras") -> None:
    """Refuse training outside of a multi-worker strategy in the imported `keras` or `tf_keras`.

    Fewer than 2 ``workers()``, which must train together, allow everything.
    """
    if _PARTS[package].guard is None and (guard := guard_of(package, workers)):
        _PARTS[package].guard = guard
        _wrap(package, "fit", "train_on_batch", "apply")


def scale_batches(package: str) -> None:
    """Multiply the batch size that ``fit`` gets or assumes by the number of workers, if none is lost."""
    _PARTS[package].scales = True
    _wrap(package, "fit")


def _wrap_fit(seam: Seam, parts: _Parts) -> None:
    stock = seam.get()
    signature = inspect.signature(stock)

    @seam.wrap
    def fit(self: Any, *args: object, **kwargs: object) -> Any:
        if parts.scales:
            args, kwargs = scaled_batches(signature, self, args, kwargs)
        parts.refuse_alone(self, "fit")
        arguments = _arguments(signature, self, args, kwargs)
        with parts.noted("fit", self, arguments):
            if parts.strategies:
                adopt(self)
                refuse_parameter_servers(self)
            return stock(self, *args, **kwargs)


def _wrap_use(seam: Seam, parts: _Parts) -> None:
    stock = seam.get()
    call, signature = stock.__name__, inspect.signature(stock)

    @seam.wrap
    def use(self: Any, *args: object, **kwargs: object) -> Any:
        arguments = _arguments(signature, self, args, kwargs)
        run = functools.partial(stock, self, *args, **kwargs)
        with parts.noted(call, self, arguments):
            if not parts.strategies:
                result = run()
                agree_on_rows(self)
                return result
            with on_coordinator(self):
                if call == "predict":
                    return predict_on_all(self, callbacks_in(arguments), run)
                result = run()
                agree_on_rows(self)
                return result


def _wrap_update(seam: Seam, parts: _Parts) -> None:
    stock = seam.get()
    call = stock.__name__

    @seam.wrap
    def update(self: Any, *args: object, **kwargs: object) -> Any:
        parts.refuse_alone(self, call)
        return stock(self, *args, **kwargs)


def _wrap_compile(seam: Seam, parts: _Parts) -> None:
    stock = seam.get()
    signature = inspect.signature(stock)

    @seam.wrap
    def compile(self: Any, *args: object, **kwargs: object) -> None:
        arguments = _arguments(signature, self, args, kwargs)
        with compile_scope(self, arguments or {}):
            stock(self, *args, **kwargs)
            note_choice(self, chosen="steps_per_execution" in (arguments or {}))


def _arguments(
    signature: inspect.Signature, model: keras.Model, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> Mapping[str, object] | None:
    """Return the arguments of a call by name; None if they are wrong."""
    try:
        return signature.bind(model, *args, **kwargs).arguments
    except TypeError:
        return None


_METHODS: tuple[tuple[str, str, Seam, Callable[[Seam, _Parts], None]], ...] = (
    ("keras", "fit", seams.FIT, _wrap_fit),
    ("keras", "evaluate", seams.EVALUATE, _wrap_use),
    ("keras", "predict", seams.PREDICT, _wrap_use),
    ("keras", "train_on_batch", seams.TRAIN_ON_BATCH, _wrap_update),
    ("keras", "apply", seams.APPLY, _wrap_update),
    ("keras", "compile", seams.COMPILE, _wrap_compile),
    ("tf_keras", "fit", seams.KERAS_2_FIT, _wrap_fit),
    ("tf_keras", "train_on_batch", seams.KERAS_2_TRAIN_ON_BATCH, _wrap_update),
    ("tf_keras", "apply", seams.KERAS_2_APPLY, _wrap_update),
    ("tf_keras", "apply", seams.KERAS_2_OLD_APPLY, _wrap_update),
)


def _wrap(package: str, *methods: str) -> None:
    """Wrap methods, unless they have their wrapper."""
    missing = [
        (seam, wrap)
        for owner, method, seam, wrap in _METHODS
        if owner == package and method in methods and not seam.replaced
    ]
    require(seam for seam, _ in missing)
    for seam, wrap in missing:
        wrap(seam, _PARTS[package])
