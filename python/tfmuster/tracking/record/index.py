"""Remember the paths of this user's runs, so that they are found from any folder.

``runs.jsonl`` in the user's state folder has a line for each run. A run that is gone is not listed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import orjson

from ...system.replace import replacing_file

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
    line = orjson.dumps({"path": os.fsencode(run_dir).decode("utf-8", "replace")}) + b"\n"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _LARGE:
            _keep(path, known_runs())
        # One write, so that two jobs can add their lines at the same time.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


def known_runs() -> list[Path]:
    """Return the run directories in the index that are still there, in the order of their jobs."""
    path = index_path()
    found: dict[Path, None] = {}
    with contextlib.suppress(OSError):
        for line in path.read_bytes().splitlines() if path is not None else ():
            # The last line may be incomplete.
            with contextlib.suppress(orjson.JSONDecodeError, LookupError, TypeError, ValueError):
                run = Path(orjson.loads(line)["path"])
                if os.path.exists(run / "run.json"):
                    found[run] = None
    return list(found)


def _keep(path: Path, runs: list[Path]) -> None:
    with replacing_file(path, mode=0o600) as file:
        for run in runs:
            file.write(orjson.dumps({"path": str(run)}) + b"\n")
