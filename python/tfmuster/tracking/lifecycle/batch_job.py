"""End the batch job of a run from another machine.

The command is read from the run directory. So it is run only if it is one that tfmuster writes: a batch
system's command, and the identifier of a job.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from ...errors import LaunchError
from ...system.ask import NoAnswerError, ask
from ..live.status import wait_for_end
from ..record.layout import STOP_COMMAND, UNFINISHED, read_json
from ..record.ownership import check_owner
from ..record.recording import record_end

#: How long a batch system may take to accept the request to end a job, in seconds.
_ANSWER_SECONDS = 30.0
#: How long it may take to end the job's processes, and how long a shared file system may take to show what
#: another node has written, in seconds.
_BATCH_SECONDS, _SHARED_SECONDS = 60.0, 5.0
#: The commands that end a job, with what may follow: the number of the job, of an array's element in it, and
#: for PBS the server's name. PBS and SGE have a command of the same name; SGE names an element by ``-t``.
STOP_COMMANDS = {
    "scancel": re.compile(r"[0-9]+(_[0-9]+)?", re.ASCII),
    "qdel": re.compile(r"[0-9]+(\[[0-9]*\])?(\.[A-Za-z0-9][A-Za-z0-9.-]*)?|[0-9]+ -t [0-9]+", re.ASCII),
    "bkill": re.compile(r"[0-9]+(\[[0-9]+\])?", re.ASCII),
}


def stop_command(run_dir: Path) -> list[str]:
    """Return the command that ends a run's batch job; empty if it has none.

    Raises
    ------
    TfmusterError
        The file belongs to another user.
    LaunchError
        It holds another command.
    """
    path = run_dir / STOP_COMMAND
    check_owner(path)
    read = read_json(path).get("command")
    if not read:
        return []
    command = list(map(str, read)) if isinstance(read, list) else [str(read)]
    number = STOP_COMMANDS.get(command[0])
    if number is None or not number.fullmatch(" ".join(command[1:])):
        raise LaunchError(
            "The command that ends a batch job must be scancel, qdel or bkill with the number of a job.",
            found=f"{shlex.join(command)[:200]} in {path}",
            fix="End the job by its batch system.",
            reason="stop-command",
        )
    return command


def end_batch_job(run_dir: Path, command: Sequence[str]) -> None:
    """Ask the batch system to end a run's job, and wait for its end.

    Raises
    ------
    LaunchError
        The batch system does not answer here, or refuses.
    """
    has_begun = (run_dir / "logs").is_dir()
    try:
        answer = ask(*command, seconds=_ANSWER_SECONDS)
    except NoAnswerError as error:
        found: str | None = str(error)
    else:
        found = None if answer.code == 0 else answer.first_line
    # A job that has not started has no launcher that could record its end.
    state = wait_for_end(run_dir, _BATCH_SECONDS if has_begun and not found else _SHARED_SECONDS)["state"]
    if state not in UNFINISHED:
        return
    if found:
        raise LaunchError(
            f"The batch job of the run {run_dir.name} must be ended by its batch system.",
            found=found,
            fix=f"Run this on a machine of the cluster: {shlex.join(command)}",
            run=run_dir.name,
        )
    record_end(run_dir, "interrupted")
