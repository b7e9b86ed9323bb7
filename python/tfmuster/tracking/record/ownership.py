"""Check that files whose reading runs code, or whose text commands this user's processes, are the user's own.

Whoever can write such a file has this account. Its owner must be this user or root; and for the root user,
root alone. Others may write to the run directory itself, because a team may share the folder ``runs`` with
its group; but the folder ``call`` in it and the files in that have one writer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ...errors import TfmusterError

#: Windows has neither user numbers nor these permissions.
_HAS_OWNERS = hasattr(os, "geteuid")


def check_own(run_dir: Path, path: Path) -> None:
    """Check a file that runs code when it is read, and the folders of it up to the run directory.

    Raises
    ------
    TfmusterError
        It belongs to another user, or others can write to it; reason ``foreign``.
    """
    inner = [each for each in (path, *path.parents) if each != run_dir and each.is_relative_to(run_dir)]
    _check_owner([*inner, run_dir])
    if not _HAS_OWNERS:
        return
    for each in inner:
        mode = each.stat().st_mode
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            _refuse(each, f"others can write to it (mode {stat.S_IMODE(mode):o})", f"chmod go-w {each}")
    mode = run_dir.stat().st_mode
    if mode & stat.S_IWOTH:
        _refuse(run_dir, f"every user can write to it (mode {stat.S_IMODE(mode):o})", f"chmod o-w {run_dir}")


def check_owner(*paths: Path) -> None:
    """Check that files which name processes to end or commands to run are this user's own, if they exist.

    Raises
    ------
    TfmusterError
        One belongs to another user; reason ``foreign``.
    """
    _check_owner(path for path in paths if path.exists())


def foreign(path: Path) -> str:
    """Say whose a file is that belongs neither to this user nor to root; "" if it does."""
    # Links are followed: what is read counts.
    if not _HAS_OWNERS or (owner := path.stat().st_uid) in (os.geteuid(), 0):
        return ""
    return f"it belongs to {_name(owner)}, and you are {_name(os.geteuid())}"


def _check_owner(paths: Iterable[Path]) -> None:
    for path in paths:
        if found := foreign(path):
            _refuse(path, found, None)


def _refuse(path: Path, found: str, command: str | None) -> None:
    again = f"If nobody else has changed it: {command}" if command else "Read it as its owner."
    raise TfmusterError(
        f"{path} must be your own file: reading it can run code as you.",
        found=found,
        fix=f"{again} Or copy the directory, once you know that you can trust its content.",
        reason="foreign",
        path=str(path),
    )


def _name(user: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
