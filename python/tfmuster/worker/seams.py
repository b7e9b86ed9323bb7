"""The register of seams of reticulate, by which R and Python call each other."""

from __future__ import annotations

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
