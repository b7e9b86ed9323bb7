"""Prepare the Keras of this process: patched, and connected with what its job compares and tells."""

from __future__ import annotations

from typing import Any

from ..keras_compat import install, install_on_jax
from ..keras_compat.process import PROCESS, keras_backend, listen
from ..system.say import say
from ..tracking.record.lines import say_note
from .task.agreement import agree, raise_cause


def prepare_keras() -> bool:
    """Patch the imported Keras for several workers. Calling it again is harmless.

    Whatever a program uses first comes here: `strategy`, `checkpoint_callback`, R's methods, or, in a worker,
    the import of Keras.

    Returns
    -------
    bool
        Whether Keras is patched; see :func:`tfmuster.keras_compat.install`.

    Raises
    ------
    DependencyError
        A release does not have what tfmuster replaces (reason ``seams``).
    """
    PROCESS.raise_cause = raise_cause
    if keras_backend() == "jax":
        install_on_jax()
    elif install():
        listen(say_note)
        listen(_print_slow_input)
    else:
        return False
    PROCESS.compare = agree
    return True


def _print_slow_input(about: str, text: str, *, selected: bool = True, **_: Any) -> None:
    """Print a note that each worker reads all data. Only the chief has notes."""
    if about == "input" and not selected:
        say(f"tfmuster: input does not get faster with more workers: {text}")
