"""Put together the sections of a report."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from ...system.tensorflow_import import HAVE_GPU
from ...system.terminal_text import is_chatter
from ..failure import Failure
from ..layout import UNFINISHED, utc_now
from ..listing import last_epoch, took
from ..records import unreadable
from ..run import Run
from ..speeds import speed_of, speed_text, speeds
from ..states import SPEEDS, read_events, read_shares
from ..tail import log_lines
from ..times import local_time
from .charts import curves, timeline
from .elements import element, facts, table

_TAIL_LINES = 40
#: How many lines are read, of which those of TensorFlow's native libraries are left out.
_READ_LINES = 400
#: How often a page about a run that continues is loaded anew, in seconds.
RENEWAL_SECONDS = 5
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = Path(__file__).with_name("style.css")


def page(run: Run) -> Element:
    """Make the whole page."""
    info, status = run.info(), run.status()
    parts = [
        _head(run, status),
        _failure(run),
        _summary(run, info, status),
        _cluster(info, status),
        _curves(run),
        _timeline(run, status),
        _workers(run),
        _logs(run),
        _environment(info),
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        *([_renewal()] if status["state"] in UNFINISHED else []),
        element("title", f"tfmuster: {run.name}"),
        element("style", _STYLE.read_text(encoding="utf-8")),
    )
    return element("html", head, element("body", *(part for part in parts if part is not None)), lang="en")


def _renewal() -> Element:
    """Let the browser load the page again: the launcher writes it anew while the run continues."""
    return element("meta", http_equiv="refresh", content=str(RENEWAL_SECONDS))


def _section(name: str, title: str, *parts: Element) -> Element:
    return element("section", element("h2", title), *parts, id=name)


def _head(run: Run, status: dict[str, Any]) -> Element:
    state = str(status["state"])
    badge = element("span", state, class_=f"state {state}")
    return element(
        "header", element("h1", run.name, " ", badge), element("small", f"as of {local_time(utc_now())}")
    )


def _failure(run: Run) -> Element | None:
    error = run.error()
    if error is None:
        return None
    failure = Failure.from_dict(error)
    text = "\n".join(str(failure).splitlines()[1:]).strip()
    return _section(
        "failure",
        "First failure",
        element("p", element("strong", failure.headline())),
        element("p", f"at {local_time(error['time'])}"),
        element("pre", text),
    )


def _summary(run: Run, info: dict[str, Any], status: dict[str, Any]) -> Element:
    known = {
        "started": local_time(info.get("started")),
        "took" if status["state"] not in UNFINISHED else "running for": took(run),
        "speed": speed_of(run),
        "command": shlex.join(map(str, info.get("command", []))),
        "directory": info.get("directory"),
        "run directory": run.path,
        "restarts": status["restarts"] or None,
        "last epoch": last_epoch(run),
        "model": run.model_path if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    return _section("summary", "Summary", facts({k: str(v) for k, v in known.items() if v}))


def _cluster(info: dict[str, Any], status: dict[str, Any]) -> Element:
    rows = []
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
    return _section("cluster", "Cluster", table(("task", "address", "host", "state", "exit code"), rows))


def _curves(run: Run) -> Element:
    pictures = curves(run.history())
    none = element("p", "No metrics: the program has not finished an epoch of fit().")
    return _section("curves", "Training", *(pictures or [none]))


def _timeline(run: Run, status: dict[str, Any]) -> Element | None:
    events = read_events(run.path)
    end = time.time() if status["state"] in UNFINISHED else 0.0
    picture = timeline(events, end)
    return None if picture is None else _section("timeline", "Timeline", picture)


def _workers(run: Run) -> Element | None:
    """Make the table of how fast each task trains, and how long it waits for others."""
    fast, shares = speeds(run), read_shares(run.path)
    rows = []
    for task in read_events(run.path):
        if task not in fast and task not in shares:
            continue
        share = shares.get(task, {})
        rows.append(
            (
                task,
                _speeds_text(fast.get(task, {})),
                f"{share['sum_share']:.0%}" if share else "",
                f"{share.get('wait_share', 0):.0%}" if share else "",
                share.get("waits_for", ""),
            )
        )
    head = ("task", "speed", "summing with the others", "of it waiting", "mostly for")
    return _section("workers", "Speed and waiting, last training", table(head, rows)) if rows else None


def _speeds_text(told: dict[str, Any]) -> str:
    texts = [speed_text({name: told[name]}) for name in reversed(SPEEDS) if name in told]
    return ", ".join(texts)


def _logs(run: Run) -> Element:
    parts = []
    for task in run.log_paths():
        said = [line.partition(" | ")[2] for line in log_lines(run, task, lines=_READ_LINES)]
        lines = [line for line in said if not is_chatter(line, gpu=HAVE_GPU)][-_TAIL_LINES:]
        summary = element("summary", f"{task}, its last {len(lines)} lines")
        parts.append(element("details", summary, element("pre", "\n".join(lines)), open="open"))
    return _section("logs", "Output", *parts)


def _environment(info: dict[str, Any]) -> Element:
    known = {str(name): str(version) for name, version in info.get("versions", {}).items()}
    if "git" in info:
        changed = ", with changes" if info["git"]["changed"] else ""
        known["git commit"] = f"{info['git']['commit']}{changed}"
    known["host"] = str(info.get("host", ""))
    return _section("environment", "Environment", facts(known))
