"""How this process ends: the shutdown signal that it gets, and the code with which it exits."""

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
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Final, NoReturn

from ..errors import TfmusterError

#: The code that the interpreter has read.
_read: list[object] = []


def remember_exit_code() -> None:
    """Remember the code of the SystemExit that ends this process. Does nothing unless Python is CPython.

    Python does not tell its exit hooks the code: the interpreter reads the attribute ``code`` of an uncaught
    SystemExit, and then calls them. A property in its place remembers when the interpreter itself has read
    it. Wrapping ``sys.exit`` would miss ``raise SystemExit``, ``exit()`` and ``from sys import exit``, and
    would count an exit that the program has caught.
    """
    members = gc.get_referents(SystemExit.__dict__)
    code = SystemExit.__dict__["code"]
    if isinstance(code, property) or len(members) != 1 or sys.implementation.name != "cpython":
        return

    def get(error: SystemExit) -> object:
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
    """Return in an exit hook how the process fails, such as ``exit code 3``; None if it succeeds."""
    value = _read[0] if _read else None
    if value is None or (isinstance(value, int) and value == 0):
        return None
    # Python prints any other value and exits with code 1 (documentation of sys.exit).
    return f"exit code {value}" if isinstance(value, int) else f"exit code 1: {value}"


def exit_with_code_of(error: TfmusterError) -> None:
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


#: Signals that end a launcher: of the system, of a terminal that closes, and of batch systems.
SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class ShutdownSignal:
    """The shutdown signal that this process has got."""

    def __init__(self) -> None:
        #: 0 if there was none.
        self.signal = 0
        #: Tells whether the job can be saved now. If not, or without it, a signal interrupts this process;
        #: SIGUSR1 only without it.
        self.can_save: Callable[[], bool] | None = None

    def take_signals(self) -> None:
        """Handle the signals that this process does not ignore. A second one interrupts it at once."""
        for number in SIGNALS:
            # nohup ignores SIGHUP: the job is to survive the terminal.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handle)

    def takes(self, number: int) -> bool:
        """Return whether this process ends its job after a signal, and not only itself."""
        return signal.getsignal(number) == self._handle

    def _handle(self, number: int, _: FrameType | None) -> None:
        first, self.signal = not self.signal, self.signal or number
        # SIGUSR1 announces the end, so a training that begins soon is still saved.
        waits = self.can_save is not None and (number == signal.SIGUSR1 or self.can_save())
        if not (first and waits):
            raise KeyboardInterrupt


SHUTDOWN: Final = ShutdownSignal()
