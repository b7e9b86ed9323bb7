"""Find what runs in this process: the user's script, its line that has called a library, IPython's shell."""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final

from .embedded_r import r_calls, r_script

#: Files of packages, of Python itself, of this package, and of reticulate.
LIBRARY: Final = re.compile(
    r"/(site|dist)-packages/|/lib/python3\.\d+/|/python/tfmuster/|/bin/tfmuster$|^<frozen |/python/rpytools/"
)
_PACKAGE: Final = f"{__name__.partition('.')[0]}."

#: The call with which R's package runs a function on a worker. Those before it are the package's own.
_ON_WORKER: Final = "eval(call_on_worker,"
#: Functions of R that only evaluate the code of a file.
_EVALUATES: Final = re.compile(
    r"(base::)?(source|sys\.source|withVisible|eval|try|tryCatch|invisible|suppress\w+)\("
)


def module_of(thing: object) -> str:
    """Return the module of an object's class; empty for a class that R has made, which has none."""
    return getattr(type(thing), "__module__", "")


def user_line(r_function: str = "") -> str | None:
    """Return the innermost line of the user's code that is being executed: its file, number and text.

    Of R it is the call of `r_function`, or the outermost call. None if there is none in this thread, as in a
    callback of a library.
    """
    if (line := _line_in(sys._getframe(1))) is not None:
        return line
    calls = r_calls().splitlines()
    begin = max((number for number, call in enumerate(calls, 1) if call.startswith(_ON_WORKER)), default=0)
    calls = [call for call in calls[begin:] if not _EVALUATES.match(call)]
    named = [call for call in calls if call.removeprefix("tfmuster::").startswith(f"{r_function}(")]
    return next(iter(named[-1:] or calls), None)


def line_of_main_thread() -> str | None:
    """Return the line of the user's Python code that the main thread executes, or None."""
    return _line_in(sys._current_frames().get(threading.main_thread().ident or 0))


def _line_in(frame: FrameType | None) -> str | None:
    while frame is not None:
        if is_of_the_user(frame):
            path, number = frame.f_code.co_filename, frame.f_lineno
            code = linecache.getline(path, number, frame.f_globals).strip()
            place = f"{_short(path)}, line {number}"
            return f"{place}: {code}" if code else place
        frame = frame.f_back
    return None


def is_of_the_user(frame: FrameType) -> bool:
    """Return whether a frame runs the user's code: neither a library's, nor Python's, nor this package's."""
    # What a dataclass of this package has generated is in no file.
    in_package = str(frame.f_globals.get("__name__")).startswith(_PACKAGE)
    return not in_package and not is_library(frame.f_code.co_filename)


@functools.lru_cache(maxsize=1024)
def is_library(path: str) -> bool:
    """Return whether a file is one of a package, of Python itself, or of this package."""
    return LIBRARY.search(path) is not None


def user_script() -> str | None:
    """Return the path of the script that Python or R was started with; None in a session."""
    if (script := r_script()) is not None:
        return _short(script)
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return _short(path) if path is not None and path.endswith(".py") and not LIBRARY.search(path) else None


def script_folder() -> Path:
    """Return the folder of the script that Python or R runs; in a session the working directory."""
    return Path(user_script() or "x").absolute().parent


def runs_a_verb() -> bool:
    """Return whether this process is one of the command line, such as ``tfmuster train``."""
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    return path.endswith(("/bin/tfmuster", "/tfmuster/__main__.py"))


def _short(path: str) -> str:
    """Return a path relative to the working directory, if it is below that."""
    here = os.path.join(os.getcwd(), "")
    return path.removeprefix(here)


def ipython_shell() -> Any:
    """Return the running IPython or Jupyter shell. TensorFlow imports IPython without starting one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
