"""Compile and load ``exchange.c``. It uses neither TensorFlow's nor Python's binary interface."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from ..system.compiled import NotCompiled, compiled

SOURCE = Path(__file__).with_name("exchange.c")


@functools.cache
def library_path() -> Path:
    """Return the path of the compiled library; see :func:`tfmuster.system.compiled.compiled`."""
    return compiled(SOURCE)


@functools.cache
def library() -> ctypes.CDLL:
    """Load the library. Raises NotCompiled."""
    try:
        loaded = ctypes.CDLL(str(library_path()))
    except OSError as error:  # such as a cache on a file system that forbids execution
        raise NotCompiled(f"it can't be loaded: {error}") from error
    loaded.tfmuster_failure.restype = ctypes.c_char_p
    loaded.tfmuster_abort.argtypes = [ctypes.c_char_p]
    loaded.tfmuster_abort.restype = None
    loaded.tfmuster_times.argtypes = [ctypes.POINTER(ctypes.c_double)]
    loaded.tfmuster_times.restype = None
    loaded.tfmuster_sum.argtypes = [
        ctypes.c_int,
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_int64),
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    ]
    return loaded
