"""Read the calls of the R session in this process, and end it."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading

#: Of R's `SA_TYPE`: don't save the workspace.
_SA_NOSAVE = 3
# Evaluated in a function, because sys.calls() of the global environment is empty.
_EXPRESSION = (
    b"(function() paste(vapply(utils::head(sys.calls(), -3L), function(call) "
    b"substr(deparse(call, nlines = 1L)[[1L]], 1L, 200L), ''), collapse = '\\n'))()"
)


def r_calls() -> str:
    """Return R's calls, one per line, the outermost first; "" outside of R or in another thread than R's.

    R can only be asked in its own thread, and so not while that thread waits in TensorFlow.
    """
    if "rpytools" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return ""
    with contextlib.suppress(AttributeError, ValueError, UnicodeDecodeError):
        r = ctypes.PyDLL(None)
        r.R_ParseEvalString.restype = r.STRING_ELT.restype = ctypes.c_void_p
        r.R_ParseEvalString.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        r.STRING_ELT.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
        r.R_CHAR.restype, r.R_CHAR.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        made = r.R_ParseEvalString(_EXPRESSION, ctypes.c_void_p.in_dll(r, "R_GlobalEnv"))
        return str(r.R_CHAR(r.STRING_ELT(made, 0)).decode())
    return ""


def leave_r(code: int) -> None:
    """End the R session in this process with an exit code. R removes its temporary files."""
    r = ctypes.CDLL(None)
    r.R_CleanUp.restype = None
    r.R_CleanUp(_SA_NOSAVE, code, 0)
