"""Tell whether TensorFlow's runtime has started, after which it can't join a cluster, and by which line."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from ...errors import StrategyError
from ...system.register import require
from ...system.user_code import user_line
from ...words import Code, Words
from .. import seams
from ..process import PROCESS

#: What to do where TensorFlow has already started.
STRATEGY_FIRST: Final = Words(
    "make the strategy before all tensors, models, data sets and other strategies{}; in a session, restart "
    "it first, because TensorFlow can't be reset",
    Code("", ", and before library(keras3)"),
)

_callers: list[Callable[[], None]] = []
_callers_lock = threading.Lock()
_patched: list[bool] = []


def tensorflow_started() -> bool:
    """Return whether TensorFlow's runtime has started; after that it can't join a cluster."""
    return bool(seams.STARTED.of(seams.CONTEXT.get()()))


def call_when_started(then: Callable[[], None]) -> None:
    """Call a function once, right after TensorFlow's runtime starts."""
    _callers.append(then)
    if _patched:
        return
    require((seams.START, seams.STARTED, seams.EAGER_MODE))
    _patched.append(True)
    stock, eager_mode = seams.START.get(), seams.EAGER_MODE.get()

    def ensure_initialized(self: Any) -> None:
        stock(self)
        seams.START.replace(stock)
        # Several threads may start TensorFlow at the same time: one of them calls.
        with _callers_lock:
            callers = _callers.copy()
            _callers.clear()
        if callers:
            with eager_mode():
                for caller in callers:
                    caller()

    seams.START.replace(ensure_initialized)


def hook_start() -> None:
    """Remember the line of the program that starts TensorFlow's runtime, if it has not started."""

    def remember_line() -> None:
        PROCESS.started_by = PROCESS.started_by or user_line()

    if not tensorflow_started():
        call_when_started(remember_line)


def check_not_started(strategy: str) -> None:
    """Raise a StrategyError if TensorFlow's runtime has started."""
    if tensorflow_started():
        raise StrategyError(
            "TensorFlow has already started in this process, so it can't join a cluster.",
            found=f"it was started by {PROCESS.started_by}" if PROCESS.started_by else None,
            fix=STRATEGY_FIRST,
            strategy=strategy,
            reason="already-started",
        )


def name_callers_in_r() -> None:
    """Let TensorFlow warn of a deprecated name that R uses.

    Its warnings name the caller's file and line, and a caller in R has no Python frame: in TensorFlow 2.21
    the call then fails with ``'NoneType' object has no attribute 'f_code'``.
    """

    def location(outer: bool = False) -> str:
        frame = sys._getframe(1).f_back
        if outer and frame is not None:
            frame = frame.f_back or frame
        return "R" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"

    if seams.CALL_LOCATION.fits:
        seams.CALL_LOCATION.replace(location)
    if not seams.WRAPPER_LOCATION.fits:
        return
    stock = seams.WRAPPER_LOCATION.get()

    def wrapper_location() -> str:
        try:
            return str(stock())
        except AttributeError:
            return "R"

    seams.WRAPPER_LOCATION.replace(wrapper_location)
