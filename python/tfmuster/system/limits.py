"""Find out what this process may use: open files, cores, and memory."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import LaunchError


def need_files(count: int, what: str) -> None:
    """Raise LaunchError (reason ``files``) if this process may not have so many open files."""
    if (allowed := fewer_files(count)) is not None:
        raise LaunchError(
            f"{what} needs about {count} open files.",
            found=f"this system allows {allowed} (`ulimit -n`)",
            fix="Raise the limit, or start fewer workers here.",
            reason="files",
        )


def fewer_files(count: int) -> int | None:
    """Raise the limit of open files to `count`, or as far as possible; then return it, otherwise None."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    endless = resource.RLIM_INFINITY
    if soft == endless or soft >= count:
        return None
    raised = count if hard == endless else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised if raised < count else None


def room_for_strangers(tasks: int) -> int:
    """Return how many connections may wait for their introduction at a time, in a cluster of `tasks`.

    It is at most a quarter of the files that the process may open, so that they can't displace a task.
    """
    wanted = 1024 + 2 * tasks
    allowed = fewer_files(4 * wanted)
    return wanted if allowed is None else allowed // 4


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


def check_processes(proc: Path = Path("/proc")) -> None:
    """Raise LaunchError (reason ``machine``) unless the processes of this machine can be seen."""
    if sys.platform == "linux" and not (proc / "self" / "stat").exists():
        raise LaunchError(
            "The processes of this machine must be visible.",
            found=f"{proc} is not mounted",
            fix="Mount it (mount -t proc proc /proc), or launch the job outside of the sandbox.",
            reason="machine",
        )


def usable_cores() -> int:
    """Return how many cores this process may use: those that it is bound to, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")

#: For both versions of control groups: the limit, what is used, and the cached files in that, which make way.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> int:
    """Return the free memory, in bytes: of the machine, or of the control group that has the least.

    `cgroups` and `own` are where the system shows control groups, and those of this process (cgroups(7)).
    """
    import psutil

    free = [int(psutil.virtual_memory().available)]
    for folder in _own_folders(cgroups, own):
        for limit, used, cached in _FILES:
            # Without a limit, the file says "max", or is not there.
            with contextlib.suppress(OSError, ValueError):
                least = int((folder / limit).read_text()) - int((folder / used).read_text())
                free.append(max(0, least + _cached(folder, cached)))
    return min(free)


def total_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> int:
    """Return the memory that this process may use at most, in bytes. For the arguments see `free_memory`."""
    import psutil

    total = [int(psutil.virtual_memory().total)]
    for folder in _own_folders(cgroups, own):
        for limit, _, _ in _FILES:
            with contextlib.suppress(OSError, ValueError):
                total.append(int((folder / limit).read_text()))
    return min(total)


def used_memory() -> int:
    """Return the memory that this process uses, in bytes."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _own_folders(cgroups: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process, and of those around them."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not on Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = cgroups / controllers if controllers else cgroups
        group = root / path.strip("/")
        # In a container, the path may be that of the host, of which only the root is visible.
        yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(root))


def _cached(folder: Path, name: str) -> int:
    for line in (folder / "memory.stat").read_text().splitlines():
        entry, _, value = line.partition(" ")
        if entry == name:
            return int(value)
    return 0
