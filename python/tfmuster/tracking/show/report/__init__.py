"""Write one HTML page about a run, for a browser or RStudio's viewer, or to attach to an issue.

The page loads nothing and has no scripts, and its security policy forbids both. Charts are inline SVG. The
templates of ``templates/`` escape all values, so that no log line and no name can become markup.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import TfmusterError
from ....system.replace import replacing_file
from ....system.say import say
from ....system.tensorflow_import import HAVE_GPU
from ....system.terminal_text import is_chatter
from ....words import Code, Words
from ...failure.failure import Failure
from ...live.states import read_events, read_shares, speed_text
from ...record.history import read_history
from ...record.layout import UNFINISHED, utc_now
from ...record.recording import unreadable
from ...run import Run
from ..facts import facts, last_noted
from ..summary import last_epoch, local_time, speed_of, speeds, took
from ..tail import cut_lines, folded
from .charts import curves, timeline
from .epochs import best_epoch, epoch_table

if TYPE_CHECKING:
    from jinja2 import Template

REPORT = "report.html"

_TAIL_LINES = 40
#: How many lines are read, of which those of TensorFlow's native libraries are left out.
_READ_LINES = 400
#: How often a browser loads a page about a run that continues again, in seconds.
RENEWAL_SECONDS = 5

_TEMPLATES = Path(__file__).with_name("templates")
#: Characters that neither HTML nor XML allows.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def report_html(run: Run) -> str:
    """Return the page as text."""
    return template("page.html").render(_content(run))


@cache
def template(name: str) -> Template:
    """Return a template of pages, which escapes all values."""
    # Only a report needs it, and its import takes 0.1 s of the command line's start.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def clean(value: object) -> object:
        """Replace characters that a page can't hold."""
        if isinstance(value, str) and not isinstance(value, Markup):
            return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
        return value

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=clean,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["px"] = lambda value: f"{value:.1f}"
    return environment.get_template(name)


def write_report(run: Run, path: str | os.PathLike[str] | None = None) -> str:
    """Write the report of a run, one HTML page, to a file.

    Parameters
    ----------
    run : Run
        The run. You can report on it again while it is running.
    path : path, optional
        File to write or replace. Default: ``report.html`` in the run directory.

    Returns
    -------
    str
        The absolute path of the file.

    Raises
    ------
    TfmusterError
        If the file can't be written.
    """
    return write_page(run.path / REPORT if path is None else path, report_html(run), option="--output")


def write_page(path: str | os.PathLike[str], text: str, *, option: str) -> str:
    """Write a page to a file, which the command line takes as `option`, and return its absolute path."""
    target = Path(path).absolute()
    try:
        # The page may be open in a browser, which loads it again while the run continues.
        with replacing_file(target) as file:
            file.write(text.encode())
    except OSError as error:
        raise TfmusterError(
            f"The report {target} can't be written.",
            found=error.strerror,
            fix=Words(
                "Name another file with {}, in a folder that you can write to.",
                Code("path", "path", option),
            ),
        ) from error
    return str(target)


class ReportRenewal:
    """Replaces ``report.html`` in a run directory if it is there. No failure of it ends the job.

    Any program can write to the run, so its files may hold anything.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._failed = False

    def renew(self, *, at_once: bool = False) -> None:
        """Replace the page if it is some seconds old or, `at_once`, however old it is."""
        if self._failed and not at_once:
            return
        try:
            age = time.time() - (self._run.path / REPORT).stat().st_mtime
            if at_once or age > RENEWAL_SECONDS:
                write_report(self._run)
        except (OSError, TfmusterError, ImportError):
            # Nobody has asked for a page, or another environment has written it, and this one has no jinja2.
            return
        except Exception as error:
            self._failed = True
            say(f"tfmuster: the report can't be renewed: {type(error).__name__}: {error}")


def _content(run: Run) -> dict[str, Any]:
    """Return the values of ``page.html``."""
    info, status = run.info(), run.status()
    unfinished = status["state"] in UNFINISHED
    history = read_history(run.path)
    best = best_epoch(history)
    return {
        "name": run.name,
        "state": str(status["state"]),
        "now": local_time(utc_now()),
        "renewal": RENEWAL_SECONDS if unfinished else None,
        "failure": _failure(run),
        "summary": _summary(run, info, status),
        "layers": last_noted(run, "model summary").get("value"),
        "cluster": _cluster(info, status),
        "curves": curves(history, best and best.at),
        "best": best,
        "epochs": epoch_table(history, best),
        "timeline": timeline(read_events(run.path), time.time() if unfinished else 0.0),
        "workers": _workers(run),
        "logs": _logs(run),
        "unfinished": unfinished,
        "environment": _environment(info),
    }


def _failure(run: Run) -> dict[str, Any] | None:
    if (error := run.error()) is None:
        return None
    failure = Failure.from_dict(error)
    text = "\n".join(str(failure).splitlines()[1:]).strip()
    return {"headline": failure.headline(), "time": local_time(error["time"]), "text": text}


def _summary(run: Run, info: dict[str, Any], status: dict[str, Any]) -> dict[str, str]:
    known = {
        "started": local_time(info.get("started")),
        "took" if status["state"] not in UNFINISHED else "running for": took(info, status),
        "speed": speed_of(run.path),
        "command": shlex.join(map(str, info.get("command", []))),
        "directory": info.get("directory"),
        "run directory": run.path,
        "restarts": status["restarts"] or None,
        # A page may be sent to others.
        **facts(run, with_env=False),
        "last epoch": last_epoch(run),
        "model": run.model_path if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    return {label: str(value) for label, value in known.items() if value}


def _cluster(info: dict[str, Any], status: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each task: its name, address, host, state and exit code."""
    rows: list[tuple[str, ...]] = []
    for job, addresses in info.get("cluster", {}).items():
        for index, address in enumerate(addresses):
            entry = status["tasks"].get(f"{job} {index}", {})
            code = entry.get("exit_code")
            rows.append(
                (
                    f"{job} {index}",
                    str(address),
                    str(entry.get("host") or info.get("host", "")),
                    str(entry.get("doing") or entry.get("state", "")),
                    "" if code is None else str(code),
                )
            )
    return rows


def _workers(run: Run) -> list[tuple[str, ...]]:
    """Return how fast each task trains, and how long it waits for others."""
    fast, shares = speeds(run), read_shares(run.path)
    rows: list[tuple[str, ...]] = []
    for task in read_events(run.path):
        if task not in fast and task not in shares:
            continue
        share = shares.get(task, {})
        texts = [speed_text({name: speed}) for name, speed in reversed(fast.get(task, {}).items())]
        rows.append(
            (
                task,
                ", ".join(texts),
                f"{share['sum_share']:.0%}" if share else "",
                f"{share.get('wait_share', 0):.0%}" if share else "",
                share.get("waits_for", ""),
            )
        )
    return rows


def _logs(run: Run) -> dict[str, Any]:
    """Return the last lines of all tasks, without those of TensorFlow's native libraries; alike ones once."""
    ends = {
        task: [line for line in cut_lines(text) if not is_chatter(line, gpu=HAVE_GPU)][-_TAIL_LINES:]
        for task, text in run.logs(lines=_READ_LINES).items()
    }
    return {"tasks": list(ends), "lines": folded(ends), "most": max(map(len, ends.values()), default=0)}


def _environment(info: dict[str, Any]) -> dict[str, str]:
    known = {str(name): str(version) for name, version in info.get("versions", {}).items()}
    return {**known, "host": str(info.get("host", ""))}
