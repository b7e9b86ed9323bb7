"""Find out with which code this process exits, which Python does not tell its exit hooks.

The interpreter reads the exit code from the attribute ``code`` of an uncaught SystemExit, and then calls the
exit hooks without it. This module replaces that attribute by one that remembers when the interpreter itself
has read it. Wrapping ``sys.exit`` would miss ``raise SystemExit``, ``exit()`` and ``from sys import exit``,
and would count an exit that the program has caught.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from types import TracebackType

    from ..errors import TfmusterError

_read: list[Any] = []


def watch_exit() -> None:
    """Remember the code of the SystemExit that ends this process. Does nothing unless Python is CPython."""
    members = gc.get_referents(SystemExit.__dict__)
    code = SystemExit.__dict__["code"]
    if isinstance(code, property) or len(members) != 1 or sys.implementation.name != "cpython":
        return

    def get(error: SystemExit) -> Any:
        value = code.__get__(error)
        try:
            sys._getframe(1)
        except ValueError:
            # No Python code reads the attribute, so the interpreter does.
            _read[:] = [value]
        return value

    members[0]["code"] = property(get, code.__set__, code.__delete__, code.__doc__)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))


def failure_of_exit() -> str | None:
    """Say in an exit hook how the process fails, such as ``exit code 3``. Returns None if it succeeds."""
    value = _read[0] if _read else None
    if value is None or (isinstance(value, int) and value == 0):
        return None
    # Python prints any other value and exits with code 1 (documentation of sys.exit).
    return f"exit code {value}" if isinstance(value, int) else f"exit code 1: {value}"


def end_with_its_code(error: TfmusterError) -> None:
    """Make this process end with the exit code of `error` if nothing catches it, not with Python's 1."""
    before, this, code = sys.excepthook, weakref.ref(error), error.exit_code

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        before(kind, value, trace)
        if value is this() and not hasattr(sys, "ps1"):
            raise SystemExit(code)

    sys.excepthook = hook


def exit_as(code: int) -> NoReturn:
    """End this process at once, with an exit code or, if it is negative, by that signal."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError, ValueError):  # it may be closed
            stream.flush()
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        time.sleep(1)
    os._exit(code if code >= 0 else 128 - code)
