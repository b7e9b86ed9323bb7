"""Let TensorFlow warn of a deprecated name that R uses.

Its warnings name the caller's file and line, and a caller in R has no Python frame: in TensorFlow 2.21 the
call then fails with ``'NoneType' object has no attribute 'f_code'``.
"""

from __future__ import annotations

import sys

from .. import seams


def name_callers_in_r() -> None:
    """Replace the two functions of TensorFlow that name a caller."""

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
