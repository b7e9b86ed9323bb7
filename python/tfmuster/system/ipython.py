"""Find out whether a shell of IPython runs in this process."""

from __future__ import annotations

import sys
from typing import Any


def ipython_shell() -> Any:
    """Return the shell of IPython or of a Jupyter kernel that runs in this process, or None.

    That IPython is imported says nothing: TensorFlow imports it wherever it is installed.
    """
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()
