"""Import TensorFlow quickly, and without the half dozen lines about oneDNN and CUDA that it greets with."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Whether there is a driver of NVIDIA's, under Linux or in Windows. Without one, TensorFlow calls it an error
#: that CUDA can't be started.
HAVE_GPU = any(Path("/dev", name).exists() for name in ("nvidiactl", "dxg"))


def import_tensorflow() -> Any:
    """The module ``tensorflow``; what its import writes to standard error is shown only if it fails.

    Its native libraries write before any Python setting can reach them, so the file descriptor itself is
    turned away for that time. With TF_CPP_MIN_LOG_LEVEL set, the user wants the messages: nothing is hidden.
    """
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
