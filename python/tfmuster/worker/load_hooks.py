"""Hold back the functions that R packages run when Keras or TensorFlow is imported.

That of keras3 makes a tensor, and then TensorFlow can't join a cluster any more. So in a worker these
functions wait until its strategy is made, or until the program itself starts TensorFlow.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from . import seams

#: One entry while they are held.
_held: list[bool] = []


def hold() -> None:
    """Hold the functions back from now on, in a Python that R embeds."""
    from ..keras_compat.runtime.starting import call_when_started, tensorflow_started

    if _held or tensorflow_started() or not _known():
        return
    _held.append(True)
    _hold()
    call_when_started(release)


def note(module: str) -> bool:
    """Return whether the functions are held; if so, run this module's later. R calls it."""
    if _held and module in sys.modules and module not in seams.IMPORTED_PACKAGES.get():
        seams.IMPORTED_PACKAGES.get().append(module)
    return bool(_held)


def release() -> None:
    """Run the functions that were held back."""
    if _held:
        _held.clear()
        _release()


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Hold the functions back until the end of the block, in a Python that R embeds."""
    known = _known()
    if known:
        _hold()
    try:
        yield
    finally:
        if known:
            _release()


def _known() -> bool:
    """Return whether R embeds this Python, by a reticulate that has what is needed."""
    return "rpytools.loader" in sys.modules and all(row.fits for row in seams.LOAD_HOOKS)


def _hold() -> None:
    # reticulate runs them at the end of the outermost import.
    seams.LOAD_HOOK_DEPTH.assign(seams.LOAD_HOOK_DEPTH.get() + 1)


def _release() -> None:
    seams.LOAD_HOOK_DEPTH.assign(seams.LOAD_HOOK_DEPTH.get() - 1)
    seams.RUN_LOAD_HOOKS.get()()
