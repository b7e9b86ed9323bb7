"""Make a run directory, and record the launcher, the machine and the program in it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from ...cluster.findings import printable
from ...cluster.resolvers import batch_job
from ...environment import SUBMITTED_VARIABLE
from ...errors import LaunchError
from ...options.hints import Hint
from ...system.ask import NoAnswerError, ask
from ...system.process_end import SHUTDOWN
from ...system.processes import birth
from ...system.versions import recorded_versions
from ...words import Words
from ..live.status import status_of
from ..record.layout import ANY_VALUES, CALL, CLAIMED, NAMED, NAMES, RUNS, UNFINISHED, holds_run, utc_now
from ..record.ownership import not_own
from ..record.recording import read_info, record_info, record_status, record_stop_command, remember_run
from .resuming import resuming
from .stopping import resume_text

#: Time limit of git, in seconds.
_GIT_SECONDS = 5.0
#: What stands before the commit in git's answer. Before the first commit, "(initial)" follows.
_COMMIT = "# branch.oid "


def new_run(
    name: str,
    *,
    run_dir: str | os.PathLike[str] | None,
    command: Sequence[str],
    cluster: Mapping[str, object],
    job: str | None = None,
    seed: int | None = None,
    settings: Mapping[str, object] | None = None,
) -> Path:
    """Make a run directory: `run_dir`, or by default ``runs/<UTC time>-<name>``, and record the job in it.

    If `run_dir` has a run of the same command that has ended before its program had finished, that run is
    resumed. Return the absolute path.

    ``job`` is the name that the job's processes have in their environment, and ``settings`` are the settings
    of the training; ``run.json`` records both. Errors are those of `claim_run_dir`.
    """
    about = {
        "name": name,
        "command": list(command),
        "cluster": dict(cluster),
        "job": job,
        "seed": seed,
        **(settings or {}),
    }
    wanted = None if run_dir is None else Path(run_dir).absolute()
    with contextlib.nullcontext() if wanted is None else resuming(wanted, command) as resumed:
        if wanted is not None and resumed:
            _record(wanted, {**about, "resumed": 1 + int(read_info(wanted).get("resumed", 0))})
            return wanted
        claim = claim_run_dir(name, run_dir)
        try:
            # The session that has submitted this batch job has recorded its run.
            if holds_run(claim.path) and SUBMITTED_VARIABLE not in os.environ:
                raise not_new(claim.shown)
            claim.take("logs")
        except LaunchError:
            claim.release()
            raise
        (claim.path / CALL / CLAIMED).unlink(missing_ok=True)
        _record(claim.path, about)
    return claim.path


def _record(run_dir: Path, about: Mapping[str, object]) -> None:
    """Write what is known of a job when it starts."""
    batch = batch_job()
    if batch is not None:
        record_stop_command(run_dir, batch.stop)
    import psutil

    about = {
        **about,
        "started": utc_now(),
        "directory": os.getcwd(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "pid_birth": birth(psutil.Process()),
        # On SIGTERM the launcher command ends its workers. An R or Python session would leave them behind.
        "ends_on_sigterm": SHUTDOWN.takes(signal.SIGTERM),
        "versions": recorded_versions(),
        **({f"{batch.system}_job": batch.number} if batch else {}),
    }
    record_info(run_dir, about)
    record_status(run_dir, state="starting", restarts=0, tasks={})
    remember_run(run_dir)


@dataclass(frozen=True)
class Claim:
    """A run directory that belongs to one job, which is about to start.

    Folders in it are made without ``exist_ok``, so that only one of several jobs gets it.
    """

    #: Absolute. It exists.
    path: Path
    #: As its user knows it, for messages.
    shown: Path
    #: The folders that had to be made for it, the innermost first.
    created: Sequence[Path]
    _taken: list[Path] = field(default_factory=list)

    def take(self, name: str, mode: int = 0o777) -> Path:
        """Make a folder of the run directory that nobody else has made; LaunchError if somebody has."""
        folder = self.path / name
        try:
            folder.mkdir(mode)
        except FileExistsError:
            raise not_new(self.shown) from None
        except OSError as error:
            raise _not_made(self.shown, error) from error
        self._taken.append(folder)
        return folder

    def release(self) -> None:
        """Remove what this claim has made, unless a run has begun in the directory; nothing else."""
        if (self.path / "run.json").exists():
            return
        for folder in self._taken:
            shutil.rmtree(folder, ignore_errors=True)
        if self.path in self.created:
            (self.path / NAMED).unlink(missing_ok=True)
        for folder in self.created:
            with contextlib.suppress(OSError):
                folder.rmdir()


def not_new(shown: Path) -> LaunchError:
    """Return the error for a run directory that already holds a run, or files under the names of a run's."""
    whose = not_own(shown)
    if whose:
        return _not_yours(shown, f"{shown} {whose}, and already holds {', '.join(_names_in(shown))}")
    if holds_run(shown):
        content, more = "a run", f". To resume its run: {resume_text(shown)}"
    else:
        content, more = ", ".join(_names_in(shown)), ": a run keeps its own files under these names."
    return LaunchError(
        "The run directory must be new.",
        found=f"{shown} already holds {content}",
        fix=Words("Choose another place with {}{}", Hint("run_dir"), more),
        reason="run-dir",
    )


def _names_in(path: Path) -> list[str]:
    """Return the names of a run's files that a directory has."""
    return [name for name in NAMES if os.path.lexists(path / name)]


def _check_free(path: Path, shown: Path) -> None:
    """Raise LaunchError if a run would change files of a directory, or is there and waits in a queue."""
    # Unlike those of Path, the functions of os.path allow names that are too long.
    if holds_run(path):
        # Whether a run that has begun or has ended is resumed depends on the command.
        begun = os.path.exists(path / "logs") or SUBMITTED_VARIABLE in os.environ
        refused = not begun and status_of(path)["state"] in UNFINISHED
    else:
        claimed = os.path.exists(path / CALL / CLAIMED)
        refused = _names_in(path) not in ([], [CALL] if claimed else [])
    if refused:
        raise not_new(shown)


def claim_run_dir(
    name: str, run_dir: str | os.PathLike[str] | None = None, *, runs: str | os.PathLike[str] = RUNS
) -> Claim:
    """Take a run directory for a job, before anything is written to it.

    `run_dir` may exist. Default: a new ``<UTC time>-<name>`` in the folder `runs`, with a number behind it if
    several jobs of this name start in one second. Raises LaunchError if the directory has other files under
    the names of a run's, or can't be made.
    """
    if run_dir is not None:
        _check_free(Path(run_dir).absolute(), Path(run_dir))
        return _make(Path(run_dir), new=False)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{stamp}-{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-.') or 'run'}"
    for number in itertools.count(1):
        with contextlib.suppress(FileExistsError):
            return _make(Path(runs, stem if number == 1 else f"{stem}-{number}"), new=True)
    raise AssertionError("there is always another number")


def _make(shown: Path, *, new: bool) -> Claim:
    """Make a run directory. One that must be `new` is marked, and a FileExistsError says that it is not."""
    path = shown.absolute()
    try:
        created = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=not new)
        if new:
            (path / NAMED).touch()
    except OSError as error:
        if new and isinstance(error, FileExistsError):
            raise
        raise _not_made(shown, error) from error
    return Claim(path, shown, created)


def claim_call(
    name: str,
    run_dir: str | os.PathLike[str] | None = None,
    *,
    any_values: bool = False,
    runs: str | os.PathLike[str] = RUNS,
) -> Claim:
    """Take a run directory for a function, and make its folder ``call``, which only this user can read.

    With `any_values`, values may be objects of any kind, whose reading runs code; see
    :mod:`tfmuster.tracking.values`. For the rest, see `claim_run_dir`.
    """
    claim = claim_run_dir(name, run_dir, runs=runs)
    try:
        if _names_in(claim.path):
            raise not_new(claim.shown)
        folder = claim.take(CALL, mode=0o700)
        (folder / CLAIMED).touch(mode=0o600)
        if any_values:
            (folder / ANY_VALUES).touch(mode=0o600)
    except LaunchError:
        claim.release()
        raise
    return claim


def _not_made(path: Path, error: OSError) -> LaunchError:
    message = f"The run directory {path} can't be made."
    fix: str = Words(
        "Choose another place with {}, or a working directory that you can write to.", Hint("run_dir")
    )
    if error.errno == errno.ENAMETOOLONG:
        message = f"The run directory {printable(os.fspath(path))} can't be made."
        fix = "Choose a shorter name."
    elif isinstance(error, PermissionError):
        for folder in (path.absolute(), *path.absolute().parents):
            # What is in a folder that this user can't search is not known.
            with contextlib.suppress(OSError):
                if whose := not_own(folder):
                    return _not_yours(path, f"{folder} {whose}: {(error.strerror or '').lower()}")
                break
    return LaunchError(message, found=error.strerror, fix=fix, reason="run-dir")


def _not_yours(shown: Path, found: str) -> LaunchError:
    """Return the error for a run directory of another user, or in the folder of one."""
    home = Path.home()
    own = str(home / "runs" / shown.name) if os.access(home, os.W_OK) else None
    return LaunchError(
        f"You must be able to write to the run directory {shown}.",
        found=found,
        fix=Words("Choose a folder of your own with {}, or ask the owner for access.", Hint("run_dir", own)),
        reason="run-dir",
    )


def record_git(run_dir: Path, script: Path | None = None) -> None:
    """Add the commit of the script's folder, or else of the working directory, to ``run.json``.

    Nothing is added outside of a git repository, or without git. ``changed`` says that tracked files differ
    from the commit, or that it lacks the script.
    """
    place = Path.cwd() if script is None else script.absolute().parent
    root = next((folder for folder in (place, *place.parents) if (folder / ".git").exists()), None)
    if root is None:
        return
    status = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
    try:
        answer = ask("git", "--no-optional-locks", "-C", place, *status, seconds=_GIT_SECONDS)
    except NoAnswerError:
        return
    entries = answer.output.split("\0")
    commit = next((entry[len(_COMMIT) :] for entry in entries if entry.startswith(_COMMIT)), "")
    if answer.code == 0 and commit.isalnum():
        changed = any(_is_change(entry, root, script) for entry in entries)
        record_info(run_dir, {**read_info(run_dir), "git": {"commit": commit, "changed": changed}})


def _is_change(entry: str, root: Path, script: Path | None) -> bool:
    """Return whether an entry of ``git status`` is a changed file, or the script that git does not know."""
    kind, _, name = entry.partition(" ")
    if kind == "?":
        return script is not None and script.absolute().is_relative_to(root / name)
    return kind not in ("", "#")
