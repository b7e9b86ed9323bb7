"""Limits that the system sets to this process."""

from __future__ import annotations

import errno
import os

from ..errors import LaunchError


def need_files(count: int, what: str) -> None:
    """Make sure that this process may have so many open files; raise the soft limit if it is too low.

    Raises
    ------
    LaunchError
        The hard limit is too low (reason ``files``).
    """
    if (allowed := fewer_files(count)) is not None:
        raise LaunchError(
            f"{what} needs about {count} open files.",
            found=f"this system allows {allowed} (`ulimit -n`)",
            fix="Raise the limit, or start fewer workers here.",
            reason="files",
        )


def fewer_files(count: int) -> int | None:
    """Return how many open files this process may have if these are fewer than `count`, otherwise None.

    The soft limit is raised if it is too low.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= count:
        return None
    if hard != endless and hard < count:
        return hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    return None


def open_files() -> int:
    """Return how many files this process has open, or a guess where the system does not say."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 16


def cannot_start(what: str, error: OSError) -> LaunchError:
    """Return the error for a process that the system does not start."""
    fixes = {
        errno.EMFILE: "Raise the limit of open files (`ulimit -n`), or start fewer workers here.",
        errno.EAGAIN: "Raise the limit of processes (`ulimit -u`), or start fewer workers here.",
        errno.ENOMEM: "Start fewer workers here.",
        errno.ENOEXEC: "Begin the script with a line such as #!/bin/sh, or launch it by its shell.",
        errno.E2BIG: "Put long arguments and variables into a file.",
    }
    return LaunchError(
        f"{what} can't be started.",
        found=error.strerror or str(error),
        fix=fixes.get(error.errno or 0),
        reason="start",
    )
