"""Read values of which each process of a job on JAX has a part only.

JAX refuses to read an array that is divided among processes. So Keras can neither save a model that a
``ModelParallel`` divides, nor return predictions under ``DataParallel``. Here all processes gather such an
array. Each of them must read it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import seams


def patch_values() -> None:
    """Let the imported Keras read weights and predictions that are divided among processes."""
    map_structure = seams.TREE.get().map_structure
    make_predict = seams.JAX_MAKE[-1]
    stock_array, stock_make = seams.ARRAY_OF_VARIABLE.get(), make_predict.get()

    @functools.wraps(stock_array)
    def array(self: Any, dtype: Any = None) -> Any:
        value = self.value
        return np.asarray(whole(value), dtype) if is_divided(value) else stock_array(self, dtype)

    @functools.wraps(stock_make)
    def make(self: Any, force: bool = False) -> Any:
        if self.predict_function is None or force:
            stock_make(self, force)
            step = self.predict_function

            def gathered(*args: Any) -> Any:
                outputs, state = step(*args)
                return map_structure(whole, outputs), state

            self.predict_function = gathered
        return self.predict_function

    seams.ARRAY_OF_VARIABLE.replace(array)
    make_predict.replace(make)


def is_divided(value: Any) -> bool:
    """Return whether no process has all of an array."""
    import jax

    return isinstance(value, jax.Array) and not (value.is_fully_addressable or value.is_fully_replicated)


def whole(value: Any) -> Any:
    """Return a value, or if it is divided, its copy in NumPy. All processes must call it."""
    if not is_divided(value):
        return value
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(value, tiled=True)
