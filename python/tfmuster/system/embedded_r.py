"""The R session that embeds this Python: its calls, functions and random numbers, and its end."""

from __future__ import annotations

import ctypes
import sys
import threading
import types
from typing import Any, Final

#: Of R's `SA_TYPE`: don't save the workspace.
_SA_NOSAVE = 3
# Evaluated in a function, because sys.calls() of an environment is empty.
_CALLS = (
    "(function() paste(vapply(utils::head(sys.calls(), -3L), function(call) "
    "substr(deparse(call, nlines = 1L)[[1L]], 1L, 200L), ''), collapse = '\\n'))()"
)
# Pairs of a name and a text: the code of a function and of those that it calls, and the values of the program
# that they use. What packages have is theirs.
_MEANING = """
function(f) {
  found <- list()
  look <- function(f, place) {
    found[[paste0(place, "code")]] <<- paste(deparse(f), collapse = "\n")
    body <- body(f)
    for (name in setdiff(all.names(body, unique = TRUE), c(names(formals(f)), ""))) {
      from <- environment(f)
      while (!(isNamespace(from) || identical(from, emptyenv()) || exists(name, from, inherits = FALSE)))
        from <- if (identical(from, globalenv())) emptyenv() else parent.env(from)
      key <- paste0(place, name)
      if (isNamespace(from) || identical(from, emptyenv()) || length(found) > 200L) next
      if (bindingIsActive(name, from) || any(startsWith(names(found), paste0(key, ": ")))) next
      value <- get(name, from)
      if (is.function(value) && !is.primitive(value)) look(value, paste0(name, ": "))
      else if (is.atomic(value) && length(value) > 1000L) found[[key]] <<- paste(typeof(value), length(value))
      else if (is.atomic(value)) found[[key]] <<- paste(deparse(value), collapse = "")
    }
  }
  look(f, "")
  c(rbind(names(found), unlist(found)))
}
"""
_Value: Final = ctypes.c_void_p
#: Functions of R in C: what each returns, and its arguments.
_SIGNATURES: Final[dict[str, list[Any]]] = {
    "R_CHAR": [ctypes.c_char_p, _Value],
    "R_ParseEvalString": [_Value, ctypes.c_char_p, _Value],
    "R_tryEvalSilent": [_Value, _Value, _Value, ctypes.POINTER(ctypes.c_int)],
    "Rf_lang2": [_Value, _Value, _Value],
    "Rf_protect": [_Value, _Value],
    "Rf_unprotect": [None, ctypes.c_int],
    "Rf_xlength": [ctypes.c_ssize_t, _Value],
    "STRING_ELT": [_Value, _Value, ctypes.c_ssize_t],
    "TAG": [_Value, _Value],
    "TYPEOF": [ctypes.c_int, _Value],
}
#: R's types of values.
_LIST: Final = 2
_CLOSURE: Final = 3
#: The module in which reticulate makes a function of Python that calls one of R.
_CALLS_R: Final = "/rpytools/call.py"


def _library() -> ctypes.PyDLL | None:
    """Return R's functions in C; None outside of R or in another thread than R's.

    R can only be asked in its own thread, and so not while that thread waits in TensorFlow. On Windows the
    names are in another library.
    """
    if "rpytools" not in sys.modules or threading.current_thread() is not threading.main_thread():
        return None
    r = ctypes.PyDLL(None)
    try:
        ctypes.c_void_p.in_dll(r, "R_BaseEnv")
        for name, (result, *arguments) in _SIGNATURES.items():
            function = getattr(r, name)
            function.restype, function.argtypes = result, arguments
    except (AttributeError, ValueError):
        return None
    return r


def _text_of(code: str) -> str:
    """Return the string that R code evaluates to; "" outside of R. The code must not raise an error."""
    r = _library()
    if r is None:
        return ""
    value = r.R_ParseEvalString(code.encode(), ctypes.c_void_p.in_dll(r, "R_BaseEnv"))
    return str(r.R_CHAR(r.STRING_ELT(value, 0)).decode(errors="replace"))


def r_function(function: object) -> dict[str, str] | None:
    """Return the code of R's function that a function of Python calls, and the values that it uses, as text.

    It is None for a function of Python itself. The entry "code" has the function; the others have the values
    by their names, and the functions that it calls.
    """
    held = _held_by(function)
    r = _library() if held is not None else None
    if r is None or held is None:
        return None
    base, failed = ctypes.c_void_p.in_dll(r, "R_BaseEnv"), ctypes.c_int(0)
    if r.TYPEOF(held) == _LIST:
        # Newer versions of reticulate hold the function as the tag of a cell.
        held = r.TAG(held)
    if r.TYPEOF(held) != _CLOSURE:
        return None
    look = r.Rf_protect(r.R_ParseEvalString(_MEANING.encode(), base))
    call = r.Rf_protect(r.Rf_lang2(look, held))
    value = r.R_tryEvalSilent(call, base, ctypes.byref(failed))
    r.Rf_unprotect(2)
    if failed.value:
        return None
    texts = [
        r.R_CHAR(r.STRING_ELT(value, number)).decode(errors="replace")
        for number in range(r.Rf_xlength(value))
    ]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _held_by(function: object) -> int | None:
    """Return the address of the R object that a function of reticulate's holds, or None."""
    if not isinstance(function, types.FunctionType) or not function.__code__.co_filename.endswith(_CALLS_R):
        return None
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    for cell in function.__closure__ or ():
        if type(cell.cell_contents).__name__ == "PyCapsule":
            return int(address(cell.cell_contents, name_of(cell.cell_contents)))
    return None


def r_calls() -> str:
    """Return R's calls, one per line, the outermost first; "" outside of R or of R's thread."""
    return _text_of(_CALLS)


def r_script() -> str | None:
    """Return the path of the script that R was started with; None in a session and outside of R."""
    return _text_of("sub('^--file=', '', c(grep('^--file=', commandArgs(), value = TRUE), '')[[1L]])") or None


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
