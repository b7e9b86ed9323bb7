"""Read and write checkpoints from which a training resumes exactly, also in the middle of an epoch.

A checkpoint is one file, ``<step>.checkpoint``: a SHA-256 checksum, then a numpy archive. The archive has
everything that the next step depends on (weights, optimizer state, states of random generators, metrics) and
the position in the data. A file appears under its name only when it is complete. The newest complete
checkpoint is used; a damaged one is skipped with a warning.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..environment import RUN_DIR_VARIABLE
from ..errors import CheckpointError, TfmusterWarning
from ..system.replace import PART, replacing_file

SUFFIX = ".checkpoint"


def folder_of_job(folder: str | os.PathLike[str] | None = None) -> Path:
    """Return the checkpoint folder: ``folder``, else ``checkpoints`` in the run directory of the job.

    Raises
    ------
    CheckpointError
        No folder is given, and the process is not part of a job (reason ``no-folder``).
    """
    if folder is not None:
        return Path(folder)
    run = os.environ.get(RUN_DIR_VARIABLE)
    if not run:
        raise CheckpointError(
            "Outside of a job, checkpoints need a folder.",
            fix='use checkpoint_callback("checkpoints"), or run the script with `tfmuster launch`',
            path=None,
            reason="no-folder",
        )
    return Path(run, "checkpoints")


def write(folder: Path, step: int, position: Mapping[str, Any], values: list[np.ndarray[Any, Any]]) -> None:
    """Write one checkpoint atomically.

    Raises
    ------
    CheckpointError
        The disk is full, or the folder is not writable. Earlier checkpoints stay intact.
    """
    archive = io.BytesIO()
    about = np.frombuffer(orjson.dumps(dict(position)), np.uint8)
    np.savez(archive, about=about, **{f"value_{i}": value for i, value in enumerate(values)})
    content = archive.getbuffer()
    path = folder / f"{step:012d}{SUFFIX}"
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


def remove_old(folder: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints, and what a process that was killed has left of one."""
    for path in [*_newest_first(folder)[keep:], *folder.glob(f".*{SUFFIX}.*{PART}")]:
        path.unlink(missing_ok=True)


def newest(folder: Path) -> bytes | None:
    """Return the content of the newest complete checkpoint; None without one."""
    for path in _newest_first(folder):
        try:
            content = path.read_bytes()
        except OSError as error:
            found = str(error.strerror)
        else:
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                return content[32:]
            found = "it is damaged or incomplete"
        warnings.warn(f"{path} is skipped: {found}", TfmusterWarning, stacklevel=2)
    return None


def newest_step(folder: Path) -> int | None:
    """Return the step of the newest checkpoint, complete or not; None without one."""
    return next((int(path.stem) for path in _newest_first(folder)), None)


def unpack(content: bytes) -> tuple[dict[str, Any], list[np.ndarray[Any, Any]]]:
    """Return the position and the values in a checkpoint's content."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        position: dict[str, Any] = orjson.loads(archive["about"].tobytes())
        return position, [archive[f"value_{i}"] for i in range(len(archive.files) - 1)]


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{SUFFIX}"), reverse=True)
