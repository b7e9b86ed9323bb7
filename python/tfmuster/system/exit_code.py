"""How this process ends: by ``sys.exit(1)`` or ``raise SystemExit(1)``, of which Python tells no exit hook.

The interpreter reads the exit code from the attribute ``code`` of the SystemExit that nobody has caught, and
then calls the exit hooks without it. So that attribute is made one that remembers when the interpreter itself
has read it. Wrapping ``sys.exit``, as others do, misses ``raise SystemExit``, ``exit()`` and
``from sys import exit``, and takes an exit that was caught for one that happened.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

    from ..errors import TfmusterError

_read: list[Any] = []


def watch_exit() -> None:
    """Remember the code of the SystemExit that ends this process; where Python is not CPython, do nothing."""
    members = gc.get_referents(SystemExit.__dict__)
    code = SystemExit.__dict__["code"]
    if isinstance(code, property) or len(members) != 1 or sys.implementation.name != "cpython":
        return

    def get(error: SystemExit) -> Any:
        value = code.__get__(error)
        try:
            sys._getframe(1)
        except ValueError:
            # No Python code asks: it is the interpreter.
            _read[:] = [value]
        return value

    members[0]["code"] = property(get, code.__set__, code.__delete__, code.__doc__)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))


def failure_of_exit() -> str | None:
    """In an exit hook, how the process fails, such as ``exit code 3``; None if it ends well."""
    value = _read[0] if _read else None
    if value is None or (isinstance(value, int) and value == 0):
        return None
    # Anything else is printed, and the exit code is 1 (Python's documentation of sys.exit).
    return f"exit code {value}" if isinstance(value, int) else f"exit code 1: {value}"


def end_with_its_code(error: TfmusterError) -> None:
    """Let `error`, if nobody catches it, end this process with its own exit code; Python's is 1."""
    before, this, code = sys.excepthook, weakref.ref(error), error.exit_code

    def hook(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        before(kind, value, trace)
        if value is this() and not hasattr(sys, "ps1"):
            raise SystemExit(code)

    sys.excepthook = hook


def exit_as(code: int) -> None:
    """End as the worker did, by the same signal if it was one."""
    sys.stdout.flush()
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        time.sleep(1)
    os._exit(code if code >= 0 else 128 - code)
