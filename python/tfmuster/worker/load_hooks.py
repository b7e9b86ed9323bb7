"""Hold back the functions that R packages run when Keras or TensorFlow is imported.

That of keras3 makes a tensor, and then TensorFlow can't join a cluster any more. So in a worker these
functions wait until its strategy is made, or until the program itself starts TensorFlow.
"""

from __future__ import annotations

import sys
from typing import Any

_held: list[Any] = []


def hold() -> None:
    """Hold the functions back from now on, in a Python that R embeds."""
    from ..keras_compat.runtime.starting import call_when_started, tensorflow_started

    loader: Any = sys.modules.get("rpytools.loader")
    if _held or tensorflow_started() or not hasattr(loader, "_recursion_depth"):
        return
    _held.append(loader)
    # reticulate runs them at the end of the outermost import.
    loader._recursion_depth += 1
    call_when_started(release)


def note(module: str) -> bool:
    """Tell whether the functions are held, and have those for this imported module run later. R calls it."""
    if _held and module in sys.modules and module not in _held[0]._imported_packages:
        _held[0]._imported_packages.append(module)
    return bool(_held)


def release() -> None:
    """Run the functions that were held back."""
    while _held:
        loader = _held.pop()
        loader._recursion_depth -= 1
        loader._maybe_run_hooks()
