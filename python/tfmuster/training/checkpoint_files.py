"""Read and write checkpoints from which a training resumes exactly, also in the middle of an epoch.

A checkpoint is one file, ``<step>.checkpoint``: a SHA-256 checksum, then a numpy archive. The archive has
everything that the next step depends on (weights, optimizer state, states of random generators, metrics) and
the position in the data. A file appears under its name only when it is complete. The newest complete
checkpoint is used; one that can't be read is skipped with a warning, and stays: it may be of another version,
or larger than this process may unpack, and only the user knows whether it is of use.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import socket
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import psutil

from ..cluster.tf_config import folder_without_run
from ..environment import CHECKPOINT_DIR_VARIABLE, UNPACKED_GB_VARIABLE
from ..errors import CheckpointError, TfmusterWarning
from ..system.archives import TooLargeError, check_zip
from ..system.processes import birth
from ..system.replace import PART, replacing_file
from ..tracking.record.layout import CHECKPOINT, CHECKPOINT_OWNER, checkpoint_step, own_run_dir
from ..words import Code, Words

#: Whether each checkpoint that this process has written or read can be read. Large ones take seconds.
_readable: dict[Path, bool] = {}


class Checkpoint(NamedTuple):
    """A complete checkpoint: the step that its name says, and its content, see `unpack`."""

    step: int
    content: bytes


#: The fields that a checkpoint must have, and what tells whether a value suits.
Fields = Mapping[str, Callable[[object], bool]]

_NO_FIELDS: Final[Fields] = {}


def folder_of_job(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder, otherwise ``checkpoints`` in ``TFMUSTER_CHECKPOINT_DIR`` or in the run directory.

    A worker that no launcher has started has none; its checkpoints are beside its script.

    Raises CheckpointError if the process is not part of a job either (reason ``no-folder``).
    """
    if folder is not None:
        return Path(folder)
    place = place_of_job() or folder_without_run()
    if place is None:
        raise CheckpointError(
            "Outside of a job, checkpoints need a folder.",
            fix=Words(
                "use {}, or run the script with `{}`",
                Code('checkpoint_callback("checkpoints")', 'callback_checkpoint("checkpoints")'),
                Code("tfmuster launch", "launch()", "tfmuster launch"),
            ),
            reason="no-folder",
        )
    return Path(place, "checkpoints")


def place_of_job() -> str | Path | None:
    """Return the folder for the checkpoint folders of a job; nothing outside of one."""
    return os.environ.get(CHECKPOINT_DIR_VARIABLE) or own_run_dir()


def claim(folder: Path) -> None:
    """Note that this process writes checkpoints to a folder.

    Raises CheckpointError if another living process of this machine does (reason ``other-job``).
    """
    note = folder / CHECKPOINT_OWNER
    try:
        owner = orjson.loads(note.read_bytes())
        other, since = psutil.Process(owner["pid"]), owner["birth"]
        alive = owner["host"] == socket.gethostname() and birth(other) == since
    except (OSError, ValueError, TypeError, KeyError, psutil.Error):
        alive = False
    if alive and other.pid != os.getpid():
        raise CheckpointError(
            "Two jobs must not write checkpoints to one folder at the same time.",
            found=f"process {other.pid} ({owner.get('job') or 'no job'}) writes to {folder}",
            fix="choose another folder, or wait until that job has ended",
            path=str(folder),
            reason="other-job",
        )
    run_dir = own_run_dir()
    about = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "birth": birth(psutil.Process()),
        "job": run_dir.name if run_dir else None,
    }
    # `write` reports a folder that can't be written.
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(note) as file:
            file.write(orjson.dumps(about))


def write(
    folder: Path, step: int, position: Mapping[str, object], values: list[npt.NDArray[np.generic]]
) -> None:
    """Write one checkpoint atomically. Raises CheckpointError if that fails; earlier ones stay intact."""
    archive = io.BytesIO()
    about = np.frombuffer(orjson.dumps(dict(position)), np.uint8)
    np.savez(archive, about=about, **{f"value_{i}": value for i, value in enumerate(values)})
    content = archive.getbuffer()
    path = folder / f"{step:012d}{CHECKPOINT}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing_file(path, sync=True) as file:
            file.write(hashlib.sha256(content).digest())
            file.write(content)
    except OSError as error:
        raise CheckpointError(
            "The checkpoint could not be written; the earlier ones are intact.",
            found=f"{error.strerror} ({path})",
            fix="free space on that disk, or use another folder, and restart: training resumes",
            path=str(path),
            reason="write",
        ) from error
    _readable[path] = True


def remove_old(folder: Path, keep: int, step: int, fields: Fields = _NO_FIELDS) -> None:
    """Remove all but the newest ``keep`` checkpoints up to ``step``, which has just been written.

    Those without these fields, and unreadable ones, neither count nor are removed: they don't take the place
    of one from which a training can resume. Those of a later step are not this training's, which would have
    begun with the newest that it could read. Parts that a killed process has left are removed, too.
    """
    of_now = [path for path in _newest_first(folder) if _step(path) <= step and _can_be_read(path, fields)]
    for path in [*of_now[keep:], *folder.glob(f".*{CHECKPOINT}.*{PART}")]:
        path.unlink(missing_ok=True)
        _readable.pop(path, None)


def newest(folder: Path, fields: Fields = _NO_FIELDS) -> Checkpoint | None:
    """Return the newest complete checkpoint with these fields, if any; warn of others of this suffix."""
    for path in sorted(folder.glob(f"*{CHECKPOINT}")):
        if checkpoint_step(path.name) is None:
            warnings.warn(
                f"{path} is skipped: its name must be a number of steps", TfmusterWarning, stacklevel=2
            )
    for path in _newest_first(folder):
        content, fault = _read(path, fields)
        if not fault:
            return Checkpoint(_step(path), content)
        warnings.warn(f"{path} is skipped: {fault}", TfmusterWarning, stacklevel=2)
    return None


def _can_be_read(path: Path, fields: Fields) -> bool:
    if path not in _readable:
        _read(path, fields)
    return _readable[path]


def _read(path: Path, fields: Fields) -> tuple[bytes, str]:
    """Return a checkpoint's content, and what is wrong with it, or an empty string."""
    content = b""
    try:
        content = path.read_bytes()
    except OSError as error:
        fault = str(error.strerror)
    else:
        fault = _fault(content, fields)
    _readable[path] = not fault
    return content[32:], fault


def _fault(content: bytes, fields: Fields) -> str:
    """Return what is wrong with a file's content, or an empty string."""
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return "it is damaged or incomplete"
    try:
        position, _ = unpack(content[32:])
    except TooLargeError as error:
        return f"it has {error} ({UNPACKED_GB_VARIABLE} sets the limit)"
    except Exception:
        # Parsers, and decompressors, report unreadable content with whatever exception they have.
        return "it has no archive of arrays"
    if not isinstance(position, dict):
        return "it does not say where the training stood"
    missing = [name for name in fields if name not in position]
    if missing:
        return f"it lacks {', '.join(missing)}"
    wrong = [name for name, suits in fields.items() if not suits(position[name])]
    return f"it has something else as {', '.join(wrong)}" if wrong else ""


def steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints, complete or not, the newest first."""
    return [_step(path) for path in _newest_first(folder)]


def unpack(content: bytes) -> tuple[dict[str, Any], list[npt.NDArray[np.generic]]]:
    """Return the position and the values in a checkpoint's content."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        check_zip(archive, len(content))
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        position: dict[str, Any] = orjson.loads(archive["about"].tobytes())
        return position, [archive[f"value_{i}"] for i in range(len(archive.files) - 1)]


def _newest_first(folder: Path) -> list[Path]:
    named = [path for path in folder.glob(f"*{CHECKPOINT}") if checkpoint_step(path.name) is not None]
    return sorted(named, key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.stem)
