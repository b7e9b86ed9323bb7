"""Change reticulate, by which R and Python call each other: its seams, and when hooks of imports run.

R packages have functions that run when Keras or TensorFlow is imported. That of keras3 makes a tensor, and
then TensorFlow can't join a cluster any more. So in a worker these functions wait until its strategy is made,
or until the program itself starts TensorFlow.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ..system.register import Seam

LOAD_HOOK_DEPTH = Seam(
    "rpytools.loader:_recursion_depth",
    "functions that R packages run when Keras is imported wait until the strategy is made",
    essential=False,
)
IMPORTED_PACKAGES = Seam("rpytools.loader:_imported_packages", LOAD_HOOK_DEPTH.why, essential=False)
RUN_LOAD_HOOKS = Seam("rpytools.loader:_maybe_run_hooks", LOAD_HOOK_DEPTH.why, essential=False)
LOAD_HOOKS = (LOAD_HOOK_DEPTH, IMPORTED_PACKAGES, RUN_LOAD_HOOKS)

CALL_R_FUNCTION = Seam(
    "rpycall:call_r_function",
    "an R function that another thread calls is an error, and not the end of the session",
    essential=False,
)
#: Newer versions of reticulate have a second name for the function.
CALL_R_FUNCTION_AGAIN = Seam("rpytools.call:call_r_function", CALL_R_FUNCTION.why, essential=False)
CALL_ON_MAIN_THREAD = Seam(
    "rpycall:call_python_function_on_main_thread",
    "the values of an R generator come from R's thread, within a time limit",
    essential=False,
)
R_GENERATOR = Seam("rpytools.generator:RGenerator", CALL_ON_MAIN_THREAD.why, essential=False)
R_GENERATOR_NEXT = Seam("rpytools.generator:RGenerator.next", CALL_ON_MAIN_THREAD.why, essential=False)

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
    if _held and module in sys.modules and module not in IMPORTED_PACKAGES.get():
        IMPORTED_PACKAGES.get().append(module)
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
    return "rpytools.loader" in sys.modules and all(row.fits for row in LOAD_HOOKS)


def _hold() -> None:
    # reticulate runs them at the end of the outermost import.
    LOAD_HOOK_DEPTH.assign(LOAD_HOOK_DEPTH.get() + 1)


def _release() -> None:
    LOAD_HOOK_DEPTH.assign(LOAD_HOOK_DEPTH.get() - 1)
    RUN_LOAD_HOOKS.get()()
