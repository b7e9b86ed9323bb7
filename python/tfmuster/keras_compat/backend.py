"""Tell which backend Keras has, and refuse what needs TensorFlow under another one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ..errors import StrategyError


def keras_backend() -> str:
    """Return the backend that Keras has, or will have when this process imports it."""
    if (keras := sys.modules.get("keras")) is not None:
        # Keras 2 has no other backend, and a Keras that is being imported doesn't tell.
        backend = getattr(getattr(keras, "config", None), "backend", None)
        if backend is not None:
            return str(backend())
    if given := os.environ.get("KERAS_BACKEND"):
        return given
    folder = os.environ.get("KERAS_HOME") or "~/.keras"
    try:
        settings = json.loads(Path(folder, "keras.json").expanduser().read_text(encoding="utf-8"))
        return str(settings["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"


def require_tensorflow_backend(function: str, fix: str) -> None:
    """Refuse a function that makes or uses a strategy of TensorFlow, if Keras has another backend.

    Parameters
    ----------
    function : str
        Its name, such as ``strategy()``.
    fix : str
        What a program on JAX does instead.

    Raises
    ------
    StrategyError
        Keras has another backend (reason ``backend``).
    """
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return
    backend = keras_backend()
    if backend != "tensorflow":
        raise StrategyError(
            f"{function} is for Keras on TensorFlow.",
            found=f"the backend {backend}",
            fix=f"on JAX, {fix}" if backend == "jax" else "set KERAS_BACKEND=tensorflow",
            strategy="default",
            reason="backend",
        )
