"""List the runs in a folder, and find one by its name."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from ...cluster.findings import printable
from ...errors import TfmusterError
from ...system.say import say
from ...system.terminal_text import visible
from ...words import Code, Value, Words
from ..lifecycle.removing import whose
from ..live.status import status_of
from ..record.layout import RUNS
from ..record.lines import figures_of, read_last_metrics
from ..record.recording import Documents, known_runs, written
from ..run import Run
from .summary import local_time, speed_of, took

#: More metrics would not fit a line.
_MOST_METRICS = 8

_HOURS = {"h": 1, "d": 24, "w": 24 * 7}

#: A folder of runs, or several.
Folders = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_LIST = Code("tfmuster.runs()", "run_list()", "tfmuster runs list")
_LIST_ALL = Code("tfmuster.runs(all=True)", "run_list(all = TRUE)", "tfmuster runs list --all")


def runs_in(folder: Folders = RUNS) -> list[Run]:
    """Return all runs in a folder or several, oldest first: their names begin with their times."""
    return _in_order(path for place in _each(folder) for path in _run_dirs(Path(place).absolute()))


def _run_dirs(folder: Path) -> Iterator[str]:
    # No Path for each of thousands of runs, which would take longer than to find them.
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from (entry.path for entry in entries if os.path.exists(f"{entry.path}/run.json"))


def _each(folder: Folders) -> Sequence[str | os.PathLike[str]]:
    return [folder] if isinstance(folder, str | os.PathLike) else folder


def _in_order(paths: Iterable[str]) -> list[Run]:
    return [Run(path) for path in sorted(paths, key=lambda path: (os.path.basename(path), path))]


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
    return _in_order({str(run.path) for run in here} | {str(path.absolute()) for path in known_runs()})


def find_run(
    name: str | os.PathLike[str] | None = None,
    folder: Folders | None = None,
    *,
    elsewhere: bool | None = None,
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
    changes : bool
        Whether the run is to be stopped, resumed or removed. Then a part of its name does not do. It is found
        by its full name, and in the folder also by the name that ``launch()`` got.

    Raises
    ------
    TfmusterError
        If no run matches, or only a part of the name is given with `changes` (reason ``part-of-name``).
    """
    # Unlike Path.exists, this allows names that are too long.
    if name and os.path.exists(Path(name, "run.json")):
        return Run(name)
    part = None if name is None else os.fspath(name)
    matching = _matching(runs_in(RUNS if folder is None else folder), part)
    away = not matching and (folder is None if elsewhere is None else elsewhere)
    if away:
        matching = _matching(runs(all=True), part)
    if changes and matching and (away or part is not None):
        matching = [_named(matching, part, away)]
    if not matching:
        places = ", ".join(map(str, _each(RUNS if folder is None else folder)))
        raise TfmusterError(
            "A run must be given by its name, a part of its name, or its path.",
            found=f"no run in {places} matches '{printable(part)}'" if part else f"no runs in {places}",
            fix=Words("List the runs with `{}`", _LIST)
            + (Words(", those in other folders with `{}`.", _LIST_ALL) if away else "."),
        )
    newest = matching[-1]
    if part is not None and len(matching) > 1:
        say(f"tfmuster: {len(matching)} runs match '{printable(part)}'; taking the newest, {newest.name}")
    elif away:
        say(f"tfmuster: taking {newest.path}")
    return newest


def _named(matching: Sequence[Run], name: str | None, away: bool) -> Run:
    """Return the one of these runs that has this name, and not only a part of it; else raise TfmusterError.

    Of several it is the only one that goes on. With `away`, they are in other folders.
    """
    named = [run for run in matching if name == run.name or (name == run.info().get("name") and not away)]
    going_on = [run for run in named if run.goes_on] if len(named) > 1 else named
    if len(going_on) == 1:
        return going_on[0]
    newest = matching[-1]
    if len(named) > 1:
        found = f"{len(named)} runs of this name"
    elif name is None:
        found = "no name"
    else:
        found = f"'{printable(name)}', a part of {len(matching)} {'name' if len(matching) == 1 else 'names'}"
    place = f"; the newest that matches is in {newest.path.parent}" if away else ""
    raise TfmusterError(
        "A run must be given by its full name to stop, resume or remove it.",
        found=found + place,
        fix=Words(
            "If you mean this run, write {}; list all with `{}`.",
            newest.path if named else Path(newest.name),
            _LIST_ALL if away else _LIST,
        ),
        run=str(newest.path),
        reason="part-of-name",
    )


def _matching(runs: list[Run], named: str | None) -> list[Run]:
    equal = [run for run in runs if named is None or named == run.name]
    return equal or [run for run in runs if named and named in run.name]


def ended_before(age: str, folder: Folders = RUNS) -> list[Run]:
    """Return this user's runs of a folder that ended longer ago than `age`, oldest first.

    `age` is a number and a unit: ``"12h"`` (hours), ``"30d"`` (days), ``"8w"`` (weeks). Raises TfmusterError
    if it is something else.
    """
    limit = _so_long_ago(age)
    return [
        run
        for run in runs_in(folder)
        if not whose(run.path) and not run.goes_on and _last_change(run) < limit
    ]


def newest_runs(
    folder: Folders | None = None,
    *,
    all: bool = False,
    limit: int | None = None,
    state: str | None = None,
    name: str | None = None,
    since: str | None = None,
) -> list[Run]:
    """Return the runs of :func:`runs`, newest first: at most `limit`, and those that all the others fit.

    `state` is that of the run, `name` a part of its name, and `since` the age of the oldest start, as in
    :func:`ended_before`. Only the files of the runs that are looked at are read.
    """
    begun = None if since is None else _so_long_ago(since)
    chosen = (
        run
        for run in reversed(runs(folder, all=all))
        if (name is None or name in run.name)
        and (begun is None or _started(run) >= begun)
        and (state is None or run.status()["state"] == state)
    )
    return list(itertools.islice(chosen, limit))


def _so_long_ago(age: str) -> datetime:
    """Return the time that was so long ago: ``"12h"``, ``"30d"``, ``"8w"``. Raises TfmusterError."""
    match = re.fullmatch(r"([0-9]{1,6})([hdw])", age.strip()) if isinstance(age, str) else None
    if match is None:
        raise TfmusterError(
            "An age must be a number and a unit.",
            found=str(Value(age)),
            fix="Write hours as 12h, days as 30d, weeks as 8w.",
        )
    hours = int(match[1]) * _HOURS[match[2]]
    # Python's calendar begins with the year 1.
    return datetime.now(timezone.utc) - timedelta(hours=min(hours, 1000 * 366 * 24))


def _started(run: Run) -> datetime:
    text = run.info().get("started")
    return datetime.fromisoformat(text) if text else written(run.path / "run.json")


def _last_change(run: Run) -> datetime:
    text = run.status().get("updated")
    return datetime.fromisoformat(text) if text else _started(run)


def run_paths(folder: Folders | None = None, *, all: bool = False) -> list[str]:
    """Return the paths of :func:`runs`."""
    return [str(run.path) for run in runs(folder, all=all)]


def _epoch(values: Mapping[str, Any]) -> str:
    """Return which epoch a line of metrics is of, with the training if it is not the first."""
    if not values:
        return ""
    return f"{values['epoch']}" if values["fit"] == 1 else f"fit {values['fit']}, {values['epoch']}"


def run_columns(chosen: Iterable[Documents], *, paths: bool) -> list[tuple[str, ...]]:
    """Return a table of runs, given by their documents: texts for a terminal. The first row has names.

    The runs are named, or have their `paths`. Each metric of their last epochs has a column, up to eight.
    """
    rows, metrics = [], []
    for documents in chosen:
        run_dir = documents.run_dir
        info, status, values = documents.info(), status_of(run_dir, documents), read_last_metrics(run_dir)
        rows.append(
            (
                str(run_dir) if paths else run_dir.name,
                str(status["state"]),
                (local_time(info.get("started", "")) or "")[:16],
                took(info, status),
                str(len(status["tasks"])),
                speed_of(run_dir),
                _epoch(values),
            )
        )
        metrics.append(figures_of(values))
    names = list(dict.fromkeys(itertools.chain(*metrics)))[:_MOST_METRICS]
    head = ("run", "state", "started", "took", "tasks", "speed", "epoch", *names)
    of_metrics = [tuple(figures.get(name, "") for name in names) for figures in metrics]
    table = [head, *(row + figures for row, figures in zip(rows, of_metrics, strict=True))]
    return [tuple(map(visible, row)) for row in table]
