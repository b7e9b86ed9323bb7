"""Let TensorFlow warn of a deprecated name that R uses.

Its warnings name the caller's file and line, and a caller in R has no Python frame: in TensorFlow 2.21 the
call then fails with ``'NoneType' object has no attribute 'f_code'``.
"""

from __future__ import annotations

import sys


def name_callers_in_r() -> None:
    """Replace the two functions of TensorFlow that name a caller."""
    from tensorflow.python.util import deprecation, module_wrapper

    def location(outer: bool = False) -> str:
        frame = sys._getframe(1).f_back
        if outer and frame is not None:
            frame = frame.f_back or frame
        return "R" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"

    deprecation._call_location = location
    stock = module_wrapper._call_location

    def wrapper_location() -> str:
        try:
            return str(stock())
        except AttributeError:
            return "R"

    module_wrapper._call_location = wrapper_location
