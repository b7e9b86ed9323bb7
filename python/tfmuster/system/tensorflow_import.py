"""Import TensorFlow quickly, and without the half dozen lines about oneDNN and CUDA that it greets with.

TensorFlow is not a dependency of the package but an extra of it, so it may be missing.
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

#: What to do where TensorFlow is missing. R's functions say `install_tfmuster()` instead.
HOW_TO_INSTALL = (
    "pip install 'tfmuster[tensorflow]', or 'tfmuster[cpu]' for the smaller build without GPU support"
)

#: Whether there is a driver of NVIDIA's, under Linux or in Windows. Without one, TensorFlow calls it an error
#: that CUDA can't be started.
HAVE_GPU = any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg"))


def require_tensorflow() -> None:
    """Raise DependencyError unless TensorFlow and Keras are installed for this Python. Imports neither."""
    for module, name in (("tensorflow", "TensorFlow"), ("keras", "Keras")):
        if not is_installed(module):
            raise DependencyError(
                f"{name} is needed here, and is not installed for this Python.",
                found=f"no package {module} in {python_executable()}",
                fix=HOW_TO_INSTALL,
                package=module,
            )


def is_installed(module: str) -> bool:
    """Whether this Python can find a module, without importing it."""
    if sys.modules.get(module) is not None:
        return True
    spec = importlib.util.find_spec(module)
    # A folder without __init__.py, as pip sometimes leaves it behind, is found too, and has no origin.
    return spec is not None and spec.origin is not None


def import_tensorflow() -> Any:
    """The module ``tensorflow``; what its import writes to standard error is shown only if it fails.

    Its native libraries write before any Python setting can reach them, so the file descriptor itself is
    turned away for that time. With TF_CPP_MIN_LOG_LEVEL set, the user wants the messages: nothing is hidden.
    DependencyError if it is not installed.
    """
    require_tensorflow()
    if "tensorflow" not in sys.modules and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        with without_gc():
            _import_turned_away()
    import tensorflow

    return tensorflow


@contextlib.contextmanager
def without_gc() -> Iterator[None]:
    """Within: an import of many modules. Python's garbage collector never looks at what they consist of.

    It would look through TensorFlow's half a million objects again and again while they are being made (a
    quarter of the time of the import), and once more, for a second or two, when the process ends: none of
    them ever becomes garbage. What the program makes later is collected as ever.
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
    with tempfile.TemporaryFile() as said:
        try:
            kept = os.dup(2)
        except OSError:  # standard error is closed: nothing to hide
            return
        os.dup2(said.fileno(), 2)
        try:
            import tensorflow

            if not HAVE_GPU:
                # It would say so as soon as anybody asks for devices.
                tensorflow.config.list_physical_devices("GPU")
        except BaseException:
            os.dup2(kept, 2)
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
