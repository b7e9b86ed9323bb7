"""Find out how much memory this process may still use: that of the machine, or of its control group."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
#: For both versions of control groups: the limit, what is used, and the cached files in that, which make way.
_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def free_memory(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> int:
    """Return the free memory, in bytes: of the machine, or of the control group that has the least.

    Parameters
    ----------
    cgroups, own : path
        Where the system shows control groups, and those of this process (cgroups(7)).
    """
    free = [int(psutil.virtual_memory().available)]
    for folder in _own_folders(cgroups, own):
        for limit, used, cached in _FILES:
            # Without a limit, the file says "max", or is not there.
            with contextlib.suppress(OSError, ValueError):
                least = int((folder / limit).read_text()) - int((folder / used).read_text())
                free.append(max(0, least + _cached(folder, cached)))
    return min(free)


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
