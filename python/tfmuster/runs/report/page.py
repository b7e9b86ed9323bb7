"""Put together the sections of a report."""

from __future__ import annotations

import shlex
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from ..failure import Failure
from ..layout import UNFINISHED, utc_now
from ..listing import last_epoch
from ..records import unreadable
from ..run import Run
from ..states import read_events, read_shares
from ..tail import log_lines
from .charts import curves, timeline
from .elements import element, facts, table

_TAIL_LINES = 40
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
        _sums(run),
        _logs(run),
        _environment(info),
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", f"tfmuster: {run.name}"),
        element("style", _STYLE.read_text(encoding="utf-8")),
    )
    return element("html", head, element("body", *(part for part in parts if part is not None)), lang="en")


def _section(name: str, title: str, *parts: Element) -> Element:
    return element("section", element("h2", title), *parts, id=name)


def _head(run: Run, status: dict[str, Any]) -> Element:
    state = str(status["state"])
    badge = element("span", state, class_=f"state {state}")
    return element("header", element("h1", run.name, " ", badge), element("small", f"as of {utc_now()}"))


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
        element("p", f"at {error['time']}"),
        element("pre", text),
    )


def _summary(run: Run, info: dict[str, Any], status: dict[str, Any]) -> Element:
    known = {
        "started": info.get("started"),
        "took" if status["state"] not in UNFINISHED else "for": _duration(info, status),
        "command": shlex.join(map(str, info.get("command", []))),
        "directory": info.get("directory"),
        "run directory": run.path,
        "restarts": status["restarts"] or None,
        "last epoch": last_epoch(run),
        "model": run.model_path if run.model_path.exists() else None,
        "unreadable": unreadable(run.path),
    }
    return _section("summary", "Summary", facts({k: str(v) for k, v in known.items() if v}))


def _duration(info: dict[str, Any], status: dict[str, Any]) -> str | None:
    if "started" not in info:
        return None
    end = time.time()
    if status["state"] not in UNFINISHED and "updated" in status:
        end = datetime.fromisoformat(status["updated"]).timestamp()
    return f"{end - datetime.fromisoformat(info['started']).timestamp():.1f} s"


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


def _sums(run: Run) -> Element | None:
    rows = [
        (
            task,
            f"{shares['sum_share']:.0%}",
            f"{shares.get('wait_share', 0):.0%}",
            shares.get("waits_for", ""),
        )
        for task, shares in read_shares(run.path).items()
    ]
    head = ("task", "summing with the others", "of it waiting", "mostly for")
    return _section("sums", "Sums between workers, last epoch", table(head, rows)) if rows else None


def _logs(run: Run) -> Element:
    parts = []
    for task in run.log_paths():
        lines = [line.partition(" | ")[2] for line in log_lines(run, task, lines=_TAIL_LINES)]
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
