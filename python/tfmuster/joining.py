"""Join the cluster that TF_CONFIG names: wait for the others first, and learn later why one of them failed.

Called before TensorFlow makes a multi-worker strategy, by :func:`tfmuster.strategy` and, for programs that
never heard of tfmuster, by the import hook of :mod:`tfmuster.keras_compat`.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

from .control import failure_text
from .errors import EXIT_WORKER_FAILED
from .rendezvous import muster

if TYPE_CHECKING:
    from .cluster import Task
    from .control import Control, Failure

#: How long the main thread may take to notice by itself that the job has failed, seconds. TensorFlow tells a
#: survivor within a second or two of a peer's end, or not at all.
_GRACE_SECONDS = 5.0


def join_cluster(task: Task, *, timeout: float | None = None) -> Control:
    """Wait until everyone is present; from then on another task's failure is told, and ends this process.

    A survivor is ended by force after a moment, because TensorFlow may leave it waiting for ever. In an
    interactive session the cause is told, and the session lives on.

    Parameters
    ----------
    task : Task
        The task of this process.
    timeout : float, optional
        See :func:`tfmuster.rendezvous.muster`.

    Raises
    ------
    RendezvousError
        See :func:`tfmuster.rendezvous.muster`.
    """
    control = muster(task, timeout=timeout)
    if control.active:
        control.on_failure(_tell_and_end)
    return control


def _tell_and_end(failure: Failure) -> None:
    print(f"tfmuster: {failure_text(failure)}", file=sys.stderr, flush=True)
    if _may_end():
        timer = threading.Timer(_GRACE_SECONDS, _end)
        timer.daemon = True
        timer.start()


def _may_end() -> bool:
    """Whether this process is a worker's program, and not somebody's session."""
    if "TFMUSTER_JOB" in os.environ:
        return True
    session = hasattr(sys, "ps1") or sys.flags.interactive or "rpytools" in sys.modules
    return not session and "IPython" not in sys.modules


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # After a failed collective, TensorFlow's own way out can hang or abort.
    os._exit(EXIT_WORKER_FAILED)
