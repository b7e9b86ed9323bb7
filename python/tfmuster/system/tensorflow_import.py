"""Import TensorFlow quickly, and without the lines about oneDNN and CUDA that it prints first.

TensorFlow is an extra of the package, not a dependency, so it may be missing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DependencyError
from .interpreter import python_executable

#: What to do if TensorFlow is missing. R's functions name `install_tfmuster()` instead.
HOW_TO_INSTALL = (
    "pip install 'tfmuster[tensorflow]', or 'tfmuster[cpu]' for the smaller build without GPU support"
)

#: Whether there is an NVIDIA driver, under Linux or in Windows. Without one, TensorFlow logs an error that
#: CUDA can't be started.
HAVE_GPU = any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg"))


def require_tensorflow() -> None:
    """Raise DependencyError unless this Python has TensorFlow and Keras. Imports neither."""
    for module, name in (("tensorflow", "TensorFlow"), ("keras", "Keras")):
        if not is_installed(module):
            raise DependencyError(
                f"{name} is needed here, and is not installed for this Python.",
                found=f"no package {module} in {python_executable()}",
                fix=f"{python_executable()} -m {HOW_TO_INSTALL}. Or run it with a Python that has it",
                package=module,
            )


def is_installed(module: str) -> bool:
    """Return whether this Python can find a module, without importing it."""
    if sys.modules.get(module) is not None:
        return True
    spec = importlib.util.find_spec(module)
    # A folder without __init__.py, which pip sometimes leaves behind, is found, too, but has no origin.
    return spec is not None and spec.origin is not None


def import_tensorflow() -> Any:
    """Import ``tensorflow``, and show what it writes to standard error only if the import fails.

    Its native libraries write before any Python setting takes effect, so the file descriptor itself is
    redirected meanwhile. If TF_CPP_MIN_LOG_LEVEL is set, nothing is hidden. Otherwise it is set only for the
    import, after which TensorFlow doesn't read it anymore: a job of this session would inherit it as a wish
    of the user. Raises DependencyError if TensorFlow is missing.
    """
    require_tensorflow()
    if "tensorflow" not in sys.modules:
        with without_gc():
            if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
                import tensorflow
            else:
                os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
                try:
                    _import_turned_away()
                finally:
                    os.environ.pop("TF_CPP_MIN_LOG_LEVEL", None)
    import tensorflow

    return tensorflow


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """Exclude the objects that are made within the block from garbage collection. Meant for a large import.

    None of TensorFlow's half a million objects ever becomes garbage. The collector would still scan them
    again and again during the import, for a quarter of its time, and once more for a second or two when the
    process ends. Objects that the program makes later are collected as usual.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _import_turned_away() -> None:
    sys.stderr.flush()
    with tempfile.TemporaryFile() as output:
        try:
            kept = os.dup(2)
        except OSError:  # standard error is closed: nothing to hide
            return
        os.dup2(output.fileno(), 2)
        try:
            import tensorflow

            if not HAVE_GPU:
                # TensorFlow logs that error when devices are first listed, so list them here.
                tensorflow.config.list_physical_devices("GPU")
        except BaseException:
            os.dup2(kept, 2)
            output.seek(0)
            sys.stderr.write(output.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
