"""The R session that embeds this Python: its calls, its random numbers, and its end."""

from __future__ import annotations

import ctypes
import sys
import threading

#: Of R's `SA_TYPE`: don't save the workspace.
_SA_NOSAVE = 3
# Evaluated in a function, because sys.calls() of an environment is empty.
_CALLS = (
    "(function() paste(vapply(utils::head(sys.calls(), -3L), function(call) "
    "substr(deparse(call, nlines = 1L)[[1L]], 1L, 200L), ''), collapse = '\\n'))()"
)


def _text_of(code: str) -> str:
    """Return the string that R code evaluates to. The code must not raise an error.

    It is "" outside of R or in another thread than R's: R can only be asked in its own thread, and so not
    while that thread waits in TensorFlow. It is "" on Windows, too, where the names are in another library.
    """
    if "rpytools" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return ""
    r = ctypes.PyDLL(None)
    try:
        base = ctypes.c_void_p.in_dll(r, "R_BaseEnv")
        r.R_ParseEvalString.restype = r.STRING_ELT.restype = ctypes.c_void_p
        r.R_ParseEvalString.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        r.STRING_ELT.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t]
        r.R_CHAR.restype, r.R_CHAR.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    except (AttributeError, ValueError):
        return ""
    value = r.R_ParseEvalString(code.encode(), base)
    return str(r.R_CHAR(r.STRING_ELT(value, 0)).decode(errors="replace"))


def r_calls() -> str:
    """Return R's calls, one per line, the outermost first; "" outside of R or of R's thread."""
    return _text_of(_CALLS)


def r_random_state() -> str | None:
    """Return the state of R's random number generator; None if R has none here."""
    return _text_of("paste(get0('.Random.seed', globalenv(), inherits = FALSE), collapse = ' ')") or None


def seed_r(seed: int) -> None:
    """Seed R's random number generator, if this is R's thread."""
    _text_of(f"{{ try(set.seed({seed}L), silent = TRUE); '' }}")


def leave_r(code: int) -> None:
    """End the R session in this process with an exit code. R removes its temporary files."""
    r = ctypes.CDLL(None)
    r.R_CleanUp.restype = None
    r.R_CleanUp(_SA_NOSAVE, code, 0)
