"""List the runs in a folder, find one by its name, and summarize runs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ...cluster.findings import printable
from ...errors import TfmusterError
from ...options.hints import Hint
from ...system.say import say
from ...system.terminal_text import safe_text, visible
from ...words import Code, Value, Words
from ..failure.failure import Failure, signal_name
from ..lifecycle.removing import whose
from ..record.index import known_runs
from ..record.layout import CALL, RUNS, UNFINISHED
from ..record.metrics import epoch_line, read_metrics
from ..record.records import unreadable, written
from ..run import Run
from .times import in_words, local_time, seconds_of, speed_of

_HOURS = {"h": 1, "d": 24, "w": 24 * 7}


#: A folder of runs, or several.
Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_LIST = Code("tfmuster.runs()", "run_list()", "tfmuster runs list")
_LIST_ALL = Code("tfmuster.runs(all=True)", "run_list(all = TRUE)", "tfmuster runs list --all")


def runs_in(folder: Folders = RUNS) -> list[Run]:
    """Return all runs in a folder or several, oldest first: their names begin with their times."""
    return _in_order(path.parent for each in _each(folder) for path in Path(each).glob("*/run.json"))


def _each(folder: Folders) -> Sequence[str | os.PathLike[str]]:
    return [folder] if isinstance(folder, str | os.PathLike) else folder


def _in_order(paths: Iterable[Path]) -> list[Run]:
    return [Run(path) for path in sorted(paths, key=lambda path: (path.name, path))]


def runs(folder: Folders | None = None, *, all: bool = False) -> list[Run]:
    """Return the runs in a folder, oldest first, or all runs of this user.

    Parameters
    ----------
    folder : path or sequence of path, optional
        Folder of the runs, or several. Default: ``runs`` in the working directory.
    all : bool
        Also return this user's runs in other folders, as far as they are there.

    Returns
    -------
    list of Run
    """
    here = runs_in(RUNS if folder is None else folder)
    if not all:
        return here
    return _in_order({run.path: None for run in here} | {path.absolute(): None for path in known_runs()})


def find_run(
    name: str | os.PathLike[str] | None = None,
    folder: Folders | None = None,
    *,
    elsewhere: bool | None = None,
    single: bool = False,
    changes: bool = False,
) -> Run:
    """Find one run, which another session may have started.

    If several runs match, the newest is taken, and a line on standard error says so.

    Parameters
    ----------
    name : str or path, optional
        The run's name, a part of its name, or its path. Default: the newest run.
    folder : path or sequence of path, optional
        Folder of the runs, or several. Default: ``runs`` in the working directory.
    elsewhere : bool, optional
        Whether to look among this user's runs in other folders if no run matches there. Default: if no folder
        is given.
    single : bool
        Whether it is an error if several runs match.
    changes : bool
        Whether the run is to be stopped, resumed or removed. Then a run in another folder is found by its
        full name only.

    Raises
    ------
    TfmusterError
        If no run matches, several match with `single`, or only a part of the name is given with `changes`
        (reason ``part-of-name``).
    """
    # Unlike Path.exists, this allows names that are too long.
    if name and os.path.exists(Path(name, "run.json")):
        return Run(name)
    named = None if name is None else os.fspath(name)
    found = _matching(runs_in(RUNS if folder is None else folder), named)
    away = not found and (folder is None if elsewhere is None else elsewhere)
    if away:
        found = _matching(runs(all=True), named)
        if changes and found:
            _check_full_name(found, named)
    if not found or (single and named is not None and len(found) > 1):
        places = ", ".join(str(each) for each in _each(RUNS if folder is None else folder))
        raise TfmusterError(
            "A run must be given by its name, a unique part of its name, or its path."
            if single
            else "A run must be given by its name, a part of its name, or its path.",
            found=f"{len(found)} runs in {places} match '{printable(named)}'"
            if named
            else f"no runs in {places}",
            fix=Words("List the runs with `{}`", _LIST)
            + (Words(", those in other folders with `{}`.", _LIST_ALL) if away else "."),
        )
    if named is not None and len(found) > 1:
        say(f"tfmuster: {len(found)} runs match '{printable(named)}'; taking the newest, {found[-1].name}")
    elif away:
        say(f"tfmuster: taking {found[-1].path}")
    return found[-1]


def _check_full_name(found: Sequence[Run], named: str | None) -> None:
    """Raise TfmusterError unless `named` is the full name of one of these runs of other folders."""
    if len(found) == 1 and found[0].name == named:
        return
    newest = found[-1]
    if newest.name == named:
        what, full = f"{len(found)} runs of this name", newest.path
    else:
        part = "no name" if named is None else f"'{printable(named)}'"
        what, full = f"{part}; the newest that matches is in {newest.path.parent}", Path(newest.name)
    raise TfmusterError(
        "A run in another folder must be given by its full name to stop, resume or remove it.",
        found=what,
        fix=Words("If you mean this run, write {}; list all with `{}`.", full, _LIST_ALL),
        reason="part-of-name",
    )


def _matching(runs: list[Run], named: str | None) -> list[Run]:
    found = [run for run in runs if named is None or named == run.name]
    return found or [run for run in runs if named and named in run.name]


def ended_before(age: str, folder: Folders = RUNS) -> list[Run]:
    """Return this user's runs of a folder that ended longer ago than `age`, oldest first.

    Parameters
    ----------
    age : str
        A number and a unit: ``"12h"`` (hours), ``"30d"`` (days), ``"8w"`` (weeks).
    folder : path or sequence of path
        Folder of the runs, or several.

    Raises
    ------
    TfmusterError
        If `age` is something else.
    """
    match = re.fullmatch(r"([0-9]{1,6})([hdw])", age.strip()) if isinstance(age, str) else None
    if match is None:
        raise TfmusterError(
            "An age must be a number and a unit.",
            found=str(Value(age)),
            fix="Write hours as 12h, days as 30d, weeks as 8w.",
        )
    hours = int(match[1]) * _HOURS[match[2]]
    # Python's calendar begins with the year 1.
    limit = datetime.now(timezone.utc) - timedelta(hours=min(hours, 1000 * 366 * 24))
    own = (run for run in runs_in(folder) if not whose(run.path))
    return [run for run in own if not run.goes_on and _last_change(run) < limit]


def _last_change(run: Run) -> datetime:
    told = run.status().get("updated") or run.info().get("started")
    return datetime.fromisoformat(told) if told else written(run.path / "run.json")


def last_epoch(run: Run) -> str:
    """Describe the last finished epoch and its metrics, for a terminal; "" before the first."""
    epochs = read_metrics(run.path)
    return visible(epoch_line(epochs[-1])) if epochs else ""


def summary(run: Run) -> dict[str, str]:
    """Summarize a run by label: its program, the state of each task, its notes, and the first failure.

    The texts are for a terminal, whoever has written them: R shows them, too.
    """
    info, status, error = run.info(), run.status(), run.error()
    command = " ".join(info.get("command", []))
    known: dict[str, Any] = {
        "run": str(run.path),
        "state": status["state"] + (f", {status['restarts']} restarts" if status["restarts"] else ""),
        "started": local_time(info.get("started")),
        "took" if status["state"] not in UNFINISHED else "running for": took(run),
        # For a function, the command is a file of this package, which tells the user nothing.
        **({"function": info.get("name")} if (run.path / CALL).is_dir() else {"command": command}),
        "training": _training(info),
        "host": info.get("host"),
        **{task: _task_line(entry, info.get("host")) for task, entry in status["tasks"].items()},
        **_notes_by_subject(run),
        "last epoch": last_epoch(run),
        "speed": speed_of(run),
        "model": str(run.model_path) if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    if error:
        failure = Failure.from_dict(error)
        how = failure.shown_error or error["signal"] or f"exit code {error['exit_code']}"
        told = [f"{error['task']} at {local_time(error['time'])}: {how}", *failure.frames()]
        known["first failure"] = "\n  ".join(told)
        # An error of tfmuster says it itself.
        known["to do"] = error["fix"] if "\n  to do: " not in how else None
    return {visible(label): safe_text(str(value)) for label, value in known.items() if value}


def _training(info: dict[str, Any]) -> str | None:
    """Say what the options of a launch have made of the training; None without such an option."""
    if info.get("independent"):
        return f"each worker trains a model of its own ({Hint('independent', True)})"
    if info.get("distribute"):
        batch = "multiplied by the number of workers" if info.get("scale_batch") else "that of all workers"
        return f"all workers train one model ({Hint('distribute', True)}); batch_size is {batch}"
    return None


def document(run: Run) -> dict[str, Any]:
    """Return everything that a run directory says as one JSON document, for other programs."""
    odd = unreadable(run.path)
    return {
        "path": str(run.path),
        **run.info(),
        "status": run.status(),
        "history": run.history(),
        "notes": run.notes(),
        "error": run.error(),
        **({"unreadable": odd} if odd else {}),
    }


def _notes_by_subject(run: Run) -> dict[str, str]:
    """Return what was decided for the program: texts by what they are about, such as ``input``."""
    texts: dict[str, list[str]] = {}
    for note in run.notes():
        # After a restart the chief writes the same again.
        if note["text"] not in texts.setdefault(note["about"], []):
            texts[note["about"]].append(note["text"])
    return {about: "; ".join(each) for about, each in texts.items()}


def _task_line(entry: dict[str, Any], launcher: str | None) -> str:
    """Describe a task: its state, host (unless it is the launcher's), process and exit code."""
    code, host, pid, doing = (entry.get(key) for key in ("exit_code", "host", "pid", "doing"))
    text = str(entry["state"])
    text += f" on {host}" if host and host != launcher else ""
    text += f", process {pid}" if pid else ""
    text += f": {doing}" if doing else ""
    if code is None:
        return text
    return f"{text}, {signal_name(-code)}" if code < 0 else f"{text}, exit code {code}"


def took(run: Run) -> str:
    """Return how long a run took, or has taken so far; "" if that is not known."""
    seconds = seconds_of(run)
    return "" if seconds is None else in_words(seconds)


def run_table(folder: Folders | None = None, *, all: bool = False) -> list[dict[str, str]]:
    """Return a row of texts for each run of :func:`runs`.

    A row has ``name``, ``path``, ``state``, ``tasks`` (a count), ``started`` (UTC, as in ``run.json``),
    ``local`` (the same by the user's clock), ``took``, ``speed`` and ``progress``.
    """
    rows = []
    for run in runs(folder, all=all):
        status, started = run.status(), run.info().get("started", "")
        rows.append(
            {
                "name": run.name,
                "path": str(run.path),
                "state": str(status["state"]),
                "tasks": str(len(status["tasks"])),
                "started": str(started),
                "local": visible(local_time(started) or "")[:16],
                "took": took(run),
                "speed": speed_of(run),
                "progress": last_epoch(run),
            }
        )
    return rows
