"""Join the cluster that TF_CONFIG names: wait for the others first, and learn later why one of them failed.

Called before TensorFlow makes a multi-worker strategy, by :func:`tfmuster.strategy` and, for programs that
never heard of tfmuster, by :mod:`tfmuster.worker.import_hook`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import TYPE_CHECKING

from ..environment import JOB_VARIABLE
from ..errors import EXIT_WORKER_FAILED, RendezvousError
from ..runs.states import State, say_phase, say_state, say_waiting
from ..system.exit_code import end_with_its_code
from .control_channel import ControlChannel
from .failures import failure_text
from .meet import muster, print_progress

if TYPE_CHECKING:
    from ..cluster.spec import Task
    from ..net.channel import Message
    from .failures import Failure

#: How long the main thread may take to notice by itself that the job has failed, seconds. TensorFlow tells a
#: survivor within a second or two of a peer's end, or not at all.
GRACE_SECONDS = 5.0


def join_cluster(task: Task, *, timeout: float | None = None) -> ControlChannel:
    """Wait until everyone is present; from then on another task's failure is told, and ends this process.

    A survivor is ended by force after a moment, because TensorFlow may leave it waiting for ever. In an
    interactive session the cause is told, and the session lives on.

    Parameters
    ----------
    task : Task
        The task of this process.
    timeout : float, optional
        See :func:`tfmuster.rendezvous.meet.muster`.

    Raises
    ------
    RendezvousError
        See :func:`tfmuster.rendezvous.meet.muster`. If nobody catches it, the process ends with exit code 3.
    """
    say_phase("waiting")
    try:
        control = muster(task, timeout=timeout, on_progress=_tell_progress)
    except RendezvousError as error:
        end_with_its_code(error)
        raise
    say_state(State("starting"))
    say_phase("joined")
    if control.active:
        control.on_failure(_tell_and_end)
        if "rpytools" in sys.modules:
            _leave_with_the_process()
    return control


def report_end(error: str | None = None) -> None:
    """Say that this task is done, or has failed with ``error``; the first word counts. R calls it."""
    control = ControlChannel.current()
    if control is not None:
        if error is None:
            control.done()
        else:
            control.failed({"kind": "exception", "message": error})


# Kept for the C library, which calls it when the process ends.
_callbacks: list[object] = []


def _leave_with_the_process() -> None:
    """Inside R, Python's own exit hooks never run: have the C library say how the process ends."""
    on_exit = getattr(ctypes.CDLL(None), "on_exit", None)
    if on_exit is None or _callbacks:  # on_exit(3) is glibc's; elsewhere the R package says it
        return

    def ending(status: int, _: object) -> None:
        report_end(None if status == 0 else f"exit code {status}")

    _callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ending))
    on_exit(_callbacks[0], None)


def _tell_progress(progress: Message) -> None:
    print_progress(progress)
    say_waiting(progress)


def _tell_and_end(failure: Failure) -> None:
    print(f"tfmuster: {failure_text(failure)}", file=sys.stderr, flush=True)
    if is_worker_process():
        timer = threading.Timer(GRACE_SECONDS, _end)
        timer.daemon = True
        timer.start()


def is_worker_process() -> bool:
    """Whether this process is a worker's program, and not somebody's session."""
    if JOB_VARIABLE in os.environ:
        return True
    session = hasattr(sys, "ps1") or sys.flags.interactive or "rpytools" in sys.modules
    return not session and "IPython" not in sys.modules


def _end() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # After a failed collective, TensorFlow's own way out can hang or abort.
    os._exit(EXIT_WORKER_FAILED)
