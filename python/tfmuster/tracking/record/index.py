"""Remember the paths of this user's runs, so that they are found from any folder.

``runs.jsonl`` in the user's state folder has a line for each run. A run that is gone is not listed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import orjson

from ...system.replace import replacing_file
from .layout import read_json_lines

#: Size from which the file is written anew, without the runs that are gone, in bytes.
_LARGE = 256_000


def index_path() -> Path | None:
    """Return the path of the index; None if this user has no state folder.

    It is in ``XDG_STATE_HOME``, by default ``~/.local/state``. A check of an R package must not write there.
    """
    if "_R_CHECK_PACKAGE_NAME_" in os.environ:
        return None
    folder = os.environ.get("XDG_STATE_HOME", "")
    try:
        state = Path(folder) if os.path.isabs(folder) else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return state / "tfmuster" / "runs.jsonl"


def remember_run(run_dir: Path) -> None:
    """Add a run. A full disk or a folder that can't be written must not end the job."""
    path = index_path()
    if path is None:
        return
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _LARGE:
            runs = known_runs()
            with replacing_file(path, mode=0o600) as file:
                file.writelines(map(_line, runs))
        # One write, so that two jobs can add their lines at the same time.
        with open(path, "ab", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600)) as index:
            index.write(_line(run_dir))


def known_runs() -> list[Path]:
    """Return the run directories in the index that are still there, in the order of their jobs."""
    path = index_path()
    lines = [] if path is None else read_json_lines(path)
    paths = dict.fromkeys(Path(line["path"]) for line in lines if isinstance(line.get("path"), str))
    return [run for run in paths if os.path.exists(run / "run.json")]


def _line(run_dir: Path) -> bytes:
    return orjson.dumps({"path": os.fsencode(run_dir).decode("utf-8", "replace")}) + b"\n"
