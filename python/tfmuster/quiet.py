"""Import TensorFlow without the half dozen lines about oneDNN and CUDA that it greets with."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any


def import_tensorflow() -> Any:
    """The module ``tensorflow``; what its import writes to standard error is shown only if it fails.

    Its native libraries write before any Python setting can reach them, so the file descriptor itself is
    turned away for that time. With TF_CPP_MIN_LOG_LEVEL set, the user wants the messages: nothing is hidden.
    """
    if "tensorflow" not in sys.modules and "TF_CPP_MIN_LOG_LEVEL" not in os.environ:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        _import_turned_away()
    import tensorflow

    return tensorflow


def _import_turned_away() -> None:
    sys.stderr.flush()
    with tempfile.TemporaryFile() as said:
        try:
            kept = os.dup(2)
        except OSError:  # standard error is closed: nothing to hide
            return
        os.dup2(said.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            os.dup2(kept, 2)
            said.seek(0)
            sys.stderr.write(said.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)
