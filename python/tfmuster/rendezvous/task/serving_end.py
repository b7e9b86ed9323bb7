"""End a process that serves with a TensorFlow server, which can't be stopped, when the job is over."""

from __future__ import annotations

import os
import socket
import sys
import time
from typing import NoReturn

from ...errors import EXIT_WORKER_FAILED, WorkerError
from ...net.addresses import split_address
from .control_channel import ControlChannel
from .join import GRACE_SECONDS

#: Longest time that the coordinator may take to exit after its last message, in seconds.
_LEAVE_SECONDS = 3.0


def serve_until_over(control: ControlChannel) -> int:
    """Wait until the job is over and its coordinator has gone. Return the exit code of this process."""
    try:
        control.wait_done()
    except WorkerError:
        # The control channel has reported the cause. The task that caused the failure must exit first.
        time.sleep(GRACE_SECONDS)
        return EXIT_WORKER_FAILED
    _wait_until_gone(control.task.cluster.chief_task().address)
    return 0


def exit_at_once(code: int) -> NoReturn:
    """End this process without the shutdown of TensorFlow."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _wait_until_gone(address: str) -> None:
    """Wait until the coordinator has exited, because TensorFlow disconnects from every server then."""
    end = time.monotonic() + _LEAVE_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(split_address(address), timeout=0.2).close()
        except TimeoutError:
            continue  # its port is guarded, so it lets nobody in
        except OSError:
            return
        time.sleep(0.1)
