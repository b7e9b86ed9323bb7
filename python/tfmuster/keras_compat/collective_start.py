"""Start TensorFlow's server of a multi-worker strategy without holding Python's lock.

The start ends when all workers have come. TensorFlow holds the lock until then, so no other thread of this
process can run: neither the control channel, which reports that a worker is gone, nor the thread that guards
the port. The same functions are called here by ctypes, which releases the lock.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import seams


def release_lock_at_start(before: Callable[[], None]) -> bool:
    """Release the lock while TensorFlow waits for the other workers, and call `before` first.

    Return whether that is possible.
    """
    start = seams.C_ENABLE_COLLECTIVES
    if start.replaced:
        return True
    library = _library() if start.fits else None
    if library is None:
        return False
    start.replace(_unlocked(start.get(), library, before))
    return True


def _library() -> Any:
    """Return TensorFlow's C library; None if this TensorFlow has it under another name."""
    import tensorflow as tf

    folder = Path(tf.sysconfig.get_lib())
    for path in (*folder.glob("libtensorflow_cc.so.2"), *folder.glob("libtensorflow_cc.2.dylib")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "TFE_EnableCollectiveOps"):
            return _typed(library)
    return None


def _typed(library: Any) -> Any:
    pointer = ctypes.c_void_p
    library.TF_NewStatus.restype = pointer
    library.TF_DeleteStatus.argtypes = [pointer]
    library.TF_GetCode.argtypes = [pointer]
    library.TF_Message.argtypes = [pointer]
    library.TF_Message.restype = ctypes.c_char_p
    library.TFE_EnableCollectiveOps.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t, pointer]
    library.TFE_EnableCollectiveOps.restype = None
    return library


def _unlocked(stock: Any, library: Any, before: Callable[[], None]) -> Any:
    error_of = seams.ERROR_OF_CODE.get()
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.argtypes, get_name.restype = [ctypes.py_object], ctypes.c_void_p
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.argtypes, get_pointer.restype = [ctypes.py_object, ctypes.c_void_p], ctypes.c_void_p

    @functools.wraps(stock)
    def enable(context: Any, server_def: bytes) -> None:
        before()
        status = library.TF_NewStatus()
        try:
            handle = get_pointer(context, get_name(context))
            library.TFE_EnableCollectiveOps(handle, server_def, len(server_def), status)
            code, message = library.TF_GetCode(status), library.TF_Message(status).decode(errors="replace")
        finally:
            library.TF_DeleteStatus(status)
        if code:
            raise error_of(code)(None, None, message)

    return enable
