"""Limits that the system sets to this process."""

from __future__ import annotations

import errno

from ..errors import LaunchError


def need_files(count: int, what: str) -> None:
    """Make sure that this process may have so many open files; raise the soft limit if it is too low.

    Raises
    ------
    LaunchError
        The hard limit is too low (reason ``files``).
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= count:
        return
    if hard != endless and hard < count:
        raise LaunchError(
            f"{what} needs about {count} open files.",
            found=f"this system allows {hard} (`ulimit -n`)",
            fix="Raise the limit, or start fewer workers here.",
            reason="files",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def cannot_start(what: str, error: OSError) -> LaunchError:
    """Return the error for a process that the system does not start."""
    fixes = {
        errno.EMFILE: "Raise the limit of open files (`ulimit -n`), or start fewer workers here.",
        errno.EAGAIN: "Raise the limit of processes (`ulimit -u`), or start fewer workers here.",
        errno.ENOMEM: "Start fewer workers here.",
        errno.E2BIG: "Put long arguments and variables into a file.",
    }
    return LaunchError(
        f"{what} can't be started.",
        found=error.strerror or str(error),
        fix=fixes.get(error.errno or 0),
        reason="start",
    )
