"""Callbacks that change the training: all workers must have the same. The chief alone may have others."""

from __future__ import annotations

import dis
import re
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ...system.embedded_r import r_function
from ...system.user_code import is_library, module_of
from .values import FUNCTIONS, Tree, attributes_of, codes_of, is_plain, own_code, parts_of

if TYPE_CHECKING:
    import keras

#: What a callback assigns to, or calls, if it changes the training.
_ASSIGNED: Final = {"learning_rate", "lr", "stop_training", "trainable"}
_CALLED: Final = {"set_weights", "load_weights", "assign", "assign_add", "assign_sub"}
#: The same in R, whose functions have names of their own.
_CHANGES_IN_R: Final = re.compile(
    rf"\$({'|'.join(_ASSIGNED)}) (<-|=) |\$({'|'.join(_CALLED)})\(|\b(set_weights|load_model_weights\w*)\("
)
#: Attributes of callbacks that may differ: their own, and places of files.
_LOCAL: Final = re.compile("^_|dir|path|file")


def callbacks_that_change(callbacks: Any) -> dict[str, Tree]:
    """Return those that set weights, rates, or the end. The chief alone may have others, which only read."""
    callbacks = getattr(callbacks, "callbacks", callbacks)
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    changing = [callback for callback in listed if callback is not None and _changes(callback)]
    names = [type(callback).__name__ for callback in changing]
    return {
        "callbacks that change the training": ", ".join(names) or "none",
        "callback": {
            f"{name} ({number})": _callback(callback)
            for number, (name, callback) in enumerate(zip(names, changing, strict=True), 1)
        },
    }


def _callback(callback: keras.callbacks.Callback) -> Tree:
    # What a callback of the program keeps or uses may differ, such as the time at which it was made.
    own = own_code(callback, values=False)
    kept = {} if own else attributes_of(callback)
    plain = {
        key: value
        for key, value in kept.items()
        if not _LOCAL.search(key) and (is_plain(value) or isinstance(value, FUNCTIONS))
    }
    return {**own, **parts_of(plain)}


def _changes(callback: keras.callbacks.Callback) -> bool:
    """Return whether the code of a callback changes the training."""
    return not module_of(callback).startswith("tfmuster.") and (
        any(map(_CHANGES_IN_R.search, _codes_in_r(callback)))
        or any(
            (step.opname == "STORE_ATTR" and step.argval in _ASSIGNED) or step.argval in _CALLED
            for code in _codes_of_callback(callback)
            for step in dis.get_instructions(code)
        )
    )


def uses(callback: keras.callbacks.Callback, name: str, *, in_libraries: bool = False) -> bool:
    """Return whether code of the program, or of libraries, in a callback has the name of an attribute."""
    return any(
        name in (*code.co_names, *code.co_consts)
        for code in _codes_of_callback(callback)
        if is_library(code.co_filename) == in_libraries
    ) or (not in_libraries and any(name in code for code in _codes_in_r(callback)))


def _codes_of_callback(callback: keras.callbacks.Callback) -> Iterator[types.CodeType]:
    for function in _functions_of(callback):
        yield from codes_of(function)


def _codes_in_r(callback: keras.callbacks.Callback) -> Iterator[str]:
    for function in _functions_of(callback):
        for name, text in (r_function(function) or {}).items():
            if name.endswith("code"):
                yield text


def _functions_of(callback: keras.callbacks.Callback) -> Iterator[Any]:
    """Yield a callback's methods, and the functions that it has."""
    methods = [value for kind in type(callback).__mro__[:-1] for value in vars(kind).values()]
    for value in (*methods, *attributes_of(callback).values()):
        if isinstance(value, FUNCTIONS):
            yield value
