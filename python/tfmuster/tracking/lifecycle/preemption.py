"""Tell the tasks of a run to save and leave, and whether they can, by files in its ``states`` folder.

``worker-0.saves``  is not empty while that task is in a training that can be saved at any step
``leave``           tells every task to save and leave; its content is the signal
``ending``          exists once the launcher ends the job, so that no task begins to save

The agent of a worker on another machine keeps these files in the run directory there.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from ...cluster.tf_config import current_task
from ...environment import ERROR_FILE_VARIABLE
from ...errors import TfmusterError
from ...system.regular_files import read_regular
from ..record.layout import STATES, file_stem, own_run_dir

_LEAVE: Final = "leave"
_ENDING: Final = "ending"
_SAVES: Final = ".saves"


def order_to_leave(run_dir: Path, signal: int) -> None:
    """Tell the tasks that have this run directory to save and leave."""
    path = run_dir / STATES / _LEAVE
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(signal))


def order_in(run_dir: Path) -> int:
    """Return the signal of the order to leave in a run directory; 0 without one."""
    with contextlib.suppress(OSError, ValueError):
        return int(read_regular(run_dir / STATES / _LEAVE, 64))
    return 0


def own_order() -> int:
    """Return the signal of the order to leave for this worker; 0 without one."""
    run_dir = own_run_dir()
    return order_in(run_dir) if run_dir else 0


def note_ending(run_dir: Path) -> None:
    """Note that the job is being ended. Errors are ignored: it ends in any case."""
    with contextlib.suppress(OSError):
        (run_dir / STATES / _ENDING).touch()


def is_ending() -> bool:
    """Return whether the launcher is ending the job of this worker."""
    run_dir = own_run_dir()
    return run_dir is not None and (run_dir / STATES / _ENDING).exists()


def note_saves(on: bool) -> None:
    """Note whether this worker is in a training that can be saved. Errors are ignored."""
    run_dir, note = own_run_dir(), os.environ.get(ERROR_FILE_VARIABLE)
    with contextlib.suppress(OSError, TfmusterError):
        if run_dir and (task := current_task()) is not None:
            path = run_dir / STATES / (file_stem(task.name) + _SAVES)
        elif note:
            # `tfmuster worker` has no run directory.
            path = Path(note).with_suffix(_SAVES)
        else:
            return
        # The agent sends files that change, but does not remove any.
        path.write_text("yes" if on else "")


def child_saves(note_path: Path) -> bool:
    """Return whether the worker with this error file, which has no run directory, can be saved now."""
    with contextlib.suppress(OSError):
        return note_path.with_suffix(_SAVES).stat().st_size > 0
    return False


def can_save(run_dir: Path) -> bool:
    """Return whether a task of a running job is in a training that can be saved."""
    states = run_dir / STATES
    return not (states / _ENDING).exists() and any(path.stat().st_size for path in states.glob(f"*{_SAVES}"))


def forget_orders(run_dir: Path) -> None:
    """Remove what an earlier attempt has left."""
    states = run_dir / STATES
    for path in (*states.glob(f"*{_SAVES}"), states / _LEAVE, states / _ENDING):
        path.unlink(missing_ok=True)
