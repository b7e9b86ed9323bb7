"""Let one process of this machine do what several would do at the same time."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def only_one_process(lock: Path, on_wait: Callable[[], object]) -> Iterator[None]:
    """Hold a lock, a file that is made, inside the block. Call `on_wait` if another process holds it.

    The kernel releases the lock when its process ends, so a killed process does not block the others. On
    Windows, which has no such lock, nobody waits. Raises OSError if the file can't be made.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    # A link of another user in a shared folder must not be followed.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def machine_name() -> str:
    """Return what is equal for the processes that share files: two containers have two names."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()} {boot.read_text().strip() if boot.exists() else ''}"
