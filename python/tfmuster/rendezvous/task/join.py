"""Join the cluster that TF_CONFIG names: wait for the other tasks, and end when one of them fails.

:func:`tfmuster.strategy` calls this module before TensorFlow makes a multi-worker strategy. For programs that
do not use tfmuster, :mod:`tfmuster.worker.import_hook` does.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping

from ...cluster.spec import Task, hosts_of
from ...environment import JOB_VARIABLE, job_token
from ...errors import EXIT_WORKER_FAILED, RendezvousError, WorkerError
from ...net.addresses import proxy_exceptions, split_address
from ...net.channel import Message
from ...system.process_end import exit_as, exit_with_code_of
from ...system.say import say
from ...system.user_code import ipython_shell
from ...tracking.failure.error_file import leave_note
from ...tracking.live.stacks import BUSY_SECONDS, write_busy_stacks, write_own_stacks
from ...tracking.live.states import State, say_state, say_waiting
from ..failures import STALLED, failure_text
from ..preemption import PREEMPTION
from ..seeding import take_seed
from .control_channel import ControlChannel
from .meet import muster, print_progress
from .port_guard import guard_port, wait_for_chief
from .token_file import token_of_home

#: How long the main thread may take to notice by itself that the job has failed, in seconds. TensorFlow
#: reports the end of a peer within a second or two, or not at all.
GRACE_SECONDS = 5.0
#: The same for a job that has stalled, in seconds. All tasks need it to write their stacks, also one in which
#: R has just become busy.
_STALLED_SECONDS = BUSY_SECONDS
#: Longest time that the coordinator may take to exit after its last message, in seconds.
_COORDINATOR_SECONDS = 3.0

#: The control channel whose failures this module reports.
_joined: list[ControlChannel] = []


def join_cluster(
    task: Task,
    *,
    timeout: float | None = None,
    versions: Mapping[str, str] | None = None,
    guarded: bool = True,
    link: bool = False,
) -> ControlChannel:
    """Wait until all tasks are present. If another task fails later, print its failure and end this process.

    The process is killed after `GRACE_SECONDS`, because TensorFlow may leave it waiting forever. In an
    interactive session the failure is only printed. ``guarded`` guards the task's port, on which TensorFlow
    will listen (:mod:`.port_guard`). For the rest see :func:`.meet.muster`: if nothing catches its
    RendezvousError, the process ends with exit code 3.
    """
    current = ControlChannel.current()
    if current is not None and current.active and current in _joined:
        return current
    say_state(State("waiting"))
    # A launcher has done so for its workers. Those that were started in another way need it, too.
    os.environ |= proxy_exceptions(os.environ, hosts_of(task.cluster))
    try:
        control = muster(
            task,
            timeout=timeout,
            token=job_token() or token_of_home(task.cluster),
            versions=versions,
            on_progress=_report_progress,
            link=link,
        )
    except RendezvousError as error:
        exit_with_code_of(error)
        raise
    take_seed(control.seed, task)
    if guarded:
        guard_port(task, control)
        if "tensorflow" in sys.modules:
            from ...keras_compat.runtime.servers import release_lock_at_start

            release_lock_at_start(wait_for_chief)
    say_state(State("joined"))
    if control.active:
        _joined[:] = [control]
        control.on_failure(_report_failure)
        PREEMPTION.hear(control)
        if "rpytools" in sys.modules:
            _report_how_r_ends()
            write_busy_stacks(task.name)
    return control


def report_end(error: str | None = None) -> None:
    """Report that this task has finished, or failed with ``error``; the first call counts. R calls it."""
    control = ControlChannel.current()
    if control is not None:
        if error is None:
            control.done()
        else:
            control.failed({"kind": "exception", "message": error})


def report_exit() -> None:
    """Report that R ends. Where there is glibc, it reports that itself, and knows the exit code."""
    if not _callbacks:
        report_end()


# References for the C library, which calls the function when the process ends.
_callbacks: list[object] = []


def _report_how_r_ends() -> None:
    """Let the C library report how the process ends: inside R, Python's exit hooks never run."""
    on_exit = getattr(ctypes.CDLL(None), "on_exit", None)
    if on_exit is None or _callbacks:  # only glibc has on_exit(3); elsewhere the R package reports the end
        return

    def ending(status: int, _: object) -> None:
        report_end(None if status == 0 else f"exit code {status}")

    _callbacks.append(ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(ending))
    on_exit(_callbacks[0], None)


def _report_progress(progress: Message) -> None:
    print_progress(progress)
    say_waiting(progress)


def _report_failure(failure: Message) -> None:
    say(f"tfmuster: {failure_text(failure)}")
    stalled = failure["kind"] == STALLED
    if stalled:
        _write_stall(failure)
    if is_worker_process():
        # A stalled program does not notice by itself.
        timer = threading.Timer(_STALLED_SECONDS if stalled else GRACE_SECONDS, _end, [failure])
        timer.daemon = True
        timer.start()


def _write_stall(failure: Message) -> None:
    """Write this task's stacks, and the error that the launcher shows."""
    control = ControlChannel.current()
    task = control.task.name if control is not None else "this task"
    path = write_own_stacks(task)
    message = str(failure["message"])
    fix = f"see the stacks of all workers in {path.parent}" if path else "see the stacks above"
    # The launcher reports the earliest error, so the task that the others wait for comes first.
    leave_note(WorkerError(message, fix=fix), age=1.0 if failure["task"] == task else 0.0)


def is_worker_process() -> bool:
    """Tell whether this process runs a worker's program, not an interactive session."""
    if JOB_VARIABLE in os.environ:
        return True
    session = hasattr(sys, "ps1") or sys.flags.interactive or "rpytools" in sys.modules
    return not session and ipython_shell() is None


def _end(failure: Message) -> None:
    if failure["kind"] != STALLED:
        # The launcher knows no failure of a process that has ended with code 0 in mid-program.
        leave_note(WorkerError(failure_text(failure)))
    # After a failed collective operation, TensorFlow's own shutdown can hang or abort.
    exit_as(EXIT_WORKER_FAILED)


def serve_until_over(control: ControlChannel) -> int:
    """Wait until the job is over and its coordinator has exited. Return this process's exit code.

    A TensorFlow server can't be stopped before.
    """
    if control.task.type == "worker":
        # The coordinator continues without a lost worker, but not without a parameter server and its weights.
        control.done()
    try:
        control.wait_done()
    except WorkerError:
        # The control channel has reported the cause. The task that caused the failure must exit first.
        time.sleep(GRACE_SECONDS)
        return EXIT_WORKER_FAILED
    # TensorFlow disconnects from every server when the coordinator exits.
    address = control.task.cluster.chief_task().address
    end = time.monotonic() + _COORDINATOR_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(split_address(address), timeout=0.2).close()
        except TimeoutError:
            continue  # its port is guarded, so it lets nobody in
        except OSError:
            break
        time.sleep(0.1)
    return 0
