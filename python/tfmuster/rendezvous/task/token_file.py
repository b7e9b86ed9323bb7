"""The secret of tasks that a user starts without a launcher, in a file of the home directory."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from pathlib import Path

from ...cluster.spec import Cluster
from ...environment import LEAST_TOKEN, TOKEN_VARIABLE
from ...errors import TfmusterError
from ...net.addresses import is_loopback


def token_path() -> Path | None:
    """Return where the file is, whether or not it exists; None without a home directory."""
    try:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:
        return None
    return home / "tfmuster" / "token"


def make_token_file() -> Path:
    """Write a new secret to the file, which only its owner can read. Keep one that is there.

    Raises TfmusterError if the file can't be written, or others can read the one that is there.
    """
    path = token_path()
    if path is None:
        raise TfmusterError(
            "A user without a home directory has no place for the secret.",
            fix=f"set HOME, or export {TOKEN_VARIABLE}=$(openssl rand -hex 16) for every task",
        )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".token-") as file:
            file.write(f"{secrets.token_hex(32)}\n")
            file.flush()
            # Another task may do the same at this moment: one of them wins, and nobody reads half a secret.
            with contextlib.suppress(FileExistsError):
                os.link(file.name, path)
                return path
    except OSError as error:
        raise TfmusterError(
            f"The secret can't be written to {path}.", found=error.strerror, fix="make the folder writable"
        ) from error
    token_of_file()
    return path


def token_of_home(cluster: Cluster) -> str | None:
    """Return the secret in the file; see :func:`token_of_file`. Make it if all tasks are on this machine."""
    token = token_of_file()
    if token is None and len(cluster) > 1 and all(is_loopback(task.address) for task in cluster.tasks()):
        # A home directory that can't be written to has no secret for any of them.
        with contextlib.suppress(TfmusterError):
            make_token_file()
        token = token_of_file()
    return token


def token_of_file() -> str | None:
    """Return the secret in the file; None if there is no file.

    Raises TfmusterError if it belongs to another user, others can read it, or it holds no secret.
    """
    path = token_path()
    if path is None:
        return None
    try:
        with path.open() as file:
            status = os.fstat(file.fileno())
            text = file.read(1000).strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise TfmusterError(
            f"The secret in {path} can't be read.", found=str(error), fix="remove the file: tfmuster token"
        ) from error
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TfmusterError(
            f"The secret in {path} must be yours alone.",
            found=f"owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}",
            fix=f"remove the file, since others may know the secret, and call tfmuster token: rm {path}",
        )
    if len(text) < LEAST_TOKEN:
        raise TfmusterError(
            f"The secret in {path} must have at least {LEAST_TOKEN} characters: shorter ones can be guessed.",
            found=f"{len(text)} characters",
            fix=f"remove the file, and call tfmuster token: rm {path}",
        )
    return text
