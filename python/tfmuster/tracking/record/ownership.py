"""Check that files whose reading runs code, or whose text commands this user's processes, are the user's own.

Whoever can write such a file has this account. Its owner must be this user or root; and for the root user,
root alone. Others may write to the run directory itself, because a team may share the folder ``runs`` with
its group; but the folder ``call`` in it and the files in that have one writer.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...errors import TfmusterError

#: Windows has neither user numbers nor these permissions.
_HAS_OWNERS = hasattr(os, "geteuid")


def check_own(run_dir: Path, path: Path) -> None:
    """Raise TfmusterError (reason ``foreign``) unless a file, whose reading runs code, is this user's alone.

    It and the folders of it up to the run directory must be the user's, and not writable for others.
    """
    inner = [
        parent for parent in (path, *path.parents) if parent != run_dir and parent.is_relative_to(run_dir)
    ]
    check_owner(*inner, run_dir)
    if not _HAS_OWNERS:
        return
    for place in (*inner, run_dir):
        mode, shared = place.stat().st_mode, place == run_dir
        if mode & (stat.S_IWOTH if shared else stat.S_IWGRP | stat.S_IWOTH):
            writers, bits = ("every user", "o") if shared else ("others", "go")
            found = f"{writers} can write to it (mode {stat.S_IMODE(mode):o})"
            _refuse(place, found, f"chmod {bits}-w {place}")


def check_owner(*paths: Path) -> None:
    """Raise TfmusterError (reason ``foreign``) if one of the paths that exist is another user's."""
    for path in paths:
        if path.exists() and (owner := foreign(path)):
            _refuse(path, owner, None)


def foreign(path: Path) -> str:
    """Say whose a file is that belongs neither to this user nor to root; "" if it does."""
    # Links are followed: what is read counts.
    whose = not_own(path)
    return f"it {whose}" if whose and path.stat().st_uid != 0 else ""


def not_own(path: Path) -> str:
    """Say whose a file is that belongs to another user, who may be root; "" if it is this user's.

    Raises OSError if the file is not there, or in a folder that this user can't search.
    """
    owner = path.stat().st_uid
    if not _HAS_OWNERS or owner == os.geteuid():
        return ""
    return f"belongs to {_name(owner)}, and you are {_name(os.geteuid())}"


def _refuse(path: Path, found: str, command: str | None) -> None:
    remedy = f"If nobody else has changed it: {command}" if command else "Read it as its owner."
    raise TfmusterError(
        f"{path} must be your own file: reading it can run code as you.",
        found=found,
        fix=f"{remedy} Or copy the directory, once you know that you can trust its content.",
        reason="foreign",
        path=str(path),
    )


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
