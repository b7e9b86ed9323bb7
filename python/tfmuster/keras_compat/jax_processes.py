"""What tfmuster needs to know of JAX in a job of several processes."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from ..system.activity import ACTIVITY
from . import seams


def jax_process_index() -> int | None:
    """Return the index of this process among those of JAX; None if JAX has not connected it to others."""
    jax: Any = sys.modules.get("jax")
    # TensorFlow imports JAX, too, if it is installed.
    if jax is None or not hasattr(jax, "distributed"):
        return None
    state = seams.JAX_STATE.get()
    return state.process_id if state.client is not None and state.num_processes > 1 else None


def send_bytes_in_jax(content: bytes | None) -> bytes | None:
    """Return the ``content`` of process 0 in every process. All processes must call it."""
    import numpy as np
    from jax.experimental import multihost_utils

    size = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if content is None else len(content))))
    if size < 0:
        return None
    own = content if jax_process_index() == 0 and content is not None else bytes(size)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(np.frombuffer(own, np.uint8))))


def spans_all_processes(distribution: Any) -> bool:
    """Return whether a ``keras.distribution`` has devices of every process."""
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    return len({device.process_index for device in devices}) == int(jax.process_count())


def watch_this_process() -> None:
    """Let the other workers know from now on what this one does."""
    if not ACTIVITY.watched:
        ACTIVITY.watched = True
        ACTIVITY.waits_in("JAX", _waits_in_jax)


def _waits_in_jax() -> bool:
    """Return whether the main thread is in JAX or Keras, where it may wait for other processes.

    JAX's calls return before they are computed, so a step says nothing about who waits. The main thread
    waits where it reads a value, where Keras drops an array that is still computed, and in the next step.
    """
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return frame is not None and frame.f_code.co_filename.startswith(_folders())


def _folders() -> tuple[str, ...]:
    modules = (sys.modules.get(name) for name in ("jax", "jaxlib", "keras"))
    return tuple(f"{Path(module.__file__).parent}/" for module in modules if module and module.__file__)
